"""`fikit advise --site`: what jobs made of the GPUs that they held, as a table, as comma-separated values and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from fikitd.base.quantities import percent
from rich.console import RenderableType
from rich.text import Text

from fikit.cluster.past import Held, Past, Sums
from fikit.reporters import csv, table
from fikit.reporters.grid import Column, Grid
from fikit.wording import moments, units

MOST: Final = 20  # users, and broken promises, of a table
COLUMNS: Final = (
    "job", "user", "uid", "name", "node", "kind", "ended", "gpus", "held_s", "busy", "memory_share", "freed_s", "emulated", "priority", "kept",
    "slowdown", "max_slowdown", "delayed_s", "why",
)  # fmt: skip


def document(past: Past) -> dict[str, Any]:
    """As --json prints it."""
    return {
        "since": _iso(past.since), "until": _iso(past.until), "sums": asdict(past.sums),
        "users": [{"uid": uid, "user": table.user(uid), **asdict(sums)} for uid, sums in past.users], "jobs": [_record(job) for job in past.jobs],
    }  # fmt: skip


def emit_csv(past: Past) -> None:
    """A line for each job, as document() has it."""
    csv.emit_rows(COLUMNS, ([_record(job)[column] for column in COLUMNS] for job in past.jobs))


def view(past: Past) -> Iterator[RenderableType]:
    """What it comes to, who holds most nearly idle, which promises were broken and why."""
    yield Text("\n".join(lines(past)))
    if past.users:
        yield users(past.users)
    if past.broken:
        yield broken(past.broken)


def lines(past: Past) -> Iterator[str]:
    """The sums in words: each with what it is of."""
    found = past.sums
    when = f"ended from {moments.minute(past.since)} to {moments.minute(past.until)}"
    if not found.jobs:
        yield f"no job of which fikit has a report {when}"
        return
    yield f"{_many(found.jobs, 'job')} {when}: {_kinds(found)}"
    if found.emulated_jobs:
        yield f"{units.count(found.emulated_jobs)} of them on an emulated GPU, whose figures say nothing about a real one"
    if found.alone_jobs:
        known = (
            "" if found.watched_s >= found.held_s else f"; how busy the GPUs were is known of {hours(found.watched_s)}"
        )
        yield f"GPU-hours that jobs held alone: {hours(found.held_s)}{known}"
    if found.watched_s:
        yield f"of these {hours(found.watched_s)} the GPUs were idle for {hours(found.idle_s)}; jobs that kept them less than 20 % busy held {hours(found.nearly_idle_s)}"
        yield f"sharing would free at most {hours(found.freed_s)}: of each job with one GPU what it left of the GPU's time or, if less, memory"
    if found.kept + found.broken + found.unknown:
        yield f"promises kept: {found.kept}, broken: {found.broken}, not known: {found.unknown}"


def users(found: Sequence[tuple[int, Sums]]) -> Grid:
    """Who holds most nearly idle first."""
    rows = found[:MOST]

    def numbers(name: str, goes: int, cells: list[str]) -> Column:
        return Column(name, cells, goes=goes, justify="right")

    return Grid(
        [
            Column("user", [Text(table.user(uid)) for uid, _ in rows]),
            numbers("jobs", 3, [units.count(sums.jobs) for _, sums in rows]),
            numbers("held alone", 0, [hours(sums.held_s) for _, sums in rows]),
            numbers("below 20 % busy", 0, [hours(sums.nearly_idle_s) for _, sums in rows]),
            numbers("sharing frees", 0, [hours(sums.freed_s) for _, sums in rows]),
            numbers("shared", 2, [units.count(sums.shared_jobs) for _, sums in rows]),
            numbers("unused", 4, [units.count(sums.unused_jobs) for _, sums in rows]),
            numbers("kept", 3, [units.count(sums.kept) for _, sums in rows]),
            numbers("broken", 1, [units.count(sums.broken) for _, sums in rows]),
        ],
        notes=[f"and {len(found) - MOST} more users; --csv and --json have them all"] if len(found) > MOST else [],
    )


def broken(found: Sequence[Held]) -> Grid:
    """Promises that were not kept, the newest first."""
    rows = found[:MOST]
    return Grid(
        [
            table.jobs([(job.job, job.name) for job in rows]),
            Column("user", [Text(table.user(job.uid)) for job in rows], goes=2),
            Column("node", [Text(job.node) for job in rows], goes=3),
            Column("ended", [ended(job) for job in rows], goes=1),
            Column("slower by", [slower(job) for job in rows]),
            Column("because of", [Text(job.why) for job in rows], 16),
        ],
        title=table.title("Promises broken"),
        notes=[f"and {len(found) - MOST} more; --csv and --json have them all"] if len(found) > MOST else [],
    )


def hours(seconds: float) -> str:
    """GPU-hours: `3.2 h`."""
    return f"{seconds / 3600:,.1f} h".replace(",", " ")


def slower(job: Held) -> str:
    """`9 % (5 % allowed)`."""
    by = "-" if job.slowdown is None else units.share(job.slowdown - 1)
    return by if job.max_slowdown is None else f"{by} ({percent(job.max_slowdown)} allowed)"


def ended(job: Held) -> str:
    return "" if job.ended is None else moments.minute(job.ended)


def _record(job: Held) -> dict[str, Any]:
    found = {**asdict(job), "user": table.user(job.uid), "ended": _iso(job.ended)}
    return {column: found[column] for column in COLUMNS}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _kinds(found: Sums) -> str:
    facts = [f"{units.count(found.alone_jobs)} had GPUs alone", f"{units.count(found.shared_jobs)} shared one"]
    facts += [f"{units.count(found.unused_jobs)} launched nothing through fikit"] if found.unused_jobs else []
    return ", ".join(facts)


def _many(number: int, one: str) -> str:
    return f"{units.count(number)} {one}{'' if number == 1 else 's'}"
