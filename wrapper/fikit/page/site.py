"""`fikit advise --site --html`: the words and tables of the page. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from fikit.cluster.past import Past
from fikit.reporters import site, table
from fikit.wording import moments, units

MOST: Final = 1000  # rows of a table

Kind = Literal[
    "number", "word", "text"
]  # of a column (style.css): a word stays on one line, a text takes as many as it needs


@dataclass(frozen=True)
class Table:
    """columns: each with what it has. none: the sentence that stands there instead of a table without rows."""

    id: str
    title: str
    about: str
    columns: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[str, ...], ...]
    none: str


@dataclass(frozen=True)
class Page:
    title: str
    lines: tuple[str, ...]
    tables: tuple[Table, ...]


def of(past: Past) -> Page:
    """All of it in the order of the page."""
    title = f"GPUs from {moments.day(past.since)} to {moments.day(past.until)}"
    return Page(title, tuple(site.lines(past)), (_users(past), _broken(past), _jobs(past)))


def _users(past: Past) -> Table:
    columns: tuple[tuple[str, Kind], ...] = (
        ("user", "word"),
        ("jobs", "number"),
        ("held alone", "number"),
        ("below 20 % busy", "number"),
        ("sharing frees", "number"),
        ("promises kept", "number"),
        ("broken", "number"),
    )
    rows = tuple(
        (table.user(uid), units.count(sums.jobs), site.hours(sums.held_s), site.hours(sums.nearly_idle_s), site.hours(sums.freed_s), units.count(sums.kept), units.count(sums.broken))
        for uid, sums in past.users[:MOST]
    )  # fmt: skip
    return Table(
        "users",
        "Users",
        "GPU-hours; first the user whose jobs held most of them while they kept their GPUs less than 20 % busy.",
        columns,
        rows,
        "No job ended",
    )


def _broken(past: Past) -> Table:
    columns: tuple[tuple[str, Kind], ...] = (
        ("job", "word"),
        ("name", "text"),
        ("user", "word"),
        ("node", "word"),
        ("ended", "word"),
        ("slower by", "number"),
        ("because of", "text"),
    )
    rows = tuple(
        (job.job, job.name, table.user(job.uid), job.node, site.ended(job), site.slower(job), job.why)
        for job in past.broken[:MOST]
    )
    return Table(
        "broken",
        "Promises broken",
        "Jobs that lower jobs slowed down by more than their max_slowdown, the newest first.",
        columns,
        rows,
        "No promise was broken",
    )


def _jobs(past: Past) -> Table:
    columns: tuple[tuple[str, Kind], ...] = (
        ("job", "word"),
        ("user", "word"),
        ("node", "word"),
        ("ended", "word"),
        ("held", "number"),
        ("busy", "number"),
        ("memory", "number"),
        ("sharing frees", "number"),
    )
    would = sorted((job for job in past.jobs if job.freed_s), key=lambda job: -(job.freed_s or 0.0))
    rows = tuple(
        (job.job, table.user(job.uid), job.node, site.ended(job), site.hours(job.held_s), units.share(job.busy), units.share(job.memory_share), site.hours(job.freed_s or 0.0))
        for job in would[:MOST]
    )  # fmt: skip
    return Table(
        "jobs",
        "Jobs that would share",
        "Jobs that had one GPU alone and kept it less than half busy, first those that would free most. What sharing frees is an upper bound.",
        columns,
        rows,
        "No job",
    )
