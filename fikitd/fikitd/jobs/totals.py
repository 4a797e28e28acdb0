"""Counters of one job over all its clients: what `_core` counts for a client, added up for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fikitd._core import COUNTERS
from fikitd.api import former_names

Stats = Mapping[str, Any]  # as Dispatcher.stats() gives them (docs/design/contracts.md)

SLIGHT: Final = 0.01  # of the launches: so many may have no time of their own, and the sum still counts as known


@dataclass(frozen=True)
class Totals:
    """Sums over clients, by `_core.COUNTERS`. A time that one client with kernels does not know is unknown (None) for the job."""

    kernels: int = 0
    gpu_time_ns: int | None = None
    gpu_time_at_most_ns: int = 0
    untimed: int = 0
    beside: int = 0
    doubtful: int = 0
    unfinished: int = 0  # of clients that are gone
    span_ns: int = 0
    span_alone_ns: int | None = None
    wait_count: int = 0
    wait_total_ns: int = 0
    wait_p99_ns: float = 0.0  # of the client that waited longest: percentiles do not add
    gaps_offered: int = 0
    gaps_filled: int = 0
    others_kernels: int = 0
    predicted_gap_ns: float = 0.0
    actual_gap_ns: float = 0.0
    gap_error_p50_ns: float = 0.0  # means over clients, weighted by gaps offered
    gap_error_p90_ns: float = 0.0
    expired: int = 0
    drifted: int = 0

    def plus(self, stats: Stats, gone: bool = True) -> Totals:
        """These totals and one more client's counters; what is under way of one that is still there (not `gone`) may yet be done."""
        if stats["kernels"] == 0:
            return self
        unfinished = stats["unfinished"] if gone else 0
        known_ns, at_most_ns = gpu_time(stats, unfinished)
        offered = self.gaps_offered + stats["gaps_offered"]

        def known(name: str, more: float | None) -> int | None:
            mine = getattr(self, name)
            if more is None or (mine is None and self.kernels > 0):
                return None
            return int((mine or 0) + more)

        def weighted(name: str) -> float:
            if offered == 0:
                return 0.0
            return float((getattr(self, name) * self.gaps_offered + stats[name] * stats["gaps_offered"]) / offered)

        added: dict[str, Callable[[str], Any]] = {
            "sum": lambda name: getattr(self, name) + stats[name],
            "known": lambda name: known(name, stats[name]),
            "most": lambda name: max(getattr(self, name), stats[name]),
            "weighted": weighted,
        }
        return replace(
            self,
            **{name: added[how](name) for name, how in COUNTERS.items() if how != "own"},
            gpu_time_ns=known("gpu_time_ns", known_ns),
            gpu_time_at_most_ns=self.gpu_time_at_most_ns + at_most_ns,
            unfinished=self.unfinished + unfinished,
        )

    def fields(self) -> dict[str, Any]:
        """The part of a report record that is counters (docs/design/contracts.md, "Report records")."""
        fields = {
            "kernels": self.kernels,
            "gpu_time_s": _seconds(self.gpu_time_ns),
            "gpu_time_at_most_s": self.gpu_time_at_most_ns / 1e9 if self.gpu_time_ns is None else None,
            "untimed": self.untimed,
            "beside": self.beside,
            "doubtful": self.doubtful,
            "unfinished": self.unfinished,
            "span_s": self.span_ns / 1e9,
            "span_alone_s": _seconds(self.span_alone_ns),
            "wait": {
                "count": self.wait_count,
                "total_s": self.wait_total_ns / 1e9,
                "mean_us": self.wait_total_ns / self.wait_count / 1e3 if self.wait_count else 0.0,
                "p99_us": self.wait_p99_ns / 1e3,
            },
            "gaps": {
                "offered": self.gaps_offered,
                "filled": self.gaps_filled,
                "others_kernels": self.others_kernels,
                "predicted_us": self.predicted_gap_ns / self.gaps_offered / 1e3 if self.gaps_offered else 0.0,
                "actual_us": self.actual_gap_ns / self.gaps_offered / 1e3 if self.gaps_offered else 0.0,
                "error_p50_us": self.gap_error_p50_ns / 1e3,
                "error_p90_us": self.gap_error_p90_ns / 1e3,
            },
            "expired": self.expired,
            "drifted": self.drifted,
        }
        return former_names.with_former("report", fields)


def gpu_time(stats: Stats, unfinished: int = 0) -> tuple[int | None, int]:
    """A client's time on the GPU, None where too many of its launches have none of their own, and what it is at most."""
    at_most_ns = int(stats["under_way_ns"])
    reckoned_ns = stats["gpu_time_ns"]
    if reckoned_ns is None:
        return None, at_most_ns
    at_most_ns = min(int(reckoned_ns), at_most_ns)
    # Of times taken beside others a part is the others', and what was cancelled in the queue has used nothing.
    guessed = max(stats["beside"], unfinished) > SLIGHT * stats["kernels"]
    return None if guessed else at_most_ns, at_most_ns


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
