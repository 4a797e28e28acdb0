"""The plugin's table of options is the one list of them: whatever else names them, in Lua, Python and for people, names the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fikit.commands.run import command

ROOT = Path(__file__).resolve().parents[3]
SOURCE = (ROOT / "slurm_plugin/src/job/fikit_args.c").read_text()
IN_TABLE = re.compile(r'\[(\w+)\] = \{\s*"fikit-([\w-]+)"')
IN_ENVIRONMENT = re.compile(r'\[(\w+)\] = "(FIKIT_\w+)"')
OPTIONS = dict(IN_TABLE.findall(SOURCE))  # PRIORITY -> priority
VARIABLES = dict(IN_ENVIRONMENT.findall(SOURCE))  # PRIORITY -> FIKIT_PRIORITY


def test_the_table_was_found() -> None:
    assert {"priority", "measure", "mem"} <= set(OPTIONS.values())


def test_every_option_has_a_variable_of_its_name() -> None:
    assert {key: "FIKIT_" + name.upper().replace("-", "_") for key, name in OPTIONS.items()} == VARIABLES


def test_slurmctld_hands_on_the_same_options() -> None:
    lua = (ROOT / "slurm_plugin/lua/fikit_options.lua").read_text()
    (names,) = re.findall(r"local NAMES = \{([^}]*)\}", lua)
    assert sorted(re.findall(r'"(\w+)"', names)) == sorted(name.replace("-", "_") for name in OPTIONS.values())


def test_the_manual_page_has_each() -> None:
    page = (ROOT / "docs/man/spank_fikit.8").read_text().replace("\\-", "-")
    assert sorted(set(re.findall(r"^(?:\.B |\\fB)--fikit-([a-z-]+)", page, re.MULTILINE))) == sorted(OPTIONS.values())


@pytest.mark.parametrize("key", sorted(OPTIONS))
def test_the_user_s_page_has_a_row_for_each(key: str) -> None:
    rows = [line for line in (ROOT / "docs/user.md").read_text().splitlines() if line.startswith("| `--fikit-")]
    assert [row for row in rows if f"`--fikit-{OPTIONS[key]}" in row and f"`{VARIABLES[key]}" in row]


@pytest.mark.parametrize("key", sorted(OPTIONS))
def test_fikit_run_has_the_same_one_by_the_same_variable(key: str) -> None:
    """A job outside Slurm asks for the same things in the same words."""
    options = {option: parameter for parameter in command.params for option in parameter.opts}
    assert options[f"--{OPTIONS[key]}"].envvar == VARIABLES[key]
