"""The sets and trees in which a policy keeps its clients answer as a scan would."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[2] / "fikitd" / "core"


def test_trees_and_sets_answer_as_a_scan_would(tmp_path: Path) -> None:
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", f"-I{CORE}"]
    subprocess.run(["c++", *flags, HERE / "tournament_check.cpp", "-o", tmp_path / "check"], check=True)
    done = subprocess.run([tmp_path / "check", "1", "400"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
