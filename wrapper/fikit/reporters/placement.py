"""What placement wants and what waits, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from fikit.reporters.grid import WORDS, Column, Grid
from fikit.wording import units


def wanted(rows: Sequence[dict[str, Any]], mode: str) -> Grid | Text:
    """What `fikit place` would change."""
    note = f'[placement] mode is "{mode}"'
    if not rows:
        return Text(f"nothing to change: no job that shares a GPU waits; {note}")
    return Grid(
        [
            Column("job", [str(row["job"]) for row in rows]),
            Column("SiteFactor", [f"{row['site_factor']:+d}" for row in rows], justify="right"),
            Column("because", [str(row["why"]) for row in rows], WORDS),
        ],
        notes=[note],
    )


def queue(rows: Sequence[dict[str, Any]]) -> Grid | Text:
    """What `fikit queue` found."""
    if not rows:
        return Text("no job that shares a GPU waits")
    return Grid(
        [
            Column("job", [row["job"] for row in rows]),
            Column("name", [Text(row["name"]) for row in rows], 8, goes=3),
            Column("place", [str(row["place"]) for row in rows], justify="right"),
            Column("GPU memory", [f"{row['gib']} GiB" for row in rows], justify="right", goes=2),
            Column("waited", [_span(row["waited_s"]) for row in rows], justify="right"),
            Column("runs for", [_span(row["expected_s"]) for row in rows], justify="right", goes=1),
            Column("starts in", [_span(row["starts_in_s"]) for row in rows], justify="right"),
            Column("why it waits", [Text(row["why"]) for row in rows], WORDS),
        ]
    )


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else units.span(round(seconds))
