"""`make quick`: what starts a process is left out where it says so, and fails where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
SAMPLE = """
import os, subprocess, threading, pytest

def start(): subprocess.run(["true"])

def test_starts_one(): start()
def test_starts_one_and_passes_over_it():
    try: start()
    except Exception: pass
def test_starts_one_in_a_thread():
    thread = threading.Thread(target=start); thread.start(); thread.join()
def test_forks():
    if os.fork() == 0: os._exit(0)
@pytest.fixture
def process(): start()
def test_has_a_fixture_that_starts_one(process): pass

@pytest.mark.starts_processes
def test_says_so(): start()
@pytest.mark.takes_seconds
def test_takes_seconds(): start()
@pytest.fixture
def cc(): start()
def test_asks_for_a_compiler(cc): pass
def test_starts_none(): pass
def test_makes_up_fewer_examples():
    from examples import examples
    assert (examples(100), examples(50)) == (20, 10)
"""


@pytest.mark.starts_processes
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_a_test_that_starts_a_process_must_say_so(tmp_path: Path, workers: tuple[str, ...]) -> None:
    conftest = (TESTS / "conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(TESTS / 'support')!r})\n" + conftest.partition("annotations\n")[2]
    )
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-c", TESTS.parent / "pyproject.toml", f"--rootdir={tmp_path}", "-rA"]
    options = ["-p", "no:cacheprovider", "-W", "ignore", "--quick", *workers, tmp_path]
    said = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    ).stdout
    outcomes = dict(
        line.split(" - ")[0].split()[::-1]
        for line in said.splitlines()
        if line.startswith(("PASSED ", "FAILED ", "ERROR "))
    )
    assert {name.partition("::")[2]: outcome for name, outcome in outcomes.items()} == {
        "test_starts_one": "FAILED",
        "test_starts_one_and_passes_over_it": "FAILED",
        "test_starts_one_in_a_thread": "FAILED",
        "test_forks": "FAILED",
        "test_has_a_fixture_that_starts_one": "ERROR",
        "test_starts_none": "PASSED",
        "test_makes_up_fewer_examples": "PASSED",
    }
    assert "mark it with @pytest.mark.starts_processes" in said


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of two commits with the script, and a .venv whose programs only note what they were asked."""
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>calls\n')
        (programs / name).chmod(0o755)
    for name in ("scripts/quick.sh", "build/log", "old.py", "old.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "scripts/quick.sh").write_text((TESTS.parent / "scripts/quick.sh").read_text())
    (tmp_path / ".gitignore").write_text(".venv\nbuild\ncalls\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def git(place: Path, *words: str) -> None:
    name = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *name, *words], cwd=place, check=True, capture_output=True)


def calls(checkout: Path) -> list[str]:
    """What one `make quick` asks of the programs; the tests come last, always."""
    (checkout / "calls").unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("BASE", "WORKERS")}
    subprocess.run(["bash", "scripts/quick.sh"], cwd=checkout, env=environment, check=True, capture_output=True)
    lines = (checkout / "calls").read_text().splitlines()
    assert lines[-1] == "python -m pytest -n 2 --dist loadgroup --quick tests/unit"
    return lines[:-1]


@pytest.mark.starts_processes
def test_only_what_changed_is_checked(checkout: Path) -> None:
    assert calls(checkout) == []
    (checkout / "notes.md").write_text("new")
    assert calls(checkout) == []
    git(checkout, "checkout", "-q", "-b", "mine")
    (checkout / "new.py").write_text("")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "second")
    (checkout / "other.py").write_text("")  # that git does not know yet
    (checkout / "old.py").unlink()
    python = calls(checkout)
    assert python[0] == "ruff check --quiet --force-exclude new.py other.py"
    assert [line.split()[0] for line in python[2:]] == ["mypy", "lint-imports"]


@pytest.mark.starts_processes
@pytest.mark.skipif(shutil.which("clang-tidy") is None, reason="needs clang-tidy")
def test_of_c_sources_those_that_changed_go_to_clang_tidy(checkout: Path) -> None:
    (checkout / "old.c").write_text("int a;")
    (checkout / "new.h").write_text("")
    assert calls(checkout) == ["python scripts/check_includes.py", "python scripts/tidy.py old.c"]
