"""The doctor's look at a machine's GPUs. The emulator's libraries stand in for a machine's own: in another folder than ours."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fikit.checks import gpu
from fikit.checks.check import Check


@pytest.fixture
def machine(
    native: Path, emulator_env: Callable[..., dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Where the machine's own driver and NVML are."""
    folder = tmp_path / "driver"
    shutil.copytree(native / "emulator", folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{native / 'emulator'}:{folder}")
    monkeypatch.setenv("EMUCUDA_NAME", emulator_env()["EMUCUDA_NAME"])
    monkeypatch.delenv("EMUCUDA_CONFIG", raising=False)
    return folder


def findings() -> dict[str, Check]:
    return {check.name: check for check in gpu.area()}


def test_driver_and_nvml_are_asked(machine: Path) -> None:
    (machine / "default.toml").write_text('[device]\nname = "Emulated X"\ncount = 2\n')
    found = findings()
    assert found["CUDA driver"].found == "version 13.0: Emulated X, Emulated X"
    assert (found["compute mode"].status, found["compute mode"].found) == ("ok", "every GPU admits several processes")
    assert found["emulated GPU"].found == "Emulated GPU"


def test_instances_of_a_split_gpu_are_named(machine: Path) -> None:
    (machine / "default.toml").write_text(
        '[device]\nname = "Emulated X"\nmemory = "141GiB"\nmig = ["3g.71gb", "1g.18gb"]\n'
    )
    found = findings()
    assert found["CUDA driver"].found == "version 13.0: Emulated X MIG 3g.71gb"
    assert found["compute mode"].status == "ok"
    uuid = "MIG-[0-9a-f-]{36}"
    assert found["MIG"].status == "ok"
    unknown = "NVML does not say how busy a MIG instance is, so of jobs that have one to themselves it is not known"
    names = f"GPU 0: Emulated X MIG 3g.71gb {uuid}, Emulated X MIG 1g.18gb {uuid}"
    assert re.fullmatch(f"{names}; {unknown}", found["MIG"].found), found["MIG"]


def test_gpu_that_is_not_split_is_not_spoken_of(machine: Path) -> None:
    assert machine.is_dir()
    assert "MIG" not in findings()


NEWER = """
#include <string.h>
int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { *version = 14000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetName(char *name, int bytes, int device) { strcpy(name, "Stand-in (Emulated)"); return bytes * device; }
"""


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ([], ""),
        (["cuNewCall"], "cuNewCall"),
        (["cuNewA", "cuNewB", "cuNewC", "cuNewD"], "cuNewA, cuNewB, cuNewC and 1 more"),
        (["cudbgInternal", "_cuHidden"], ""),
    ],
)
def test_calls_that_are_newer_than_the_preload_library_are_named(
    new: list[str], named: str, machine: Path, cc: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "newer.c"
    source.write_text(NEWER + "".join(f"int {name}(void) {{ return 0; }}\n" for name in new))
    (machine / "libcuda.so.1").unlink()
    shutil.copy(cc(source, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"), machine / "libcuda.so.1")
    found = findings()
    assert found["CUDA driver"].found == "version 14.0: Stand-in (Emulated)"
    if named:
        assert found["driver calls"].status == "warn"
        assert f" has {named}, which" in found["driver calls"].found
    else:
        assert "driver calls" not in found


def test_driver_without_nvml_is_a_warning(machine: Path) -> None:
    (machine / "libnvidia-ml.so.1").write_text("no library")
    found = findings()
    assert found["CUDA driver"].status == "ok"
    assert found["compute mode"].status == "warn"
    assert "NVML" in found["compute mode"].found


def test_machine_without_a_driver_is_asked_nothing_more(machine: Path) -> None:
    (machine / "libcuda.so.1").write_text("no library")
    found = findings()
    assert found["CUDA driver"].status == "warn"
    assert "compute mode" not in found
