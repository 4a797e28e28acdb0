"""docs/scheduling.md, "Constants": what the policy weighs by is what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fikitd.simulator import TUNING

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "scheduling.md").read_text()
UNITS = {"": 1.0, "%": 0.01, "us": 1e3, "ms": 1e6, "s": 1e9}


def test_the_page_has_each_constant_with_its_value() -> None:
    table = TEXT.partition("\n### Constants\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) ?(%|us|ms|s|) \| \[", table, re.M)
    assert {name: float(number) * UNITS[unit] for name, number, unit in rows} == pytest.approx(TUNING)
