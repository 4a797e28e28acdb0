"""`fikit advise --site --html`: the words and tables of the page. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fikit.cluster.past import Past
from fikit.reporters import site, table
from fikit.wording import moments, units

MOST: Final = 1000  # rows of a table


@dataclass(frozen=True)
class Table:
    """columns: each with whether it has numbers. none: what stands there instead of no row."""

    id: str
    title: str
    caption: str
    columns: tuple[tuple[str, bool], ...]
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
    columns = (
        ("user", False),
        ("jobs", True),
        ("held alone", True),
        ("below 20 % busy", True),
        ("sharing frees", True),
        ("kept", True),
        ("broken", True),
    )
    rows = tuple(
        (table.user(uid), units.count(sums.jobs), site.hours(sums.held_s), site.hours(sums.nearly_idle_s), site.hours(sums.freed_s), units.count(sums.kept), units.count(sums.broken))
        for uid, sums in past.users[:MOST]
    )  # fmt: skip
    return Table("users", "Users", "GPU-hours; who holds most nearly idle first.", columns, rows, "No job ended")


def _broken(past: Past) -> Table:
    columns = (
        ("job", False),
        ("name", False),
        ("user", False),
        ("node", False),
        ("ended", False),
        ("slower by", True),
        ("because of", False),
    )
    rows = tuple(
        (job.job, job.name, table.user(job.uid), job.node, site.ended(job), site.slower(job), job.why)
        for job in past.broken[:MOST]
    )
    return Table(
        "broken",
        "Promises broken",
        "Jobs that lower ones slowed down by more than they may, the newest first.",
        columns,
        rows,
        "None",
    )


def _jobs(past: Past) -> Table:
    columns = (
        ("job", False),
        ("user", False),
        ("node", False),
        ("ended", False),
        ("held", True),
        ("busy", True),
        ("memory", True),
        ("sharing frees", True),
    )
    would = sorted((job for job in past.jobs if job.freed_s), key=lambda job: -(job.freed_s or 0.0))
    rows = tuple(
        (job.job, table.user(job.uid), job.node, site.ended(job), site.hours(job.held_s), _percent(job.busy), _percent(job.memory_share), site.hours(job.freed_s or 0.0))
        for job in would[:MOST]
    )  # fmt: skip
    return Table(
        "jobs",
        "Jobs that would share",
        "Jobs that had one GPU alone and kept it less than half busy, those that would free most first; at most.",
        columns,
        rows,
        "None",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else units.percent(share, 1)
