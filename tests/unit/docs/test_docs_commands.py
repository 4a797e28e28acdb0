"""What every page tells a reader to type: options of fikit-report, benches with their options, versions of the protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fikit.commands.report import command as report
from fikitd.base import protocol

from bench.__main__ import _parser

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
)
MARK = re.compile(r"<!--.*?-->")
BENCH = re.compile(r"python -m bench ([^`\n|]+)")
REPORT = re.compile(r"fikit-report ([^`\n|]*)")
VAGUE = re.compile(r"NAME|\.\.\.|\[")


def written(page: str) -> str:
    return MARK.sub("", (ROOT / page).read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if BENCH.search(written(page))])
def test_every_bench_takes_what_the_page_hands_it(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for match in BENCH.finditer(written(page)):
        if VAGUE.search(match[1]):
            continue
        try:
            _parser().parse_args(match[1].split())
        except SystemExit:
            wrong.append(f"{match[1]}: {capsys.readouterr().err}")
    assert wrong == []


def test_every_option_of_fikit_report_is_one() -> None:
    known = {option for param in report.params for option in param.opts} | {"--help"}
    found = {
        option
        for page in PAGES
        for match in REPORT.finditer(written(page))
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", match[1])
    }
    assert len(found) > 4
    assert found - known == set()


def test_pages_name_the_versions_of_the_protocol_that_are_served() -> None:
    found = {
        page: said
        for page in PAGES
        if (
            said := re.findall(
                r"(?:protocol versions|`struct fikit_hello`;) (\d+ to \d+)(?: are served|\))", written(page)
            )
        )
    }
    assert found == {
        page: [f"{protocol.OLDEST} to {protocol.VERSION}"] for page in ("docs/admin.md", "docs/design/contracts.md")
    }
