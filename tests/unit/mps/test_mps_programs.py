"""Where NVIDIA's programs of MPS are looked for, with programs and an ldconfig that a test makes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fikitd.mps import programs
from fikitd.mps.control import Control


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without any of NVIDIA's programs. PATH has one directory, `bin`; `driver` is where NVIDIA's containers have the driver's programs."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(programs, "SYSTEM", str(tmp_path / "sbin"))
    monkeypatch.setattr(programs, "DRIVERS_OWN", str(tmp_path / "driver"))
    monkeypatch.setattr(programs, "LDCONFIG_S", 0.2)
    return tmp_path


def ldconfig(machine: Path, text: str) -> None:
    executable(machine / "bin" / "ldconfig", f"#!/bin/sh\n{text}\n")


def listing(machine: Path) -> str:
    names = {"libcuda.so.1": machine / "lib" / "libcuda.so.1", "libcudart.so.1": machine / "other" / "libcudart.so.1"}
    lines = [f"\t{name} (libc6,x86-64) => {path}" for name, path in names.items()]
    return "\n".join(["2 libs found in cache", *lines])


@pytest.mark.starts_processes
@pytest.mark.parametrize("place", ["bin", "sbin", "lib", "driver"])
def test_programs_are_found_in_path_in_sbin_beside_the_driver_and_where_containers_have_them(
    place: str, machine: Path
) -> None:
    ldconfig(machine, f"echo '{listing(machine)}'")
    assert programs.find(programs.PROGRAM) is None
    made = executable(machine / place / programs.PROGRAM)
    assert programs.find(programs.PROGRAM) == made


def test_what_is_in_path_comes_first(machine: Path) -> None:
    for place in ("driver", "bin"):
        executable(machine / place / programs.PROGRAM)
    assert programs.find(programs.PROGRAM) == machine / "bin" / programs.PROGRAM


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "text", ["exit 1", "exec /bin/sleep 60", "echo nonsense", "echo 'libcuda.so.1 => ../relative'"]
)
def test_an_ldconfig_that_fails_hangs_or_says_something_else_ends_no_search(text: str, machine: Path) -> None:
    ldconfig(machine, text)
    made = executable(machine / "driver" / programs.PROGRAM)
    begun = time.monotonic()
    assert programs.find(programs.PROGRAM) == made
    assert time.monotonic() - begun < 5


def test_path_of_the_control_daemon_has_the_directories_of_both_programs(machine: Path) -> None:
    program = executable(machine / "driver" / programs.PROGRAM)
    executable(machine / "sbin" / programs.SERVER_PROGRAM)
    assert programs.path_for(program).split(os.pathsep) == [str(machine / name) for name in ("bin", "driver", "sbin")]
    daemon = Control("GPU-x", machine, machine)
    daemon._find()
    assert daemon._environment()["PATH"] == programs.path_for(program)
