"""Every road by which programs reach the driver ends in the shim, and other look-ups keep their meaning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_program import DRIVER_FLAGS, FAKE_CUDA, Program

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"


@pytest.fixture(scope="module")
def linked(cc: Compile, fake_cuda: Path) -> Path:
    return cc(SOURCES / "shim_loads.c", "-DLINKED", f"-L{fake_cuda.parent}", "-lcuda")


@pytest.fixture(scope="module")
def linked_rpath(cc: Compile, fake_cuda: Path) -> Path:
    flags = (f"-L{fake_cuda.parent}", "-lcuda", f"-Wl,-rpath,{fake_cuda.parent},--disable-new-dtags")
    return cc(SOURCES / "shim_loads.c", "-DLINKED", *flags)


@pytest.fixture(scope="module")
def loader(cc: Compile) -> Path:
    return cc(SOURCES / "shim_loads.c")


@pytest.fixture(scope="module")
def inner(cc: Compile) -> Path:
    return cc(SOURCES / "shim_loads.c", "-DINNER", "-shared", "-fPIC")


def launches(daemon: StartDaemon, env: dict[str, str], *command: str | Path) -> int:
    fikitd = daemon()
    subprocess.run(command, env={**env, "FIKIT_SOCKET": str(fikitd.path)}, check=True, timeout=20)
    return fikitd.page().launches()


@pytest.mark.parametrize("way", ["linked", "next", "default"])
def test_program_linked_with_the_driver(way: str, linked: Path, shim_env: Environment, daemon: StartDaemon) -> None:
    assert launches(daemon, shim_env(), linked, way) == 1


def test_program_linked_with_an_rpath(linked_rpath: Path, shim_env: Environment, daemon: StartDaemon) -> None:
    assert launches(daemon, shim_env(LD_LIBRARY_PATH=""), linked_rpath, "linked") == 1


@pytest.mark.parametrize("way", ["name", "devel", "global", "proc1", "proc1 per thread", "proc2", "proc2 per thread"])
def test_program_that_opens_the_driver(way: str, loader: Path, shim_env: Environment, daemon: StartDaemon) -> None:
    assert launches(daemon, shim_env(), loader, way) == 1


def test_program_that_opens_the_driver_by_path(
    loader: Path, fake_cuda: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    assert launches(daemon, shim_env(LD_LIBRARY_PATH=""), loader, "path", fake_cuda) == 1


@pytest.mark.parametrize("way", ["name", "devel", "proc1", "proc2", "proc2 per thread"])
def test_library_that_opens_the_driver(
    way: str, loader: Path, inner: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    """As the shared CUDA runtime does, and a library that holds the static one (cuBLAS)."""
    assert launches(daemon, shim_env(), loader, "in:local", inner, way) == 1


@pytest.mark.parametrize("way", ["name", "proc1", "proc2", "proc2 per thread"])
def test_library_opened_with_deepbind(
    way: str, loader: Path, inner: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    assert launches(daemon, shim_env(), loader, "in:deepbind", inner, way) == 1


@pytest.fixture(scope="module")
def versioned_driver(cc: Compile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = f"-Wl,--version-script={SOURCES / 'shim_versions.map'}"
    library = cc(*FAKE_CUDA, script)
    target = tmp_path_factory.mktemp("versioned") / "libcuda.so.1"
    target.write_bytes(library.read_bytes())
    return target


@pytest.mark.parametrize("way", ["version", "version path"])
def test_program_that_asks_for_a_version(
    way: str, loader: Path, versioned_driver: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(LD_LIBRARY_PATH=str(versioned_driver.parent))
    assert launches(daemon, env, loader, way, versioned_driver) == 1


@pytest.mark.parametrize("preload", [True, False])
def test_version_that_the_driver_lacks_is_null(
    preload: bool, cc: Compile, shim_env: Environment, versioned_driver: Path, tmp_path: Path
) -> None:
    source = tmp_path / "version.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n"
        'void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);\n'
        'printf("%d %d %d %d\\n", !!dlvsym(cuda, "cuLaunchKernel", "STAND_IN_2"), !!dlvsym(cuda, "cuNothing", "STAND_IN_1"),\n'
        '  !!dlvsym(cuda, "cuCtxGetSharedMemConfig", "STAND_IN_1"), !!dlvsym(libc, "memcpy", "GLIBC_2.14"));\nreturn 0; }\n'
    )
    env = shim_env(LD_LIBRARY_PATH=str(versioned_driver.parent))
    if not preload:
        del env["LD_PRELOAD"]
    assert subprocess.check_output([cc(source)], env=env, text=True, timeout=20) == "0 0 0 1\n"


def test_next_keeps_its_meaning_for_other_names(cc: Compile, shim_env: Environment) -> None:
    second = cc(SOURCES / "shim_next.c", "-shared", "-fPIC")
    first = cc(
        SOURCES / "shim_next.c",
        "-DFIRST",
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        str(second),
        f"-Wl,-rpath,{second.parent}",
    )
    main = cc(SOURCES / "shim_next_main.c", "-Wl,--no-as-needed", str(first), str(second), f"-Wl,-rpath,{first.parent}")
    out = subprocess.check_output([main], env=shim_env(), text=True)
    assert out == "the second library\n"


def test_name_that_the_driver_lacks_is_null_and_500(program: Start) -> None:
    out, _ = program(
        "say(hasattr(cu, 'cuInit'), hasattr(cu, 'cuCtxGetSharedMemConfig'), hasattr(cu, 'cuGraphExecUpdate'))\n"
        "whole = ctypes.CDLL(None)\n"
        "from ctypes import c_void_p\n"
        "import subprocess\n"
        "say(hasattr(whole, 'cuLaunchKernelEx'), hasattr(whole, 'cuLaunchKernelEx_ptsz'))"
    ).finish()
    assert out == "True False False\nTrue False\n"


def test_missing_function_of_a_linked_program_returns_an_error(
    cc: Compile, fake_cuda: Path, shim_env: Environment, shim: Path, tmp_path: Path
) -> None:
    source = tmp_path / "missing.c"
    source.write_text(
        "int cuCtxGetSharedMemConfig(void *, unsigned long);\nint main(void) { return cuCtxGetSharedMemConfig(0, 1) == 500 ? 0 : 1; }"
    )
    program = cc(source, str(shim))
    subprocess.run([program], env=shim_env(), check=True, timeout=20)


def test_vector_and_unknown_arguments_pass_untouched(program: Start) -> None:
    """cuParamSetf is not handled: its float travels in a vector register through the lazy stub and the jump."""
    source = (
        "import subprocess\nlazy = ctypes.CDLL(os.environ['LD_PRELOAD'])\n"
        "own = ctypes.cast(lazy.cuInit, ctypes.c_void_p).value\n"
        "say(cu.cuParamSetf(None, 3, ctypes.c_float(1.5)), cu.cuParamSetf(None, 4, ctypes.c_float(2.5)))"
    )
    assert program(source).finish()[0] == "6 9\n"


def test_arguments_in_registers_and_beyond_pass_untouched(cc: Compile, shim_env: Environment, tmp_path: Path) -> None:
    """Also when looking the name up, in the first call, spoils every register that it may."""
    source, driver = SOURCES / "shim_registers.c", tmp_path / "libcuda.so.1"
    driver.write_bytes(cc(source, "-DDRIVER", *DRIVER_FLAGS).read_bytes())
    program = cc(source, f"-L{tmp_path}", "-l:libcuda.so.1")
    env = shim_env(LD_LIBRARY_PATH=str(tmp_path))
    alone = {name: value for name, value in env.items() if name != "LD_PRELOAD"}
    said = [subprocess.check_output([program], env=each, text=True) for each in (alone, env)]
    assert said[0]
    assert said[0] == said[1]


def test_proc_address_answers_by_version_and_flavour(program: Start) -> None:
    out, _ = program(
        """
