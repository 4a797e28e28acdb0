"""docs/security.md names the tests that try to break its claims: they exist, and every claim of its tables has some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/security.md").read_text()
NAMED = sorted(set(re.findall(r"`(test_\w+)`", TEXT)))


def defined() -> set[str]:
    sources = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in sources for name in re.findall(r"^(?:async )?def (test_\w+)\(", text, re.M)}


@pytest.fixture(scope="module")
def tests() -> set[str]:
    return defined()


@pytest.mark.parametrize("name", NAMED)
def test_named_test_exists(tests: set[str], name: str) -> None:
    assert name in tests


def test_every_attempt_has_a_test() -> None:
    table = TEXT.partition("## What a user can try")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]  # without the head
    assert len(rows) > 10
    assert [row for row in rows if "`test_" not in row] == []
