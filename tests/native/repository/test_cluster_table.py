"""The table at the end of `make cluster-all`: every file under every release line, also one that did not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "cluster_table.py"
OF_22_05 = """<testsuites><testsuite>
<testcase classname="tests.cluster.test_load" name="test_a"/>
<testcase classname="tests.cluster.test_load" name="test_b"><skipped message="needs root"/></testcase>
<testcase classname="tests.cluster.test_nodes" name="test_c"><failure/></testcase>
<testcase classname="tests.cluster.test_nodes" name="test_d"><error/></testcase>
<testcase classname="" name="tests.cluster.test_broken"><error/></testcase>
</testsuite></testsuites>"""


def table(*results: Path) -> list[list[str]]:
    words = [sys.executable, SCRIPT, *results]
    return [
        line.split() for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    ]


def test_every_file_has_a_row_and_every_line_a_column(tmp_path: Path) -> None:
    (tmp_path / "cluster-22.05.xml").write_text(OF_22_05)
    assert table(tmp_path / "cluster-22.05", tmp_path / "cluster-24.11") == [
        ["22.05", "24.11"],
        ["test_broken", "1", "failed", "did", "not", "run"],
        ["test_load", "1", "passed,", "1", "skipped", "did", "not", "run"],
        ["test_nodes", "2", "failed", "did", "not", "run"],
        ["all", "3", "failed,", "1", "passed,", "1", "skipped", "did", "not", "run"],
        ["22.05:", "1", "skipped:", "needs", "root"],
    ]


def test_a_suite_that_was_cut_off_did_not_run(tmp_path: Path) -> None:
    (tmp_path / "cluster-26.05.xml").write_text(OF_22_05[:80])
    assert table(tmp_path / "cluster-26.05") == [["26.05"], ["all", "did", "not", "run"]]
