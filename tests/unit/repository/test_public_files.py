"""What people expect beside the code: the files for a public tracker and its runners parse, and name what exists."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
from fikit.cli import COMMANDS, LazyGroup

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted([*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"])
TARGETS = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.M)
KINDS = {"markdown": {"value"}, "textarea": {"label"}, "input": {"label"}}


def read(path: Path) -> Any:
    import yaml  # noqa: PLC0415 - whose .venv is older has no other test without it

    return yaml.safe_load(path.read_text())


def forms() -> list[Path]:
    return [path for path in FILES if path.parent.name == "ISSUE_TEMPLATE" and path.name != "config.yml"]


def test_they_are_there() -> None:
    names = {path.name for path in FILES}
    assert {"ci.yml", ".pre-commit-config.yaml", "something-is-wrong.yml"} <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_parses_and_names_commands_that_exist(path: Path) -> None:
    assert isinstance(read(path), dict)
    text = path.read_text()
    assert {target for target in re.findall(r"\bmake ([a-z][a-z-]*)", text) if target not in TARGETS} == set()
    for command, option in re.findall(r"(?:`|label: )fikit ([a-z]+)(?: (--[a-z]+))?", text):
        assert command in COMMANDS, command
        known = LazyGroup().get_command(click.Context(LazyGroup()), command)
        assert known is not None
        assert not option or any(option in each.opts for each in known.params), option
    for name in re.findall(r"\b[A-Z]+\.md\b", text):
        assert (ROOT / name).exists(), name


def test_the_public_runner_runs_what_anybody_runs() -> None:
    job = read(ROOT / ".github/workflows/ci.yml")["jobs"]["suite"]
    assert job["container"]["image"] == "debian:12"
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert commands.index(".ci/run") > next(n for n, command in enumerate(commands) if "git" in command)


def test_the_hook_of_a_commit_is_make_quick() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert hook["entry"] == "make quick"
    assert (hook["language"], hook["pass_filenames"]) == ("system", False)


@pytest.mark.parametrize("path", forms(), ids=lambda path: path.name)
def test_an_issue_form_asks_for_the_doctors_answer(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    assert "fikit doctor --json" in [field["attributes"].get("label") for field in form["body"]]
    for field in form["body"]:
        assert KINDS[field["type"]] <= field["attributes"].keys()
    names = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(names) == len(set(names))


def test_a_weakness_is_reported_in_private() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "in private" in text
    assert "](docs/security.md)" in text
    assert "@" not in text
    assert "](../SECURITY.md)" in (ROOT / "docs/security.md").read_text()
