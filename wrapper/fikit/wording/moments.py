"""Moments as people read them: the day by numbers, in UTC, which is said. Programs get `2026-11-21T12:00:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def second(at: datetime) -> str:
    """`2026-11-21 12:00:00 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def minute(at: datetime) -> str:
    """`2026-11-21 12:00 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day(at: datetime) -> str:
    """`2026-11-21`, of UTC's days."""
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def ran(started: datetime | None, ended: datetime | None) -> str:
    """`2026-11-21 12:00:00 to 12:00:09 UTC`, with both days where they differ; `since ...` of what goes on; nothing where the start is not known."""
    if started is None:
        return ""
    if ended is None:
        return f"since {second(started)}"
    until = second(ended)
    if day(started) == day(ended):
        until = until.partition(" ")[2]
    return f"{second(started).removesuffix(' UTC')} to {until}"
