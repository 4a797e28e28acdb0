"""The page in a real browser: it shows what it says, runs nothing, and follows paper and darkness. Needs Debian's package chromium."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT
from fikit.advice import of_run
from fikit.api import job_report
from fikit.page import document, render
from fikit.page.document import Sources
from page_samples import HOSTILE, PARTNER, PROFILE, TRACE, seen

CHROMIUM = shutil.which("chromium")
LIGHT, DARK = (0xFF, 0xFF, 0xFF), (0x14, 0x17, 0x1A)  # --paper in style.css

pytestmark = [
    pytest.mark.starts_processes,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian's package)"),
]

Browser = Callable[..., subprocess.CompletedProcess[str]]


def page(record: dict[str, Any] = REPORT) -> str:
    run = job_report.of(record)
    return render.html(
        document.of(
            run, of_run.advise(run), Sources(TRACE, {"18": PARTNER}, PROFILE), datetime(2026, 11, 26, tzinfo=UTC)
        )
    )


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """Opens a file from disk, as a person does, without a network."""

    def opened(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        command = [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", f"--user-data-dir={tmp_path}/profile", *options, file.as_uri(),
        ]  # fmt: skip
        env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": f"{tmp_path}/config"}
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=env)

    return opened


def said_by_the_page(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the browser's console has: refused styles, scripts, pictures."""
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def first_pixel(png: bytes) -> tuple[int, ...]:
    """Red, green and blue of the upper left corner of an 8-bit PNG: whatever its filter, nothing is left of it or above it."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    return tuple(zlib.decompress(data)[1:4])


def test_what_the_browser_shows_is_what_was_written(browser: Browser) -> None:
    written = page()
    done = browser(written, "--dump-dom")
    shown, meant = seen(done.stdout), seen(written)
    assert said_by_the_page(done) == []
    assert [(each.attributes, each.text) for each in shown.all("data")] == [
        (each.attributes, each.text) for each in meant.all("data")
    ]
    assert len(shown.all("data")) > 100
    # The parser of a browser repairs what is wrong: nothing was.
    assert [each.tag for each in shown.elements] == [each.tag for each in meant.elements]


def test_a_hostile_name_runs_nothing(browser: Browser) -> None:
    record = {**REPORT, "name": HOSTILE, "warnings": [HOSTILE], "profile": {**REPORT["profile"], "key": HOSTILE}}
    done = browser(page(record), "--dump-dom", "--virtual-time-budget=2000")
    assert said_by_the_page(done) == []
    shown = seen(done.stdout)
    assert [each.text for each in shown.all("title")] == [f"Job 12 {HOSTILE} - fikit"]
    assert [shown.all(tag) for tag in ("script", "img")] == [[], []]


def test_even_markup_that_got_in_would_run_nothing(browser: Browser) -> None:
    """The second lock: what escaping would let through, the Content-Security-Policy refuses."""
    attack = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\"><p style='position:fixed'>x</p>"
    done = browser(page().replace("<main>", f"<main>{attack}"), "--dump-dom", "--virtual-time-budget=2000")
    assert "<title>Job 12 serve - fikit</title>" in done.stdout
    assert len(said_by_the_page(done)) >= 3
    assert all("Content Security Policy" in line for line in said_by_the_page(done))


@pytest.mark.parametrize(("scheme", "paper"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_it_follows_light_and_dark(browser: Browser, tmp_path: Path, scheme: int, paper: tuple[int, ...]) -> None:
    picture = tmp_path / "page.png"
    done = browser(
        page(), f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}", "--window-size=1000,3000"
    )
    assert said_by_the_page(done) == []
    assert first_pixel(picture.read_bytes()) == paper


def test_it_prints(browser: Browser, tmp_path: Path) -> None:
    paper = tmp_path / "page.pdf"
    browser(page(), f"--print-to-pdf={paper}", "--no-pdf-header-footer", "--blink-settings=preferredColorScheme=0")
    printed = paper.read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6
