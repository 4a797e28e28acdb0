"""A program with two copies of the driver: the second one is left alone, since the handles of one mean nothing to the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]

HEAD = """
import ctypes, sys
pointer = ctypes.c_void_p
def opened(path, how):
    if how == "path":
        return ctypes.CDLL(path)
    dlmopen = ctypes.CDLL(None).dlmopen
    dlmopen.restype, dlmopen.argtypes = pointer, [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
    handle = dlmopen(-1, path.encode(), 2)
    assert handle, path
    return ctypes.CDLL(path, handle=handle)
def use(driver):
    context, module, function = pointer(), pointer(), pointer()
    answers = [driver.cuInit(0), driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
               driver.cuModuleLoadData(ctypes.byref(module), b".version 8.0"),
               driver.cuModuleGetFunction(ctypes.byref(function), module, b"k"),
               driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)]
    assert answers == [0] * 5, answers
def same(driver):
    "The objects that hold its functions; handled by the shim are all but the first."
    class Info(ctypes.Structure):
        _fields_ = [("file", ctypes.c_char_p), ("base", pointer), ("name", ctypes.c_char_p), ("address", pointer)]
    bases = set()
    for name in ("cuDriverGetVersion", "cuInit", "cuCtxCreate_v2", "cuLaunchKernel", "cuGetProcAddress_v2", "cuMemAlloc_v2"):
        info = Info()
        assert ctypes.CDLL(None).dladdr(ctypes.cast(getattr(driver, name), pointer), ctypes.byref(info))
        bases.add((info.file.decode(), info.base))
    return bases
how, first, second = sys.argv[1:]
"""
LINE = "fikit: what this program runs by {} runs without priorities: it is a second copy of the CUDA driver in this process.\n"


@pytest.fixture
def second(fake_cuda: Path, tmp_path: Path) -> Path:
    (tmp_path / "compat").mkdir()
    return Path(shutil.copy(fake_cuda, tmp_path / "compat" / fake_cuda.name))


def run(code: str, env: dict[str, str], fikitd: Daemon, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**env, "FIKIT_SOCKET": str(fikitd.path)}
    command = [sys.executable, "-c", HEAD + code, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("how", ["path", "namespace", "namespace, same file"])
def test_second_copy_passes_and_one_line_says_so(
    how: str, fake_cuda: Path, second: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    fikitd, other = daemon(), fake_cuda if "same" in how else second
    code = """
cu = ctypes.CDLL("libcuda.so.1")
use(cu)
for _ in range(2):
    copy = opened(second, how)
    use(copy)
    [(file, _)] = same(copy)
    assert file == second, file
use(cu)
"""
    done = run(code, shim_env(), fikitd, how, fake_cuda, other)
    assert (done.returncode, done.stderr) == (0, LINE.format(other))
    assert fikitd.page().launches() == 2


@pytest.mark.parametrize("way", ["dlvsym", "proc"])
def test_second_copy_is_asked_in_other_ways(
    way: str, fake_cuda: Path, second: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    """By its own cuGetProcAddress; by a version that nobody has."""
    fikitd = daemon()
    code = f"""
cu = ctypes.CDLL("libcuda.so.1")
use(cu)
copy = opened(second, how)
if {way!r} == "proc":
    got, status = pointer(), ctypes.c_int()
    assert copy.cuGetProcAddress_v2(b"cuLaunchKernel", ctypes.byref(got), 12000, ctypes.c_ulonglong(0), ctypes.byref(status)) == 0
    assert got.value == ctypes.cast(copy.cuLaunchKernel, pointer).value
else:
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype, dlvsym.argtypes = pointer, [pointer, ctypes.c_char_p, ctypes.c_char_p]
    assert dlvsym(copy._handle, b"cuLaunchKernel", b"NOBODYS_1") is None
"""
    done = run(code, shim_env(), fikitd, "namespace", fake_cuda, second)
    assert done.returncode == 0, done.stderr


def test_first_copy_in_a_namespace_leaves_the_programs_own_managed(
    fake_cuda: Path, second: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    """Which driver the process has is not decided by what another namespace has opened."""
    fikitd = daemon()
    code = (
        "copy = opened(second, how)\nuse(copy)\ncu = ctypes.CDLL(first)\nuse(cu)\nassert len(same(cu)) == 2\nuse(copy)"
    )
    done = run(code, shim_env(), fikitd, "namespace", fake_cuda, second)
    assert (done.returncode, done.stderr) == (0, LINE.format(second))
    assert fikitd.page().launches() == 1


def test_version_probe_of_a_second_copy_says_nothing(
    fake_cuda: Path, second: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    code = (
        "use(ctypes.CDLL('libcuda.so.1'))\nv = ctypes.c_int()\n"
        "assert opened(second, how).cuDriverGetVersion(ctypes.byref(v)) == 0 and v.value == 12080"
    )
    done = run(code, shim_env(), daemon(), "path", fake_cuda, second)
    assert (done.returncode, done.stderr) == (0, "")


def test_second_nvml_answers_for_itself(
    cc: Compile, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    """One copy's handles came to the other copy's functions; one that is closed and opened again stays with the shim."""
    source = tmp_path / "two_devices.c"
    source.write_text(
        "static int device;\n"
        "int nvmlDeviceGetUUID(void *d, char *text, unsigned bytes) { (void)d, (void)text, (void)bytes; return 3; }\n"
        "int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *memory) { memory[0] = 7; return d == &device ? 0 : 2; }\n"
        "void *fake_device(void) { return &device; }\n"
    )
    library = cc(source, "-shared", "-fPIC")
    copies = [tmp_path / name / "libnvidia-ml.so.1" for name in ("one", "two")]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy(library, copy)
    code = """
import _ctypes
def asked(nvml):
    nvml.fake_device.restype = pointer
    return nvml.nvmlDeviceGetMemoryInfo(pointer(nvml.fake_device()), (ctypes.c_ulonglong * 4)())
def own(nvml):
    shim = ctypes.CDLL("libcuda.so.1")
    class Info(ctypes.Structure):
        _fields_ = [("file", ctypes.c_char_p), ("base", pointer), ("name", ctypes.c_char_p), ("address", pointer)]
    info = Info()
    assert ctypes.CDLL(None).dladdr(ctypes.cast(nvml.nvmlDeviceGetMemoryInfo, pointer), ctypes.byref(info))
    return info.file.decode().endswith("libfikit_shim.so")
one, two, apart = opened(first, "path"), opened(second, "path"), opened(second, "namespace")
print([own(each) for each in (one, two, apart)], [asked(each) for each in (one, two, apart, one)])
_ctypes.dlclose(one._handle)
_ctypes.dlclose(two._handle)
again = opened(second, "path")
print(own(again), asked(again))
"""
    done = run(code, shim_env(), daemon(), "path", *copies)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[True, False, False] [0, 0, 0, 0]\nTrue 0\n", "")
