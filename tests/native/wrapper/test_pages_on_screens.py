"""Both pages in a real browser: on a narrow screen, in darkness, on paper, by keyboard and to a screen reader. Needs Debian's package chromium."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import devtools
import pytest
from cli_samples import REPORT
from devtools import Tab
from fikit.advice import of_run
from fikit.api import job_report
from fikit.cluster import past
from fikit.page import document, render, site
from fikit.page.document import Sources
from page_samples import PARTNER, PROFILE, TRACE
from site_samples import MANY_REPORTS, MANY_USES, UNTIL, WEEK

pytestmark = [
    pytest.mark.starts_processes,
    pytest.mark.skipif(devtools.CHROMIUM is None, reason="needs chromium (Debian's package)"),
]

PHONE, DESK = 400, 1000  # pixels
A4_PIXELS = 718  # between margins of 1 cm, at 96 to the inch


def written(name: str) -> str:
    if name == "site":
        return render.site(site.of(past.of(map(job_report.of, MANY_REPORTS), MANY_USES, WEEK, UNTIL)))
    run = job_report.of(REPORT)
    sources = Sources(TRACE, {"18": PARTNER}, PROFILE)
    return render.html(document.of(run, of_run.advise(run), sources, datetime(2026, 11, 26, tzinfo=UTC)))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with devtools.tab(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture(params=["job", "site"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.html"
    path.write_text(written(request.param), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_and_the_console_stays_empty(browser: Tab, file: Path, width: int, scheme: str) -> None:
    said = len(browser.said)
    browser.open(file, width, scheme=scheme)
    assert browser.said[said:] == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    # What is too wide scrolls in its own box: no text is squeezed to a few letters' width, and a word stays on its line.
    narrow = browser.value("[...document.querySelectorAll('td.text')].filter(each => each.clientWidth < 150).length")
    cut = browser.value(
        "[...document.querySelectorAll('tbody .word, tbody .number')].filter(each => {"
        " const range = document.createRange(); range.selectNodeContents(each);"
        " const tops = [...range.getClientRects()].map(line => line.top); return Math.max(...tops) - Math.min(...tops) > 10 }).length"
    )
    wide = browser.value(
        f"[...document.querySelectorAll('p, li, caption')].filter(each => each.clientWidth > {width - 32}).length"
    )
    assert (narrow, cut, wide) == (0, 0, 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_stands_out_from_its_paper(browser: Tab, file: Path, scheme: str) -> None:
    """WCAG's contrast of at least 4.5, of every colour that text has, on the paper or on a box's."""
    browser.open(file, scheme=scheme)
    contrasts = browser.value(
        """(() => {
          const bright = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(c => c / 255)
            .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const paper = each => {
            for (; each; each = each.parentElement) {
              const colour = getComputedStyle(each).backgroundColor;
              if (!colour.endsWith(', 0)')) return colour;
            }
            return 'rgb(255, 255, 255)';
          };
          return [...document.querySelectorAll('body *')].filter(each => [...each.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
            .map(each => [bright(getComputedStyle(each).color), bright(paper(each))].sort((a, b) => b - a))
            .map(([more, less]) => (more + 0.05) / (less + 0.05));
        })()"""
    )
    assert len(contrasts) > 50
    assert min(contrasts) >= 4.5


def test_the_keyboard_reaches_links_and_every_table_that_scrolls(browser: Tab, file: Path) -> None:
    browser.open(file, PHONE)
    reached = []
    for _ in range(40):
        browser.press_tab()
        reached.append(
            browser.value(
                "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
                " return e === document.body ? '' : `${e.getAttribute('aria-label') || e.textContent} | ${s.outlineStyle}` })()"
            )
        )
    links = browser.value("[...document.querySelectorAll('nav a')].map(each => each.textContent)")
    tables = browser.value("[...document.querySelectorAll('.wide')].map(each => each.getAttribute('aria-label'))")
    assert len(tables) >= 3
    for name in [*links, *tables]:
        assert f"{name} | solid" in reached, "it has the focus, and shows that"


def test_a_screen_reader_has_a_name_for_every_part(browser: Tab, file: Path) -> None:
    browser.open(file)
    for role in ("region", "table", "navigation", "image", "heading", "link"):
        names = browser.named(role)
        assert all(names), role
        assert len(set(names)) == len(names), f"two of them are called the same: {role}"
    assert len(browser.named("table")) >= 3
    assert len(browser.named("navigation")) == 1
    assert all(browser.named("columnheader"))
    assert all(browser.named("rowheader"))
    assert browser.value("document.documentElement.lang") == "en"
    levels = browser.value("[...document.querySelectorAll('h1, h2, h3')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_paper_has_all_of_it(browser: Tab, file: Path) -> None:
    browser.open(file, A4_PIXELS, scheme="dark")
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("document.documentElement.scrollWidth") <= A4_PIXELS, "nothing is cut off at the right"
    assert browser.value("getComputedStyle(document.querySelector('.wide')).overflowX") == "visible"
    paper = base64.b64decode(browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
    browser.ask("Emulation.setEmulatedMedia", media="")
    assert paper.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 6
