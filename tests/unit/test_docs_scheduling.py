"""What the pages on scheduling say of the policy's constants and of the pairs that benches play is what the code has."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from fikitd.simulator import TUNING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.pairs import PAIRS
from bench.record import ROOT

TEXT = (ROOT / "docs" / "scheduling.md").read_text()
RESULTS = (ROOT / "docs" / "scheduling-results.md").read_text()
UNITS = {"": 1.0, "%": 0.01, "us": 1e3, "ms": 1e6, "s": 1e9}


def test_the_page_has_each_constant_with_its_value() -> None:
    table = TEXT.partition("\n### Constants\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) ?(%|us|ms|s|) \| \[", table, re.M)
    assert {name: float(number) * UNITS[unit] for name, number, unit in rows} == pytest.approx(TUNING)


def test_the_page_of_results_has_the_pairs_of_the_benches() -> None:
    table = RESULTS.partition("\n## Pairs and cases\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (P\d+) \| (\S+) \| (\S+) \|$", table, re.M)
    assert {pair: (high, low) for pair, high, low in rows} == PAIRS
