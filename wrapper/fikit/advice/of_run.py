"""Advice for a run that a report is about: what its report says, in the words of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from math import inf
from typing import Any, Final

from fikitd.history import Known

from fikit.advice import rules, words
from fikit.advice.facts import Busy, Expectation, Facts, Request
from fikit.advice.offers import Alone
from fikit.advice.situation import Situation
from fikit.api.advice import Advice
from fikit.api.job_report import TypedReport

GIB: Final = 2**30


def advise(run: TypedReport, peaks_bytes: Iterable[int] = (), highest: int = 0) -> list[Advice]:
    """What the rules say of the run. peaks_bytes: of the last runs of its name; highest: the highest priority that the site allows."""
    return rules.advise(Situation(facts(run, peaks_bytes, highest), (), Alone("", inf, inf)))


def facts(run: TypedReport, peaks_bytes: Iterable[int] = (), highest: int = 0) -> Facts:
    memory = run.memory
    host_bytes = memory.moved.host_limit_bytes if memory and memory.moved else 0
    limit_bytes = memory.limit_bytes if memory else None
    running = run.state == "running"
    return Facts(
        request=Request(
            name=run.name, uid=run.uid, shards=-(-(limit_bytes - host_bytes) // GIB) if limit_bytes else 1, host_gib=-(-host_bytes // GIB), shards_source="asked" if limit_bytes else "default",
            shares=not run.measured, priority=run.priority, script=None if running else script(run), program=not run.job.isdecimal(),
            job=run.job, elapsed_s=run.elapsed_s or 0.0, running=running,
        ),
        expected=Expectation(0.0, "name", 1), busy=Busy(), known=None if running else _known(run, peaks_bytes), gpus=(), highest=highest, run=run,
    )  # fmt: skip


def script(run: TypedReport) -> str:
    """What to type behind sbatch, or behind `fikit run --`."""
    return words.script(run.name) if run.job.isdecimal() else "PROGRAM"


def document(advices: Iterable[Advice]) -> list[dict[str, Any]]:
    """As JSON has them."""
    return [asdict(each) for each in advices]


def _known(run: TypedReport, peaks_bytes: Iterable[int]) -> Known | None:
    """The most that it, or one of the last runs of its name, needed: less is no advice."""
    if run.memory is None or not run.memory.peak_bytes:
        return None
    elapsed_s = run.elapsed_s or 0.0
    peak_bytes = max([run.memory.peak_bytes, *peaks_bytes])
    return Known(1, (elapsed_s,) * 3, None, peak_bytes, None, None, run.device.emulated)
