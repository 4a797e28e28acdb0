"""The shim's copy of a plan, and from which launch on launches are looked at (plan_copy.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import native_program

pytestmark = pytest.mark.starts_processes


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("plan_copy.c")
    return native_program.build(tmp_path_factory.mktemp("plan") / "plan_copy", [source], ["-O2", "-g"])


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("reckon", id="the next move is that of the launch"),
        pytest.param("torn", id="a plan is read whole"),
        pytest.param("look", id="the least of both words"),
    ],
)
def test_a_plan(what: str, program: Path) -> None:
    done = subprocess.run([program, what], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
