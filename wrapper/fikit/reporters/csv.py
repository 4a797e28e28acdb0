"""Comma-separated values on stdout: one line per job, units in the names of the columns, nothing where nobody knows it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from itertools import chain
from typing import Final

from fikitd.api.uses import Use

from fikit.api.job_report import TypedReport, moment
from fikit.cluster import past
from fikit.wording import screen

SAME: Final = (
    "job", "part", "name", "uid", "node", "state", "priority", "priority_name", "measured", "started", "ended", "elapsed_s", "alone_s",
    "waited_s", "delayed_s", "host_s", "unexplained_s", "slowdown", "max_slowdown", "kept", "gpu_time_s", "gpu_time_at_most_s", "kernels",
)  # fmt: skip
COLUMNS: Final = (
    *SAME, "memory_peak_bytes", "memory_limit_bytes", "gpu", "emulated", "device_mode", "warnings", "kind", "busy_share", "held_s",
)  # fmt: skip
FORMULA: Final = ("=", "+", "-", "@")  # what a spreadsheet would compute; names are their users'


def emit(reports: Iterable[TypedReport], uses: Iterable[Use] = ()) -> None:
    """A line of names, then a line for each job, those with a report first."""
    emit_rows(COLUMNS, chain(map(_row, reports), map(_row_of_use, uses)))


def emit_rows(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """The same of any rows."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(map(_cell, row))
    screen.echo(sink.getvalue().rstrip("\n"))


def _row(report: TypedReport) -> tuple[object, ...]:
    memory = report.memory
    return (
        *(getattr(report, column) for column in SAME), memory and memory.peak_bytes, memory and memory.limit_bytes, report.device.name,
        report.device.emulated, report.device_mode, len(report.warnings), "measured" if report.measured else "shared", None, None,
    )  # fmt: skip


def _row_of_use(use: Use) -> tuple[object, ...]:
    """Of a job whose launches fikit did not see. `elapsed_s` stays empty: what it was of is not known, and sums of the column are of jobs that shared."""
    held = past.used(use)
    known = {
        "job": use["job"], "name": use["name"], "uid": use["uid"], "node": use["node"], "state": "ended", "started": moment(use["started"]),
        "ended": held.ended, "memory_peak_bytes": use["peak_bytes"], "gpu": use["gpus"][0]["name"] if use["gpus"] else None,
        "emulated": held.emulated, "kind": held.kind, "busy_share": held.busy, "held_s": held.held_s,
    }  # fmt: skip
    return tuple(known.get(column) for column in COLUMNS)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return str(value)
