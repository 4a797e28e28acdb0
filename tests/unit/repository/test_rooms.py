"""Rooms of fikitd's Python package: each says what lives in it, and none is so full that nobody finds anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "fikitd" / "fikitd"
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
MOST = 25
FURNITURE = {"README.md", "__init__.py", "__pycache__", "py.typed"}


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
