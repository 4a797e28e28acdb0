"""Documents that somebody else wrote, checked against a table: every field is accepted or refused, and nothing else gets through.

A check takes a value and what it is called, and gives the value to use, or raises ValueError with the end of a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from fikitd.base import validation

Check = Callable[[Any, str], Any]

MOST: Final = 2**64
LARGEST: Final = 1e18  # of a time, in whatever unit: sums of such still are numbers
MAX_VALUES: Final = 2**21  # of one document: some 100 bytes each, once they are objects
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def document(data: bytes, most: int = MAX_VALUES, constant: Callable[[str], Any] = validation.no_constant) -> Any:
    """What the JSON text says, of `most` values; `constant` is what NaN and Infinity are. ValueError with the reason, as the end of a sentence, where it is none or would take too much memory."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > most:
        raise ValueError(f"it has more than {most} values")
    try:
        return json.loads(data, parse_constant=constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at line {error.lineno})") from None
    except ValueError as error:  # our own of no_constant, and Python's of numbers with thousands of digits
        raise ValueError(validation.printable(str(error))) from None


def text(limit: int) -> Check:
    """A string; what is not printable in it becomes a question mark."""
    return lambda value, what: validation.printable(validation.string(value, what, limit))


def whole(minimum: int = 0, maximum: int = MOST) -> Check:
    return lambda value, what: validation.integer(value, what, minimum, maximum)


def amount(maximum: float = LARGEST) -> Check:
    return lambda value, what: validation.number(value, what, maximum)


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} is neither true nor false")
    return value


def name(value: Any, what: str) -> str:
    """What may be a file's name: a job id or a profile key."""
    if not validation.is_name(validation.string(value, what, 64)):
        raise ValueError(f"{what} is not a name")
    return str(value)


def moment(value: Any, what: str) -> str:
    """A time as reports and profiles write it."""
    if not _MOMENT.fullmatch(validation.string(value, what, 64)):
        raise ValueError(f"{what} is not a time")
    return str(value)


def one_of(*values: str) -> Check:
    def check(value: Any, what: str) -> str:
        if not isinstance(value, str) or value not in values:
            raise ValueError(f"{what} is not one of {', '.join(values)}")
        return value

    return check


def empty_or(check: Check) -> Check:
    return lambda value, what: value if value == "" else check(value, what)


def null_or(check: Check) -> Check:
    return lambda value, what: None if value is None else check(value, what)


def several(check: Check, limit: int) -> Check:
    """A list of at most `limit`."""

    def each(value: Any, what: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > limit:
            raise ValueError(f"{what} is not a list of at most {limit}")
        return [check(entry, f"an entry of {what}") for entry in value]

    return each


def good_ones(check: Check, limit: int) -> Check:
    """A list of which those are left out that are refused: one that somebody spoils hides no other."""

    def each(value: Any, what: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > limit:
            raise ValueError(f"{what} is not a list of at most {limit}")
        found = []
        for entry in value:
            with suppress(ValueError):
                found.append(check(entry, f"an entry of {what}"))
        return found

    return each


def by_name(check: Check, limit: int, longest: int = 64) -> Check:
    """An object with any keys, at most `limit`."""

    def each(value: Any, what: str) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > limit or any(len(key) > longest for key in value):
            raise ValueError(f"{what} is not an object of at most {limit} entries")
        return {validation.printable(key): check(entry, f"an entry of {what}") for key, entry in value.items()}

    return each


def row(*checks: Check) -> Check:
    """A list of exactly these."""

    def each(value: Any, what: str) -> list[Any]:
        if not isinstance(value, list) or len(value) != len(checks):
            raise ValueError(f"{what} is not a list of {len(checks)}")
        return [check(entry, what) for check, entry in zip(checks, value, strict=True)]

    return each


def fields(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with all of `required` and any of `optional`. What else is in it is a later version's, and left out."""
    known = {**required, **(optional or {})}

    def each(value: Any, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{what} is not an object")
        for missing in (key for key in required if key not in value):
            raise ValueError(f"{missing} of {what} is missing")
        return {key: known[key](entry, f"{key} of {what}") for key, entry in value.items() if key in known}

    return each
