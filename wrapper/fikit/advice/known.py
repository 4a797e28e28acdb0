"""What is known of runs, from whatever the caller may read: the spool, slurmdbd, own reports, own profiles."""

from __future__ import annotations

import logging
import os
import pwd
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Final

from fikitd.api import outcomes
from fikitd.api.outcomes import Outcome
from fikitd.api.reports import ReportStore
from fikitd.config import fikit_toml
from fikitd.history import JobHistory, accounting, own_reports, pairs
from fikitd.history.pairs import Pair
from fikitd.profiles.profile_store import ProfileStore

from fikit.advice import batches
from fikit.advice.facts import Burst, Busy, Expectation, Run
from fikit.site_paths import places
from fikitd import _core

REPORTS: Final = 512  # of the newest, of one user
SACCT_S: Final = 10.0
_log = logging.getLogger("fikitd")


@dataclass(frozen=True)
class Runs:
    """sources: where it is from, in words. pairs: slowdowns of two that were on one GPU."""

    history: JobHistory
    sources: tuple[str, ...]
    pairs: Mapping[Pair, float]

    def expectation(self, uid: int, name: str, elapsed_s: float, limit_s: float) -> Expectation:
        said = self.history.expected_rest(uid, name, elapsed_s, limit_s)
        return Expectation() if said is None else Expectation(said.rest_s, said.source, said.runs)

    def busy(self, uid: int, name: str) -> Busy:
        known = self.history.known(uid, name)
        if known is not None and known.busy is not None:
            return Busy(known.busy, "name")
        usual = self.usual_busy
        return Busy() if usual is None else Busy(usual, "cluster")

    @cached_property
    def usual_busy(self) -> float | None:
        return self.history.usual_busy()


def runs(slurm: Mapping[str, str]) -> Runs:
    """`slurm`: settings of slurm.conf. What cannot be read is left out; never raises."""
    found = {"the spool of all nodes": _spool(), "slurmdbd": _accounted(slurm), "reports": _reports()}
    merged = own_reports.merged(*found.values())
    return Runs(JobHistory(merged), tuple(name for name, each in found.items() if each), pairs.learn(merged))


def _spool() -> list[Outcome]:
    site = fikit_toml.load().daemon
    trusted = []
    with suppress(KeyError):
        trusted = [pwd.getpwnam(site.outcomes_user).pw_uid]
    try:
        return outcomes.read(site.outcomes_dir, trusted) if site.outcomes_dir else []
    except PermissionError:
        return []  # it is SlurmUser's
    except (OSError, ValueError) as error:
        _log.warning("the history of runs in %s cannot be read: %s", site.outcomes_dir, error)
        return []


def _accounted(slurm: Mapping[str, str]) -> list[Outcome]:
    if "slurmdbd" not in slurm.get("accountingstoragetype", ""):
        return []
    separator = accounting.new_separator()
    command = accounting.command(separator, None if os.geteuid() == 0 else os.getuid())
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **accounting.ENVIRONMENT},
            capture_output=True,
            check=False,
            timeout=SACCT_S,
            stdin=subprocess.DEVNULL,
        )
        return accounting.parse(done.stdout.decode(errors="surrogateescape"), separator) if done.returncode == 0 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def _reports() -> list[Outcome]:
    uid = None if os.geteuid() == 0 else os.getuid()
    return [
        each
        for place in places()
        for each in own_reports.of_reports(ReportStore(place.report_dir).newest(REPORTS, uid))
    ]


class OwnProfiles:
    """Of the caller's own programs; `names`: by the names of their jobs, which reports say."""

    def __init__(self, uid: int) -> None:
        self._uid = uid
        self._stores = [ProfileStore(place.profile_dir) for place in places()]
        self._keys: dict[str, str] = {}
        for place in places():
            for report in ReportStore(place.report_dir).newest(REPORTS, uid):
                if report["profile"]["key"]:
                    self._keys.setdefault(report["name"], report["profile"]["key"])

    def key(self, name: str) -> str | None:
        return self._keys.get(name)

    def longest_kernel_s(self, name: str) -> float | None:
        return None if (profile := self._of(name)) is None else longest_kernel_s(profile)

    def burst(self, name: str) -> Burst | None:
        return None if (profile := self._of(name)) is None else burst(profile)

    def batches(self, name: str) -> tuple[Run, ...]:
        """Runs of its program whose command says a batch."""
        found = []
        for store in self._stores if (key := self.key(name)) else ():
            with suppress(OSError, ValueError):
                for run in store.runs(self._uid, key or ""):
                    if (batch := batches.of_command(run["command"])) and run["peak_bytes"]:
                        found.append(Run(batch, run["peak_bytes"]))
        return tuple(found)

    def _of(self, name: str) -> dict[str, Any] | None:
        key = self.key(name)
        for store in self._stores if key else ():
            with suppress(OSError, ValueError):
                if (profile := store.load(self._uid, key or "")) is not None:
                    return profile
        return None


def longest_kernel_s(profile: Mapping[str, Any]) -> float | None:
    """The 99.9th percentile of the kernel for which it is longest: kernels of once in a thousand are no promise."""
    found = [
        _core.quantile(kernel["duration"]["histogram"], 0.999)
        for kernel in profile["kernels"] if not kernel["context"] and kernel["duration"]["count"]
    ]  # fmt: skip
    return max(found) / 1e9 if found else None


def burst(profile: Mapping[str, Any]) -> Burst | None:
    """99th percentile of the work between two waits, and the least time for which the device is idle behind a launch."""
    rhythm = profile["rhythm"]
    if rhythm is None:
        return None
    spans = [
        (ns, span[0] / (len(span) - 1))  # so many equally probable times
        for each in rhythm["segments"].values() if (span := each.get("span")) for ns in span[1:]
    ]  # fmt: skip
    if not spans:
        return None
    slack_ns = min((sketch[1] for sketch in rhythm["slacks"].values()), default=0)
    return Burst(_weighted(spans, 0.99) / 1e9, max(slack_ns, 0) / 1e9)


def _weighted(values: Iterable[tuple[int, float]], share: float) -> float:
    ascending = sorted(values)
    wanted, seen = share * sum(weight for _, weight in ascending), 0.0
    for value, weight in ascending:
        seen += weight
        if seen >= wanted:
            return value
    return inf
