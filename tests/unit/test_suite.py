"""How the suite runs (`make test`): a group's tests share a worker, and a test that hangs ends the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parent.parent.parent


def suite(tests: Path, *options: str) -> str:
    """What pytest says of the tests in this folder, with the project's settings and two workers."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        f"--rootdir={tests}",
        "-p",
        "no:cacheprovider",
    ]
    workers = ["-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(
        [*command, *workers, *options, tests], cwd=tests, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr


def test_a_groups_tests_are_in_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_group.py").write_text(f"""
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(8))
@pytest.mark.xdist_group("one")
def test_worker(number):
    with open({str(tmp_path / "workers")!r}, "a") as file: file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
""")
    assert "8 passed" in suite(tmp_path)
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 8
    assert len(set(workers)) == 1


def test_a_test_that_nothing_ends_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text("""
import signal, time
def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # the timeout's
    time.sleep(1000)
def test_well(): pass
""")
    said = suite(tmp_path, "--timeout=1", "-o", "faulthandler_timeout=3")
    assert "in test_deaf" in said, "where it stood"
    assert "1 failed, 1 passed" in said
    assert "crashed while running 'test_hang.py::test_deaf'" in said
