"""Fixtures that files name in `pytest_plugins` are every file's: of two of one name the one read last would be everybody's, in a run of the whole suite alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "device/support/fixtures"
NAMES = re.compile(r"^@pytest\.fixture\b.*\n(?:async )?def (\w+)", re.MULTILINE)


def test_no_two_fixtures_of_plugins_have_one_name() -> None:
    names = Counter(name for file in FIXTURES.glob("*.py") for name in NAMES.findall(file.read_text()))
    assert len(names) > 10, "they are found"
    assert [name for name, count in names.items() if count > 1] == []
