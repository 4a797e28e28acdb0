"""The emulated GPU is never taken for a real one: it lies where no program looks for a driver, and says what it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from emulator_tools import ROOT

Env = Callable[..., dict[str, str]]
BUILD = ROOT / "build/native"
DRIVERS = ("libcuda.", "libnvidia-ml.")


def test_package_has_the_drivers_in_a_directory_of_its_own() -> None:
    files = [file for file in distribution("fikit").files or [] if file.name.startswith(DRIVERS)]
    assert {file.name for file in files} == {"libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1"}
    assert {str(file.parent) for file in files} == {"fikitd/native/emulator"}


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="there is no build directory here")
def test_install_puts_the_drivers_where_nobody_looks_for_one(tmp_path: Path) -> None:
    command = ["cmake", "--install", str(BUILD), "--prefix", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    installed = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.name.startswith(DRIVERS)]
    assert len(installed) == 3
    assert {str(path.parent) for path in installed} == {"fikitd/native/emulator"}
    assert not list(tmp_path.rglob("*.conf")), "nothing for the dynamic linker's configuration"


def test_loader_does_not_find_it_by_itself(native: Path) -> None:
    code = (
        "import ctypes\n"
        "for name in ('libcuda.so.1', 'libcuda.so', 'libnvidia-ml.so.1'):\n"
        "    try: ctypes.CDLL(name)\n"
        "    except OSError: pass\n"
        "print(open('/proc/self/maps').read())"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    out = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
    assert str(native / "emulator") not in out


def test_private_tables_are_refused_with_one_line(emulator_env: Env) -> None:
    code = (
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); table = ctypes.c_void_p(1)\n"
        "for id in (b'\\0' * 16, bytes(range(16))):\n"
        "    assert cuda.cuGetExportTable(ctypes.byref(table), id) == 500 and table.value is None"
    )
    done = subprocess.run([sys.executable, "-c", code], env=emulator_env(), check=True, capture_output=True, text=True)
    assert done.stderr == (
        "emucuda: cuGetExportTable is refused: the emulated GPU has none of NVIDIA's private interfaces, "
        "so programs that use the CUDA runtime (cudart) do not run on it; driver API programs do\n"
    )
