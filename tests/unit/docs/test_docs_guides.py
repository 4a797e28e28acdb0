"""The guides: docs/admin.md goes in the order that its first table says, and the commands and options that both name are there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from fikit.cli import COMMANDS, LazyGroup

ROOT = Path(__file__).resolve().parents[3]
GUIDES = ["docs/user.md", "docs/admin.md", "docs/placement-agent.md"]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
    )
)
STEPS = ["install", "configure", "check", "day to day", "placement", "limits", "trouble"]
CALL = re.compile(r"fikit (?P<command>[a-z]+)\b(?!-)(?P<rest>[^`\n]*)")
OWN = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def sections(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", page, re.M)


def calls(page: str) -> list[tuple[str, set[str]]]:
    """Commands of fikit's in code, with the options that stand behind them and before `--`, which begins another program's."""
    blocks = re.findall(r"^```.*?^```", page, re.M | re.S)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S))
    lines = [line for block in blocks for line in block.splitlines() if not re.match(r" *\w+ {2,}", line)]  # no output
    code = [line.removeprefix("$ ") for line in lines] + spans
    found = [match for text in code if (match := re.search(rf"(?:^|/|[\w=;] ){CALL.pattern}", text))]
    return [(match["command"], set(OWN.findall(match["rest"].partition(" -- ")[0]))) for match in found]


def test_the_administrators_page_goes_in_the_order_of_its_first_table() -> None:
    page = (ROOT / "docs/admin.md").read_text()
    rows = re.findall(r"^\| \*\*(\d)\. (.+?)\*\* \| (.+) \|$", page, re.M)
    assert [(int(number), step) for number, step, _ in rows] == list(enumerate(STEPS, 1))
    named = [name for *_, cell in rows for name, _ in re.findall(r"\[([^]]+)\]\((#[^)]+)\)", cell)]
    assert named == [name for name in sections(page) if name in named]
    assert len(named) > 20


@pytest.mark.parametrize("name", PAGES)
def test_every_command_and_option_is_one(name: str) -> None:
    found = calls((ROOT / name).read_text())
    assert len(found) > 4 or name not in GUIDES
    group = LazyGroup()
    for command, options in found:
        assert command in COMMANDS, command
        known = group.get_command(click.Context(group), command)
        assert known is not None
        wrong = options - {each for param in known.params for each in param.opts} - {"--help"}
        assert wrong == set(), f"fikit {command} has no {', '.join(wrong)}"


@pytest.mark.parametrize("command", ["advise", "priority", "queue", "top", "limits", "doctor"])
def test_both_guides_name_what_a_reader_looks_for(command: str) -> None:
    for name in GUIDES[:2]:
        assert command in {each for each, _ in calls((ROOT / name).read_text())}, name


def test_a_call_is_found_as_a_reader_finds_it() -> None:
    page = "`apt purge fikit fikit-slurm`, `fikit sim --high a.gz`, `srun --overlap fikit top --json`, `/usr/bin/fikit run --emulated -- python a.py --lr 1`\n```\n$ fikit queue\n```\n`fikit-report --json`"
    assert calls(page) == [("queue", set()), ("sim", {"--high"}), ("top", {"--json"}), ("run", {"--emulated"})]
