"""The command group: what every command has in common."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import click
import pytest
from fikit import cli
from fikit.errors import UserError, did_you_mean, nearest
from fikit.options.sizes import parse_size
from fikitd.base.command_line import run_command
from fikitd.daemon.main import command as daemon_command


def outcome(command: click.Command, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["fikit", *argv])
    with pytest.raises(SystemExit) as stop:
        run_command(command, "fikit")
    return int(stop.value.code or 0)


def raising(error: BaseException) -> click.Command:
    def body() -> None:
        raise error

    return click.Command("x", callback=body)


def test_user_error_is_one_sentence_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(raising(UserError("there is no GPU")), [], monkeypatch) == 1
    assert capsys.readouterr().err == "fikit: there is no GPU\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interruption_is_exit_code_130_and_nothing_else(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert outcome(raising(error), [], monkeypatch) == 130
    assert capfd.readouterr().err.strip() == ""


def test_returned_number_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(click.Command("x", callback=lambda: 7), [], monkeypatch) == 7


def test_what_a_locale_has_no_letters_for_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    assert outcome(click.Command("x", callback=lambda: print("12 µs █")), [], monkeypatch) == 0
    assert latin.buffer.getvalue().decode("latin-1") == "12 µs ?\n"


@pytest.mark.parametrize("words", [[], ["profile"]])
def test_without_a_command_the_help_page_is_shown(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, words, monkeypatch) == 2
    assert capsys.readouterr().err.startswith("Usage: ")


def test_unknown_command_names_the_nearest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(cli.cli, ["reprot"], monkeypatch) == 2
    assert capsys.readouterr().err == 'fikit: there is no command "reprot"; did you mean "report"?\n'


def test_unknown_option_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(cli.cli, ["report", "--jsno"], monkeypatch) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["top", "--qqqq"], "fikit: No such option '--qqqq'; see fikit top --help\n"),
        (["run"], "fikit: Missing argument '-- CMD...'; see fikit run --help\n"),
    ],
)
def test_an_error_of_usage_says_where_help_is(
    argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, argv, monkeypatch) == 2
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("typed", "meant"), [("--jsno", "--json"), ("--jso", "--json"), ("--lsit", "--list"), ("--hlep", "--help")]
)
def test_a_mistyped_option_is_told_the_one_that_was_meant(
    typed: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, ["report", typed], monkeypatch) == 2
    assert capsys.readouterr().err == f"fikit: No such option '{typed}'; did you mean {meant}?\n"


def test_the_beginning_of_a_long_option_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(daemon_command, ["--chekc"], monkeypatch) == 2
    assert capsys.readouterr().err == "fikit: No such option '--chekc'; did you mean --check-config?\n"


def test_every_command_has_help_and_can_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, ["--help"], monkeypatch) == 0
    shown = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"  {name} " in shown


@pytest.mark.parametrize(
    ("text", "size"),
    [("20G", 20 * 2**30), ("512M", 2**29), ("16GiB", 2**34), ("1t", 2**40), ("300", 300 * 2**20), ("1.5G", 3 * 2**29)],
)
def test_sizes_read_like_slurms(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1G", "0", "12Q", "G"])
def test_other_sizes_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f'"{text}" is not a size'):
        parse_size(text)


def test_nearest_names_come_best_first() -> None:
    known = ["train-1", "train-2", "classify-9"]
    assert nearest("train-2", known)[0] == "train-2"
    assert did_you_mean("tain-1", known).startswith('; did you mean "train-1"')
    assert did_you_mean("zzz", known) == ""


@pytest.mark.starts_processes
def test_output_that_a_full_disk_does_not_take_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fikit", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "fikit: the output could not be written: No space left on device\n")


@pytest.mark.starts_processes
@pytest.mark.parametrize("words", [["--help"], ["limits"]])
def test_without_a_standard_output_nothing_is_said(words: list[str]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "fikit", *words],
        stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_value_from_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIKIT_PRIORITY", "hgh")
    assert outcome(cli.cli, ["run", "--", "true"], monkeypatch) == 2
    assert capsys.readouterr().err.startswith(
        'fikit: Invalid value for FIKIT_PRIORITY (--priority): priority "hgh" is not known'
    )
    assert outcome(cli.cli, ["run", "--priority", "hihg", "--", "true"], monkeypatch) == 2
    assert capsys.readouterr().err.startswith("fikit: Invalid value for '--priority': ")


def test_an_empty_job_number_is_called_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, ["report", ""], monkeypatch) == 2
    assert capsys.readouterr().err == "fikit: JOBID is empty\n"
