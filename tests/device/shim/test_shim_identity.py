"""Which kernel a launch is, by whatever road its handle came: the same in every process, another after another load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shim_daemon import Daemon, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
ROADS = """
from graph_child import *
import os, struct
context()
NOTHING = (None, None, 0, None, None, 0)
path = os.environ["IMAGE"]
def launch(function):
    check(cu.cuLaunchKernel(ctypes.c_void_p(function), 1, 1, 1, 32, 1, 1, 0, None, ARGUMENTS, None))
def of_module(module, name=b"fikit_spin"): return made(call("cuModuleGetFunction", ctypes.c_void_p(module), name))
def kernel_of(library, name=b"fikit_spin"): return made(call("cuLibraryGetKernel", ctypes.c_void_p(library), name))
def library(image=PTX): return made(call("cuLibraryLoadData", image, *NOTHING))
def module_of(library): return made(call("cuLibraryGetModule", ctypes.c_void_p(library)))
def function_of(kernel): return made(call("cuKernelGetFunction", ctypes.c_void_p(kernel)))
def enumerated_kernels(library):
    kernels = (ctypes.c_void_p * 3)()
    check(cu.cuLibraryEnumerateKernels(kernels, 3, ctypes.c_void_p(library)))
    return kernels
def enumerated_functions(module):
    functions = (ctypes.c_void_p * 3)()
    check(cu.cuModuleEnumerateFunctions(functions, 3, ctypes.c_void_p(module)))
    return functions
def fat_binary(ptx):
    entry = struct.pack("<HHIQ", 1, 0x101, 16, len(ptx)) + ptx
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry
def wrapper(of):
    buffer = ctypes.create_string_buffer(of, len(of))
    keep.append(buffer)
    return struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(buffer), 0)
keep = []
def linked():
    state, size, out = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
    check(cu.cuLinkCreate_v2(0, None, None, ctypes.byref(state)))
    check(cu.cuLinkAddData_v2(state, 1, PTX, ctypes.c_size_t(len(PTX) + 1), b"one", 0, None, None))
    check(cu.cuLinkComplete(state, ctypes.byref(out), ctypes.byref(size)))
    return out
"""


def kernels(code: str, on_gpu: Start, fikitd: Daemon, tmp_path: Path) -> list[dict[str, Any]]:
    """What fikitd was told about a program's kernels, in the order of their first launch."""
    image = tmp_path / "image.ptx"
    if not image.exists():
        image.write_bytes(PTX)
    on_gpu(ROADS + code + "\ncheck(cu.cuCtxSynchronize())", fikitd, IMAGE=str(image)).finish()
    launched = sum(1 for slot in range(1, 4096) if fikitd.page().u64("slot_launches", slot))
    wait_for(lambda: len(fikitd.kernels) >= launched, "descriptions")
    return [kernel for _, kernel in sorted(fikitd.kernels.items())]


PTX = b".version 8.0\n.target sm_90\n.address_size 64\n" + b"".join(
    b".visible .entry %b(.param .u64 ns) { ret; }\n" % name
    for name in (b"fikit_spin", b"second", b"ncclDevKernel_AllReduce")
)


def test_every_road_to_a_kernel_gives_it_the_same_identity(on_gpu: Start, daemon: StartDaemon, tmp_path: Path) -> None:
    fikitd = daemon()
    code = """
launch(of_module(made(call("cuModuleLoadData", PTX))))
launch(of_module(made(call("cuModuleLoadDataEx", PTX, 0, None, None))))
launch(of_module(made(call("cuModuleLoad", path.encode()))))
launch(kernel_of(library()))
launch(kernel_of(made(call("cuLibraryLoadFromFile", path.encode(), *NOTHING))))
launch(function_of(kernel_of(library())))
launch(of_module(module_of(library())))
launch(enumerated_kernels(library())[0])
launch(enumerated_functions(made(call("cuModuleLoadData", PTX)))[0])
"""
    (kernel,) = kernels(code, on_gpu, fikitd, tmp_path)
    assert kernel["name"] == "fikit_spin"
    assert kernel["module"] != 0
    assert fikitd.page().u64("slot_launches", 1) == 9


def test_fat_binaries_and_their_wrappers_are_known_by_their_content(
    on_gpu: Start, daemon: StartDaemon, tmp_path: Path
) -> None:
    code = """
one, two = fat_binary(PTX), fat_binary(PTX + b"// changed")
for image in (one, wrapper(one), two, wrapper(two)):
    launch(of_module(made(call("cuModuleLoadData", image))))
launch(of_module(made(call("cuModuleLoadFatBinary", one))))
launch(kernel_of(library(wrapper(two))))
"""
    first, second = kernels(code, on_gpu, daemon(), tmp_path)
    assert 0 != first["module"] != second["module"] != 0


def test_what_the_linker_made_is_the_same_in_every_process(on_gpu: Start, daemon: StartDaemon, tmp_path: Path) -> None:
    code = "launch(of_module(made(call('cuModuleLoadData', linked()))))\nlaunch(kernel_of(library(linked())))"
    runs = [kernels(code, on_gpu, daemon(), tmp_path) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 1
    assert runs[0][0]["module"] != 0


@pytest.mark.parametrize(
    "code",
    [
        """
for name in (b"fikit_spin", b"second"):
    module = made(call("cuModuleLoadData", PTX + b"// " + name))
    launch(of_module(module, name))
    check(cu.cuModuleUnload(ctypes.c_void_p(module)))
""",
        """
for name in (b"fikit_spin", b"second"):
    loaded = library(PTX + b"// " + name)
    launch(kernel_of(loaded, name)); launch(function_of(kernel_of(loaded, name))); launch(of_module(module_of(loaded), name))
    check(cu.cuLibraryUnload(ctypes.c_void_p(loaded)))
""",
    ],
    ids=["module", "library"],
)
def test_another_load_is_another_kernel_also_when_its_handles_are_reused(
    code: str, on_gpu: Start, daemon: StartDaemon, tmp_path: Path
) -> None:
    seen = kernels(code, on_gpu, daemon(), tmp_path)
    assert [kernel["name"] for kernel in seen] == ["fikit_spin", "second"]
    assert seen[0]["module"] != seen[1]["module"]


def test_the_same_image_loaded_again_is_the_same_kernel(on_gpu: Start, daemon: StartDaemon, tmp_path: Path) -> None:
    code = """
for _ in range(3):
    loaded = library()
    launch(kernel_of(loaded))
    check(cu.cuLibraryUnload(ctypes.c_void_p(loaded)))
"""
    assert len(kernels(code, on_gpu, daemon(), tmp_path)) == 1


def test_a_changed_file_is_another_module(on_gpu: Start, daemon: StartDaemon, tmp_path: Path) -> None:
    code = """
launch(of_module(made(call("cuModuleLoad", path.encode()))))
open(path, "ab").write(b"// recompiled")
launch(of_module(made(call("cuModuleLoad", path.encode()))))
"""
    one, two = kernels(code, on_gpu, daemon(), tmp_path)
    assert one["name"] == two["name"]
    assert one["module"] != two["module"]
