"""shim/entry_points.def, as the build reads it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_spec = importlib.util.spec_from_file_location("entry_table", ROOT / "shim" / "entry_table.py")
assert _spec
assert _spec.loader
entry_table = importlib.util.module_from_spec(_spec)
sys.modules["entry_table"] = entry_table
_spec.loader.exec_module(entry_table)

SYMBOLS: list[str] = (ROOT / "driver_api" / "symbols.txt").read_text().split()
TABLE = entry_table.Table.read(ROOT / "shim" / "entry_points.def", SYMBOLS)
