"""Outcomes from reports: what a user may know of the own runs where neither outcomes_dir nor slurmdbd says it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from fikitd.api import outcomes
from fikitd.api.outcomes import UNKNOWN, Outcome
from fikitd.api.report_format import Report

NEEDED = ("elapsed_s", "alone_s", "memory")  # which reports of earlier versions do not have


def of_reports(reports: Iterable[Report]) -> Iterator[Outcome]:
    """Of jobs of Slurm's that have ended; what they cost other jobs no report says. `reports` are checked ones (fikitd.api.reports)."""
    for report in reports:
        if report["state"] == "ended" and report["ended"] and all(key in report for key in NEEDED):
            with suppress(
                ValueError, OverflowError
            ):  # a report is its user's file: the 31st of February looks like a time
                ended = datetime.fromisoformat(report["ended"])
                ended_s = int(ended.replace(tzinfo=ended.tzinfo or UTC).timestamp())
                outcome = outcomes.of_report(report, UNKNOWN, max(ended_s, 0))
                if outcome is not None:
                    yield outcome


def merged(*sources: Iterable[Outcome]) -> list[Outcome]:
    """Every run once: of a job that several sources know, the word of the first."""
    found: list[Outcome] = []
    known: set[tuple[int, int]] = set()
    for source in sources:
        new = [each for each in source if (each.uid, each.job) not in known]
        known |= {(each.uid, each.job) for each in new}
        found += new
    return found
