"""The command group: what every command has in common."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fikit import cli
from fikit.errors import UserError, did_you_mean, nearest
from fikitd.base import quantities
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


def _commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in _commands(command))


@pytest.mark.parametrize(("name", "command"), [*_commands(cli.cli)])
def test_every_help_page_has_one_style(name: str, command: click.Command) -> None:
    assert command.help
    for option in (each for each in command.params if isinstance(each, click.Option)):
        assert option.help, option.name
        shown = option.get_help_record(click.Context(command))
        assert shown is not None
        assert not {"INTEGER", "FLOAT", "TEXT", "PATH", "DIRECTORY"} & {*shown[0].split()}, shown
        assert "<=" not in shown[1], "bounds are words"
        assert shown[1].partition("  [")[0].endswith((".", "?")), shown


def test_bounds_are_said_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, said in (
        (["sandbox", "--gpus", "9", "--", "true"], "9 is not in the range 1 to 8"),
        (["sandbox", "--slice-us", "-1", "--", "true"], "-1 is not in the range 0 or more"),
        (["sim", "--requests", "0"], "0 is not in the range 1 to 10000000"),
        (["top", "--interval", "0"], "0.0 is not in the range 0.2 to 60"),
    ):
        assert outcome(cli.cli, argv, monkeypatch) == 2
        assert capsys.readouterr().err == f"fikit: Invalid value for '{argv[1]}': {said}\n"


@pytest.mark.parametrize(
    ("text", "size"), [("20G", 20 * 2**30), ("512M", 2**29), ("16GiB", 2**34), ("1t", 2**40), ("300", 300 * 2**20)]
)
def test_sizes_read_like_slurms(text: str, size: int) -> None:
    assert quantities.size(text) == size


@pytest.mark.parametrize("option", ["--mem", "--mem-host"])
@pytest.mark.parametrize("text", ["lots", "-1G", "0", "12Q", "G", "1.5G", "1e99", "9" * 400, "16 G", "٣G", "8193T"])
def test_other_sizes_are_refused_by_name(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, ["run", f"{option}={text}", "--", "true"], monkeypatch) == 2
    said = f"fikit: Invalid value for '{option}': \"{text}\" is not a size, write it as 20G, 512M or 1T\n"
    assert capsys.readouterr().err == said


def test_nearest_names_come_best_first() -> None:
    known = ["train-1", "train-2", "classify-9"]
    assert nearest("train-2", known)[0] == "train-2"
    assert did_you_mean("tain-1", known).startswith('; did you mean "train-1"')
    assert did_you_mean("zzz", known) == ""


@pytest.mark.starts_processes
@pytest.mark.parametrize("entry", ["fikit.entry", "fikitd.entry"])
def test_little_is_loaded_before_ctrl_c_is_quiet(entry: str) -> None:
    """An exception in the middle of that would be a traceback."""
    program = f"import sys; before = {{*sys.modules}}; import {entry}; print(*{{*sys.modules}} - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"typing", "re", "click"} & {*done.stdout.split()}


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["top", "--interval", "often"], "'often' is not a valid number"),
        (["sim", "--requests", "1.5"], "'1.5' is not a valid whole number"),
        (["run", "--priority", "hihg", "--", "true"], "or a number from 0 (highest) to 9, auto or auto:LOW-HIGH\n"),
        (["priority", "12", "hihg"], "or a number from 0 (highest) to 9, or auto\n"),
    ],
)
def test_a_value_that_is_none_is_called_in_peoples_words(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, words, monkeypatch) == 2
    assert said in capsys.readouterr().err


def test_an_empty_job_number_is_called_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(cli.cli, ["report", ""], monkeypatch) == 2
    assert capsys.readouterr().err == "fikit: JOBID is empty\n"
