"""Since when: a span of time before now, or a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

Since = str | datetime | timedelta
_UNITS_S: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_S: Final = 100 * 366 * 86_400


def since(value: Since, now: datetime) -> datetime:
    """`1d`, `90min`, `2026-11-21`, `2026-11-21T08:00` (local time where it names no zone), or the same as Python's own types.

    ValueError, one sentence, for anything else.
    """
    if isinstance(value, timedelta):
        return _before(now, value.total_seconds(), str(value))
    if isinstance(value, datetime):
        return _in_utc(value, str(value))
    if match := re.fullmatch(r"(\d{1,9})(s|min|h|d|w)", value, re.ASCII):
        return _before(now, int(match[1]) * _UNITS_S[match[2]], value)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(
            f'"{value}" is neither a span of time nor a moment, write 90min, 12h, 1d, 2w or 2026-11-21T08:00'
        ) from None
    return _in_utc(found, value)


def _before(now: datetime, span_s: float, said: str) -> datetime:
    if not 0 <= span_s <= _LONGEST_S:
        raise ValueError(f'"{said}" is not a span of time from 0 to 100 years')
    return now - timedelta(seconds=span_s)


def _in_utc(moment: datetime, said: str) -> datetime:
    try:
        moment.timestamp()
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f'"{said}" is before any job of a computer') from None
