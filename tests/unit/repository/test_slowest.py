"""`make test-slowest` says where a run of the suite spent its time, and what is missing where there was none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import slowest

RUN = """<testsuites><testsuite>
<testcase classname="tests.unit.test_small" name="test_a" time="1.5"/>
<testcase classname="tests.device.test_large.TestClass" name="test_b" time="4"/>
<testcase classname="tests.device.test_large" name="test_c" time="0.25"><failure/></testcase>
<testcase classname="" name="tests.cluster.test_broken" time="0"><error/></testcase>
</testsuite></testsuites>"""


def test_folders_files_and_tests_the_slowest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests.xml").write_text(RUN)
    assert slowest.main([str(tmp_path / "tests.xml")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "6 s of tests, by folder:"
    folders, files = said.index("slowest files:"), said.index("slowest tests:")
    assert [line.split() for line in said[1:3]] == [["4.2", "s", "tests/device"], ["1.5", "s", "tests/unit"]]
    assert said[folders + 1].split() == ["4.2", "s", "tests/device", "test_large"]
    assert said[files + 1].split() == ["4.0", "s", "tests/device", "test_large", "test_b"]


@pytest.mark.parametrize("text", [None, "", "<testsuites>"])
def test_without_a_run_it_says_what_writes_the_file(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "tests.xml").write_text(text)
    assert slowest.main([str(tmp_path / "tests.xml")]) == 1
    assert "make test or make slow writes" in capsys.readouterr().err


def test_both_runs_of_the_suite_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/tests.xml").write_text(RUN)
    (tmp_path / "build/tests-slow.xml").write_text(RUN.replace("test_small", "test_browser"))
    assert slowest.main([]) == 0
    said = capsys.readouterr().out
    assert said.startswith("7 s of tests")
    assert "test_browser" in said
    (tmp_path / "build/tests-slow.xml").unlink()
    assert slowest.main([]) == 0
    assert "test_browser" not in capsys.readouterr().out
