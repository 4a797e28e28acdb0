"""The table of roads to the driver in docs/design/interception.md and the tests of test_shim_loading.py are about the same roads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROAD = re.compile(r"test_(program|library)_(linked|that_opens|that_asks|opened)")


def roads() -> Iterator[str]:
    """Each test of a road by name; of one that a program takes itself, with its parameter."""
    module = ast.parse((ROOT / "tests/device/loading/test_shim_loading.py").read_text())
    for test in module.body:
        if not isinstance(test, ast.FunctionDef) or not ROAD.match(test.name):
            continue
        ways = [call.args[1] for call in test.decorator_list if isinstance(call, ast.Call) and len(call.args) == 2]
        if ways and test.name.startswith("test_program"):
            yield from (f"{test.name}[{way}]" for way in ast.literal_eval(ways[0]))
        else:
            yield test.name


def test_every_road_is_a_row_and_every_row_a_test() -> None:
    page = (ROOT / "docs" / "design" / "interception.md").read_text()
    rows = re.findall(r"^\|.*\| `(test_\w+(?:\[.+\])?)` \|$", page, re.MULTILINE)
    assert len(rows) == len(set(rows)) >= 16
    assert set(rows) == set(roads())
