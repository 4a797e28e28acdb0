"""Events behind allocations in stream order, without a driver (marks.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import native_program

pytestmark = pytest.mark.starts_processes


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("marks.c")
    flags = ["-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    return native_program.build(tmp_path_factory.mktemp("marks") / "marks", [source], flags)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("order", id="what comes behind one"),
        pytest.param("again", id="is used again"),
        pytest.param("refused", id="there is none to be had"),
        pytest.param("ends", id="its context ends"),
        pytest.param("captures", id="a stream captures"),
        pytest.param("forked", id="of a parent"),
    ],
)
def test_a_mark(what: str, program: Path) -> None:
    done = subprocess.run([program, what], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
