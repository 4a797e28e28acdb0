"""JSON on stdout, for programs, and for people who look at it."""

from __future__ import annotations

import json
import re
from typing import Any

from fikit.wording import screen


def emit(data: Any) -> None:
    """What a terminal would not show as text is written as JSON's escapes, which mean the same."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    screen.echo(re.sub(r"[^\n -~]", _escaped, text))


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]
