"""`make test` gives what failed a second try alone, names it, and gives none where more is broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from slow import SLOW

from scripts import suite

ROOT = Path(__file__).resolve().parents[3]

ALONE, SLOW_ALONE = Path("build/tests-alone.txt"), Path("build/tests-slow-alone.txt")
LIVE = "tests/device/test_gate.py::test_waits[a@b]@test_gate"
UNIT = "tests/unit/test_gate.py::test_waits@test_gate"
Runs = Callable[..., list[list[str]]]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """pytest ends with these exit codes, and notes these tests as failed; returns the commands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    commands: list[list[str]] = []

    def set_up(*codes: int, failed: tuple[str, ...] = ()) -> list[list[str]]:
        def call(command: list[str]) -> int:
            commands.append(command)
            if failed:
                suite.FAILED.parent.mkdir(parents=True, exist_ok=True)
                suite.FAILED.write_text(json.dumps(dict.fromkeys(failed, True)))
            return codes[len(commands) - 1]

        monkeypatch.setattr(subprocess, "call", call)
        return commands

    return set_up


def test_what_passes_alone_is_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    commands = runs(1, 0, failed=(LIVE,))
    assert suite.main([]) == 0
    name = "tests/device/test_gate.py::test_waits[a@b]"
    assert (commands[1][-1], commands[1][3:5]) == (name, ["-n", "0"])
    assert ALONE.read_text() == f"{name}\n"
    assert f"passed alone, not beside others: {name}" in capsys.readouterr().out


def test_each_that_failed_runs_once_more(runs: Runs) -> None:
    commands = runs(1, 0, failed=(LIVE, UNIT))
    assert suite.main([]) == 0
    assert commands[1][-2:] == ["tests/device/test_gate.py::test_waits[a@b]", "tests/unit/test_gate.py::test_waits"]


def test_what_fails_twice_has_failed(runs: Runs) -> None:
    runs(1, 1, failed=(LIVE,))
    assert suite.main([]) == 1
    assert not ALONE.exists()


@pytest.mark.parametrize(
    "failed",
    [
        ("tests/device/test_gate.py",),  # it could not be read
        (LIVE, "tests/unit/test_gate.py"),
        tuple(f"tests/cluster/test_jobs.py::test_{number}" for number in range(suite.MOST + 1)),
    ],
)
def test_no_second_try_where_more_is_broken(failed: tuple[str, ...], runs: Runs) -> None:
    commands = runs(1, failed=failed)
    assert suite.main([]) == 1
    assert len(commands) == 1


@pytest.mark.parametrize("status", [0, 2, 3, 5])
def test_the_exit_status_is_that_of_pytest(status: int, runs: Runs) -> None:
    runs(status, failed=(LIVE,))
    assert suite.main([]) == status


def test_what_is_slow_runs_by_itself_and_leaves_the_other_run_s_files(runs: Runs) -> None:
    ALONE.write_text("of make test\n")
    commands = runs(1, 0, failed=(LIVE,))
    assert suite.main(["--slow", "3"]) == 0
    words = commands[0]
    assert words[words.index("-m", 2) + 1] == "slow"
    assert words[words.index("-n") + 1] == "3"
    assert "--junitxml=build/tests-slow.xml" in words
    assert SLOW_ALONE.exists()
    assert ALONE.read_text() == "of make test\n"


def test_make_test_leaves_out_what_make_slow_has(runs: Runs) -> None:
    words = runs(0)
    assert suite.main(["2"]) == 0
    assert "not slow" in words[0]


def test_what_is_called_slow_is_there() -> None:
    assert [name for name in SLOW if not (ROOT / name).exists()] == []


def test_ci_runs_both() -> None:
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make")]
    assert commands == ["make test", "make slow"]


def test_a_sessions_directories_are_not_where_each_start_of_pytest_closes_them(tmp_path: Path) -> None:
    """tests/support/own_directories.py: tests let other users in."""
    assert [parent for parent in tmp_path.parents if parent.name.startswith("pytest-of-")] == []
