"""`python -m bench`: what it lists, and what it says to typing errors."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import record
from bench.__main__ import BENCHES

pytestmark = pytest.mark.starts_processes


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=record.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_a_name_it_lists_the_benches() -> None:
    done = bench()
    assert done.returncode == 0
    for name, module in BENCHES.items():
        assert re.search(rf"^    {name}\s", done.stdout, re.M)
        assert module.ABOUT.split()[0] in done.stdout


@pytest.mark.parametrize("name", sorted(BENCHES))
def test_help_of_a_bench_lists_every_option(name: str) -> None:
    out = bench(name, "--help").stdout
    assert "--json FILE" in out
    assert "--real" in out
    own = argparse.ArgumentParser(add_help=False)
    getattr(BENCHES[name], "add_arguments", lambda parser: None)(own)
    for action in own._actions:
        assert set(action.option_strings) <= set(re.findall(r"--[\w-]+", out))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("replya",), "invalid choice: 'replya'"),
        (("replay", "--traces"), "argument --traces: expected one argument"),
        (("launch", "--bogus"), "unrecognized arguments: --bogus"),
    ],
)
def test_typing_error_is_one_sentence(arguments: tuple[str, ...], complaint: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "sub" / "model.json"
    with pytest.raises(record.BenchError, match=f"^couldn't write {target}: Not a directory$"):
        record.write(target, "model", record.Result("", True, {}, {}))


@pytest.mark.parametrize("option", ["--json", "--svg"])
def test_a_file_that_cannot_be_written_is_told_before_anything_runs(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BENCHES["frontier"], "run", lambda **_: pytest.fail("it ran"))
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "sub" / "out"
    monkeypatch.setattr(sys, "argv", ["bench", "frontier", option, str(target)])
    assert command.main() == 1
    assert capsys.readouterr().err == f"bench frontier: couldn't write {target}: Not a directory\n"


def test_a_file_that_can_be_written_is_not_there_until_it_is(tmp_path: Path) -> None:
    record.check(tmp_path / "sub" / "new")
    assert list((tmp_path / "sub").iterdir()) == []
    (tmp_path / "old").write_text("kept")
    record.check(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "kept"


def test_a_file_of_pairs_that_is_not_there_is_one_sentence() -> None:
    done = bench("frontier", "--pairs", "no/such/file")
    assert (done.returncode, done.stderr) == (
        1, "bench frontier: couldn't read no/such/file: No such file or directory\n"
    )  # fmt: skip
