"""Text that came from outside (a client, a file, a command line) before it becomes a file name or a line on a screen."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

AHEAD_S: Final = 2 * 86_400.0  # nodes' clocks differ; what is from so far ahead, is from one that is wrong
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_name(text: str) -> bool:
    """Whether `text` is safe as one file name: a job id or a profile key. No leading dot, so never `.` or `..`."""
    return NAME.fullmatch(text) is not None


def printable(text: str) -> str:
    """`text` without characters that could move a cursor, colour a terminal or break a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def slug(text: str, limit: int) -> str:
    """`text` reduced to the characters of a name, at most `limit` of them."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:limit]


def no_constant(token: str) -> NoReturn:
    """For json's `parse_constant`: NaN and Infinity are no JSON, and arithmetic with them spreads silently."""
    raise ValueError(f"{token} is not a JSON number")


def integer(value: Any, what: str, minimum: int, maximum: int) -> int:
    """`value` when it is an integer within bounds, else ValueError that names `what`."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValueError(f"{what} is not an integer from {minimum} to {maximum}")
    return value


def number(value: Any, what: str, maximum: float) -> float:
    """`value` when it is a finite number from 0 to `maximum`, else ValueError that names `what`."""
    if type(value) not in (int, float) or not 0 <= value <= maximum:
        raise ValueError(f"{what} is not a number from 0 to {maximum:g}")
    return float(value)


def string(value: Any, what: str, limit: int) -> str:
    """`value` when it is a string of at most `limit` characters, else ValueError that names `what`."""
    if not isinstance(value, str) or len(value) > limit:
        raise ValueError(f"{what} is not a string of at most {limit} characters")
    return value
