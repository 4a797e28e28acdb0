"""`fikit run` where names are no UTF-8, directories are gone, or something in fikit itself fails: the program runs as without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.store.records import JobRecord

Environment = Callable[..., dict[str, str]]
ODD = os.fsdecode(b"odd-\xff\xe9")  # Latin-1, as old scripts have it


@pytest.fixture
def home(tmp_path: Path, emulator_env: Environment) -> Iterator[dict[str, str]]:
    """The environment of a user without administrator: a personal fikitd, which is stopped afterwards."""
    env = emulator_env(XDG_RUNTIME_DIR=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state"))
    yield env
    try:
        Control(tmp_path / "fikit").shutdown()
    except DaemonUnreachable:
        return


def under_fikit(env: dict[str, str], *program: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fikit", "run", "--", *program]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, check=False, timeout=60)


def test_program_directory_arguments_and_environment_may_have_any_bytes_in_their_names(
    home: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / ODD
    place.mkdir()
    (place / ODD).symlink_to("/bin/sh")
    script = 'printf "%s %s %s" "$1" "$X" "$CUDA_VISIBLE_DEVICES"; pwd; exit 5'
    env = home | {"X": ODD, "CUDA_VISIBLE_DEVICES": ODD}
    done = under_fikit(env, f"./{ODD}", "-c", script, "sh", ODD, cwd=place)
    raw = os.fsencode(ODD)
    assert done.stdout == b" ".join([raw] * 3) + os.fsencode(place) + b"\n"
    assert (done.returncode, done.stderr) == (5, b"")


@pytest.mark.parametrize("variable", ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "FIKIT_CONFIG"])
def test_a_place_whose_name_is_no_utf_8_costs_one_line(home: dict[str, str], tmp_path: Path, variable: str) -> None:
    (tmp_path / ODD).mkdir()
    done = under_fikit(home | {variable: str(tmp_path / ODD)}, "sh", "-c", "echo ran; exit 4")
    assert (done.returncode, done.stdout) == (4, b"ran\n")
    assert done.stderr.startswith(b"fikit: warning: the program runs unmanaged: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("config", [{}, {"FIKIT_CONFIG": "fikit.toml"}], ids=["personal", "relative fikit.toml"])
def test_the_current_directory_may_be_gone(home: dict[str, str], tmp_path: Path, config: dict[str, str]) -> None:
    command = f'mkdir gone; cd gone; rmdir ../gone; "{sys.executable}" -m fikit run -- sh -c "echo ran; exit 4" 2>&1'
    env = home | config
    done = subprocess.run(["sh", "-c", command], env=env, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 4
    assert done.stdout.splitlines()[-1] == b"ran"
    assert b"Traceback" not in done.stdout


# In place of one function of fikit's: a fault that nobody has thought of.
BREAK = """
import sys
from fikit import cli
from fikit.running import daemon
from fikit.commands import run
def broken(*_, **__): raise ZeroDivisionError("a fault")
setattr({where}, "{name}", broken)
sys.argv = ["fikit", "run", "--", "sh", "-c", "echo ran; exit 4"]
cli.main()
"""


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("daemon", "join_or_start"),
        ("run", "_register"),
        ("run", "_begun"),
        ("run.paths", "shim"),
        ("run.Control", "end"),
    ],
)
def test_a_fault_of_fikits_own_costs_one_line(home: dict[str, str], where: str, name: str) -> None:
    code = BREAK.format(where=where, name=name)
    done = subprocess.run(
        [sys.executable, "-c", code], env=home, capture_output=True, check=False, timeout=60, text=True
    )
    assert (done.returncode, done.stdout) == (4, "ran\n"), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fikit: warning: ")


def test_a_record_that_cannot_be_removed_changes_no_exit_code(home: dict[str, str], tmp_path: Path) -> None:
    jobs = tmp_path / "fikit" / "jobs"
    done = under_fikit(home, "sh", "-c", f"rm {jobs}/run-*; mkdir {jobs}/run-$PPID-1; exit 4")
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


def test_no_text_of_a_record_can_add_a_line_or_make_it_unreadable() -> None:
    record = JobRecord(job="1", uid=0, gid=0, priority=5, name=f"{ODD}\npriority=0", gpus=f"{ODD}\npriority=0")
    assert JobRecord.parse(record.text().encode().decode()).priority == 5
