"""Manual pages: the commands' from what their --help says, fikit.toml(5) from site/fikit.toml, fikit-metrics(7) from the table of
metrics, others as they lie in docs/man."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from fikit.cli import cli as fikit
from fikit.commands.report import command as report
from fikitd.daemon.main import command as fikitd
from fikitd.metrics import table

from fikitd import __version__

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "docs" / "man"
CONFIG = ROOT / "site" / "fikit.toml"
COMMANDS: dict[str, tuple[click.Command, int]] = {
    "fikit": (fikit, 1),
    "fikit-report": (report, 1),
    "fikitd": (fikitd, 8),
}
SEE_ALSO = ["fikit(1)", "fikit-report(1)", "fikitd(8)", "fikit.toml(5)", "fikit-metrics(7)", "spank_fikit(8)"]


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    found = {path.name: path.read_text() for path in sorted(WRITTEN.glob("*.[1-9]"))}
    for name, (command, section) in COMMANDS.items():
        found[f"{name}.{section}"] = "\n".join(_command_page(name, command, section)) + "\n"
    found["fikit-metrics.7"] = "\n".join(_metrics_page()) + "\n"
    found["fikit.toml.5"] = "\n".join(_config_page()) + "\n"
    return found


def _escape(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _head(name: str, section: int, about: str) -> Iterator[str]:
    yield f'.TH {name.upper()} {section} "" "fikit {__version__}" fikit'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(about)}"


def _see_also(name: str, section: int) -> Iterator[str]:
    yield ".SH SEE ALSO"
    others = [other for other in SEE_ALSO if other != f"{name}({section})"]
    yield ", ".join(rf"\fB{_escape(other[:-3])}\fR{other[-3:]}" for other in others)


def _sentences(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n")]


def _command_page(name: str, command: click.Command, section: int) -> Iterator[str]:
    about = _sentences(command)
    yield from _head(name, section, about[0].split(". ")[0].rstrip("."))
    yield ".SH SYNOPSIS"
    yield _usage(name, command)
    yield ".SH DESCRIPTION"
    yield "\n.P\n".join(map(_escape, about))
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        yield from _subcommands(name, command)
    else:
        yield ".SH OPTIONS"
        yield from _options(command)
    yield from _see_also(name, section)


def _subcommands(name: str, group: click.Group) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    for sub in group.list_commands(context):
        command = group.get_command(context, sub)
        assert command is not None
        yield f".SS {_usage(f'{name} {sub}', command)}"
        yield "\n.P\n".join(map(_escape, _sentences(command)))
        yield from _options(command)
        if isinstance(command, click.Group):
            yield from _subcommands(f"{name} {sub}", command)


def _usage(name: str, command: click.Command) -> str:
    words = command.collect_usage_pieces(click.Context(command, info_name=name))
    return rf"\fB{_escape(name)}\fR {_escape(' '.join(words))}"


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield ".TP"
            yield rf"\fB{_escape(record[0])}\fR"
            yield _escape(" ".join(record[1].split()))


def _config_page() -> Iterator[str]:
    """A section for each of the file's, and in it each key with its default and what the comment above it says."""
    yield from _head("fikit.toml", 5, "configuration of fikit, with every key and its default")
    yield ".SH DESCRIPTION"
    comment: list[str] = []
    keys: list[str] = []
    for line in [*CONFIG.read_text().splitlines(), ""]:
        if keys and not re.match(r"\w+ = ", line):
            yield from _keys(keys, comment)
            keys, comment = [], []
        if line.startswith(("#[", "#")) and not line.startswith("# "):
            yield from (_example(line) if not comment else (*_text(comment), *_example(line)))
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:])
        elif section := re.fullmatch(r"\[(\w+)\]", line):
            yield f".SH {section[1].upper()}"
            yield from _text(comment)
            comment = []
        elif re.match(r"\w+ = ", line):
            keys.append(line)
        elif comment:
            yield from _text(comment)
            comment = []
    yield from _see_also("fikit.toml", 5)


def _keys(keys: list[str], comment: list[str]) -> Iterator[str]:
    """Keys that follow each other have one text."""
    for number, key in enumerate(keys):
        yield ".TQ" if number else ".TP"
        yield rf"\fB{_escape(key)}\fR"
    yield _escape(" ".join(comment))


def _text(comment: list[str]) -> Iterator[str]:
    if comment:
        yield ".P"
        yield _escape(" ".join(comment))


def _example(line: str) -> Iterator[str]:
    yield from (".nf", _escape(line[1:]), ".fi")


def _metrics_page() -> Iterator[str]:
    yield from _head("fikit-metrics", 7, "figures of a node that fikitd has for Prometheus")
    yield ".SH DESCRIPTION"
    yield _escape(
        "With listen in the section [metrics] of fikit.toml, fikitd serves these metrics over HTTP to Prometheus; with textfile it renews a "
        "file for node_exporter. Counters begin anew with each fikitd. The label gpu is the GPU's UUID, jobid Slurm's number of a job, user "
        "the name of its user, priority a number from 0 (highest) to 9."
    )
    yield ".SH METRICS"
    for metric in table.METRICS:
        yield ".TP"
        labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
        yield rf"\fB{_escape(metric.name)}\fR{_escape(labels)} ({metric.kind})"
        yield _escape(f"{metric.help}.")
    yield from _see_also("fikit-metrics", 7)


if __name__ == "__main__":
    sys.stdout.write(pages()[sys.argv[1]])