def ask(name, version, flags, first="cuGetProcAddress_v2"):
    pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
    result = getattr(cu, first)(name.encode(), ctypes.byref(pointer), version, ctypes.c_ulonglong(flags), ctypes.byref(status))
    return result, status.value, pointer.value
def own(name):
    return ctypes.cast(getattr(cu, name), ctypes.c_void_p).value
def real(name):
    return ctypes.cast(getattr(fake, name), ctypes.c_void_p).value
say(ask("cuLaunchKernel", 4000, 0) == (0, 0, own("cuLaunchKernel")))
say(ask("cuLaunchKernel", 12080, 2) == (0, 0, own("cuLaunchKernel_ptsz")))
say(ask("cuGetProcAddress", 11030, 0)[2] == own("cuGetProcAddress"))
say(ask("cuGetProcAddress", 12000, 0)[2] == own("cuGetProcAddress_v2"))
say(ask("cuInit", 12000, 0)[2] == real("cuInit"))
say(ask("cuCtxSynchronize", 13000, 0)[2] == own("cuCtxSynchronize"))
say(ask("cuGraphInstantiate", 12080, 0)[2] == own("cuGraphInstantiateWithFlags"))  # as cuda.h has it since 12.0
say(ask("cuNoSuchCall", 12000, 0) == (500, 1, None), ask("", 0, 0)[0] == 500)
fake.fake_version(13000)  # by its headers it answers with the next form of this one from now on
say(ask("cuCtxSynchronize", 13000, 0)[2] == own("cuCtxSynchronize"))
"""
    ).finish()
    assert out.split() == ["True"] * 10


def test_machine_without_a_driver(shim_env: Environment) -> None:
    code = (
        "import ctypes; cu = ctypes.CDLL('libcuda.so.1'); v = ctypes.c_int(7); "
        "print(cu.cuInit(0), cu.cuDriverGetVersion(ctypes.byref(v)), v.value, cu.cuLaunchKernel())"
    )
    env = shim_env(LD_LIBRARY_PATH="")
    if subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.find("libcuda.so.1") >= 0:
        pytest.skip("this machine has a driver")
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("100 0 0 100\n", "")


def test_programs_without_cuda_are_not_touched(shim_env: Environment, tmp_path: Path) -> None:
    result = subprocess.run(
        ["bash", "-c", "ls /proc/self/fd; true"],
        env=shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    assert result.stdout.split() == ["0", "1", "2", "3"]
