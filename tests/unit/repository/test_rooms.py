"""Rooms: each of fikitd's Python package says what lives in it, none anywhere is so full that nobody finds anything, and the contract
names every module of fikitd that the command line uses."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "fikitd" / "fikitd"
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
MOST = 25
FURNITURE = {"README.md", "__init__.py", "__pycache__", "py.typed", "CMakeLists.txt", "conftest.py"}
TOPS = (
    "bench",
    "cmake",
    "docs",
    "driver_api",
    "emulator",
    "examples",
    "fikitd",
    "scripts",
    "shim",
    "site",
    "slurm_plugin",
    "tests",
    "wrapper",
)
MIRROR = ROOT / "tests/unit"  # of the rooms of all packages, each of which is bounded itself


@pytest.mark.parametrize("room", [PACKAGE, *ROOMS], ids=lambda room: room.name)
def test_each_module_of_a_room_is_in_its_readme_and_nothing_else_is(room: Path) -> None:
    rows = re.findall(r"^(?:\| |\* )(.+?)(?: \||:)", (room / "README.md").read_text(), re.MULTILINE)
    named = {name.removesuffix(".py") for row in rows for name in re.findall(r"`([a-z_]+(?:\.py)?)`", row)}
    modules = {path.stem for path in room.glob("*.py*") if path.stem not in {"__init__", "py"}}
    assert named == modules


@pytest.mark.parametrize("room", [PACKAGE, *ROOMS], ids=lambda room: room.name)
def test_no_room_is_full(room: Path) -> None:
    entries = [path for path in room.iterdir() if path.name not in FURNITURE]
    assert len(entries) <= MOST


def test_no_folder_of_the_tree_is_full() -> None:
    full = []
    for top in TOPS:
        for folder, below, names in os.walk(ROOT / top):
            below[:] = [name for name in below if not name.startswith(".") and name not in FURNITURE]
            entries = [
                name for name in [*below, *names] if name not in FURNITURE and not name.endswith((".so", ".pyc"))
            ]
            if len(entries) > MOST and Path(folder) != MIRROR:
                full.append(f"{Path(folder).relative_to(ROOT)}: {len(entries)}")
    assert full == []


def used_by_the_command_line() -> set[str]:
    found = set()
    for path in (ROOT / "wrapper/fikit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fikitd":
                names = [f"{node.module}.{each.name}" for each in node.names]
                is_module = [(ROOT / "fikitd" / name.replace(".", "/")).with_suffix(".py").exists() for name in names]
                found |= {name if own else node.module for name, own in zip(names, is_module, strict=True)}
    return found


def test_the_contract_names_what_the_command_line_uses() -> None:
    page = (ROOT / "docs/design/contracts.md").read_text()
    section = page.partition("\n## Python modules that `fikit` may use\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(fikitd[\w.]*)`", section))
    rooms = {name for name in named if (ROOT / "fikitd" / name.replace(".", "/")).is_dir()}
    missing = {name for name in used_by_the_command_line() - named - {"fikitd"} if name.rpartition(".")[0] not in rooms}
    assert missing == set()
