"""docs/glossary.md: each of its words is used in the documentation, stands there once and in its place by the alphabet, and is found from README and the guides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GLOSSARY = ROOT / "docs/glossary.md"
ROWS = re.findall(r"^\| (\*\*.+?) \| (.+) \| (.+) \|$", GLOSSARY.read_text(), re.M)
WORDS = [word for row in ROWS for word in re.findall(r"\*\*(.+?)\*\*", row[0])]
ELSEWHERE = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")) if path != GLOSSARY)
IN_THE_CODE = "\n".join(
    path.read_text()
    for folder in ("fikitd", "wrapper", "site")
    for path in sorted((ROOT / folder).rglob("*.[ptc]*"))
    if path.suffix in {".py", ".toml", ".cpp"}
)


def test_there_are_words() -> None:
    assert len(WORDS) > 30
    assert len(WORDS) == GLOSSARY.read_text().count("**") // 2, "a row that is no row of the table"


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_used_in_the_documentation(word: str) -> None:
    assert re.search(rf"\b{re.escape(word)}(s|es)?\b", ELSEWHERE, re.I)


def test_no_word_is_explained_twice() -> None:
    lower = [word.lower() for word in WORDS]
    assert sorted(lower) == sorted(set(lower))


def test_words_are_in_alphabetical_order() -> None:
    first = [re.findall(r"\*\*(.+?)\*\*", row[0])[0].lower() for row in ROWS]
    assert first == sorted(first)


def test_every_row_says_where_to_read_on() -> None:
    assert [row[0] for row in ROWS if not re.search(r"\]\([\w/.-]+\.md(#[\w-]+)?\)", row[2])] == []


def test_every_key_and_option_is_one() -> None:
    named = {name for row in ROWS for name in re.findall(r"`(?:--)?([a-z]+(?:[_-][a-z]+)+)`", " ".join(row))}
    assert named >= {"lease_ms", "max_slowdown", "fikit-max-delay"}
    assert {name for name in named if name not in IN_THE_CODE} == set()


@pytest.mark.parametrize(
    "page", ["README.md", "docs/user.md", "docs/admin.md", "docs/design/overview.md", "docs/scheduling.md"]
)
def test_readers_find_it(page: str) -> None:
    assert re.search(r"\]\((docs/|\.\./)?glossary\.md\)", (ROOT / page).read_text())
