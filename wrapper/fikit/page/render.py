"""The page as text: the document through job.html and style.css."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fikit.page import site as site_page
from fikit.page.document import Page
from fikit.page.timeline import PIECES
from fikitd import __version__

HERE: Final = Path(__file__).parent


def html(page: Page) -> str:
    """One file that needs nothing else. Every value is escaped; the style sheet is the one thing that its Content-Security-Policy allows."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    record = json.dumps(page.record, indent=1, sort_keys=True)
    text = _environment().get_template("job.html")
    return text.render(page=page, style=style, digest=digest, record=record, version=__version__, pieces=PIECES)


def site(page: site_page.Page) -> str:
    """The same of `fikit advise --site`."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _environment().get_template("site.html").render(page=page, style=style, digest=digest, version=__version__)


@cache
def _style() -> str:
    return (HERE / "style.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    made.filters["keep_units"] = lambda text: re.sub(r"(?<=\d) (?=h\b|%)", "\u00a0", text)
    return made
