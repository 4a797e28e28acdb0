"""What the repository's pages link to, and what its files say of them, is there: the file, and the heading that is named."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOT_OURS = {"build", "corpus", "dist", "out", "shared"}
TEXTS = {
    ".8", ".S", ".c", ".cmake", ".conf", ".cpp", ".css", ".def", ".h", ".hpp", ".html", ".js", ".json", ".lua", ".map", ".md", ".py", ".pyi", ".service", ".sh",
    ".spec", ".svg", ".timer", ".toml", ".txt", ".yaml", ".yml", "",
}  # fmt: skip


def files() -> list[Path]:
    found: list[Path] = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if not name.startswith(".") and name not in NOT_OURS]
        found += [Path(folder, name) for name in names if Path(name).suffix in TEXTS]
    return sorted(found)


FILES = files()
PAGES = [path for path in FILES if path.suffix == ".md"]


def prose(page: str) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ +(.+?)\s*$", prose(page), re.M)


def anchors(page: str) -> set[str]:
    """Of its headings, as GitHub makes them: of equal ones the second ends in -1."""
    found: dict[str, int] = {}
    names = set()
    for heading in headings(page):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        names.add(name if name not in found else f"{name}-{found[name]}")
        found[name] = found.get(name, 0) + 1
    return names


def links(page: str) -> list[str]:
    """Relative ones, pictures too."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def leads_nowhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = path.parent / name if name else path
    return not target.exists() or (bool(anchor) and anchor not in anchors(target.read_text()))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert [link for link in links(path.read_text()) if leads_nowhere(path, link)] == []


def test_links_and_anchors_are_found_as_a_reader_finds_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `thing`, twice\n```\n# [no](no.md)\n```\n## [A-b](c.md)\n## A-b\n[x](page.md#a-b-1) `[y](z)`\n"
    )
    text = page.read_text()
    assert anchors(text) == {"one-thing-twice", "a-b", "a-b-1"}
    assert links(text) == ["c.md", "page.md#a-b-1"]
    assert [leads_nowhere(page, link) for link in ("#a-b", "page.md#a-b-1", "#a-b-2", "c.md")] == [
        False,
        False,
        True,
        True,
    ]


def test_every_test_that_is_named_is_there() -> None:
    """By its path, in a page or a source. Tests may name files that they make up, and the CHANGELOG those of its day."""
    wrong = []
    for path in FILES:
        named = re.findall(r"(?<![\w/])tests/[\w/]+\.(?:py|c|cpp|h|js)\b", path.read_text())
        if path.name != "CHANGELOG.md" and not path.name.startswith("test_"):
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in named if not (ROOT / name).exists()]
    assert wrong == []


def test_every_page_that_is_named_is_there() -> None:
    """Also its heading, where one is named behind it: docs/page.md, "Heading"."""
    wrong = []
    for path in FILES:
        for name, heading in re.findall(r'\b(docs/[\w/-]+\.md)(?:, "([^"\n]+)")?', path.read_text()):
            page = ROOT / name
            there = page.exists() and any(each.startswith(heading) for each in headings(page.read_text()))
            if path != Path(__file__) and not there:
                wrong.append(f"{path.relative_to(ROOT)}: {name} {heading}")
    assert wrong == []
