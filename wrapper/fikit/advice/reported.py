"""Advice for the run of a report, with what is stored of its like: the peaks of its name's last runs, the site's highest priority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fikitd.api.uses import Use
from fikitd.config import fikit_toml
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore

from fikit.advice import gather, of_run, rules, use_rules
from fikit.api.advice import Advice
from fikit.api.job_report import TypedReport
from fikit.site_paths import places


def advise(run: TypedReport) -> list[Advice]:
    """Never raises: a report is shown without what cannot be read."""
    return of_run.advise(run, _peaks_bytes(run), _highest())


def advise_of_use(use: Use) -> list[Advice]:
    """As advise(), of a job whose launches fikit did not see."""
    return rules.advise(use_rules.situation(use, _highest()))


def _peaks_bytes(run: TypedReport) -> Iterator[int]:
    for place in places():
        with suppress(OSError, ValueError):
            yield from MemoryHistory(ProfileStore(place.profile_dir)).of(run.uid, run.name).values()


def _highest() -> int:
    try:
        return gather.highest(fikit_toml.load().access, "")
    except fikit_toml.ConfigError:
        return 0
