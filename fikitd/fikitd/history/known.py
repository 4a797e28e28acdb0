"""How long a job still runs, how busy it keeps a GPU and how much memory it needs, by the earlier runs of its user and name.

docs/design/placement.md, "The rules". Times are seconds. A run counts with its time alone, where it is known: what it met
on its GPU was not its own doing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from statistics import median
from typing import Final, Literal, NamedTuple

from fikitd.api.outcomes import MOST_OF_NAME, UNKNOWN, Outcome, name_key
from fikitd.gpus.placement import History

MOST_OF_USER: Final = 2048
MOST_OF_ALL: Final = 100_000
LEAST_S: Final = 0.001  # less is no run
MOST_SLOWED: Final = 100.0  # a slowdown rests on what its job reported: one that says more makes itself no shorter
MIB: Final = 2**20

Source = Literal["name", "user", "cluster", "limit"]


class Rest(NamedTuple):
    """How long a job is expected to run on, and whose word that is.

    source: "name": runs of this user and name; "user": the user's other runs; "cluster": the users', each counted once; "limit": nothing
    is known but the time limit. runs: how many that were; of "cluster" how many users; of "limit" 0.
    """

    rest_s: float
    source: Source
    runs: int


@dataclass(frozen=True)
class Known:
    """What the runs of one user and name were. None: no run said it.

    run_s: quartiles of the times alone; a run that was not compared counts with its elapsed time. compared: how many were. busy: median share of the time alone in which the device worked. peak_bytes: the largest.
    slowdown: median of elapsed / alone. given: median of what it cost other jobs, seconds for each second that it took.
    emulated: one of the runs was on an emulated GPU.
    """

    runs: int
    run_s: tuple[float, float, float]
    busy: float | None
    peak_bytes: int | None
    slowdown: float | None
    given: float | None
    emulated: bool
    compared: int = 0


def alone_s(outcome: Outcome) -> float:
    """How long the run would have taken alone on its GPU, as far as it is known; else how long it took."""
    return outcome.elapsed_s / min(max(outcome.slowdown, 1.0), MOST_SLOWED)


class JobHistory:
    """Answers from `outcomes`, which are read once; a run without a time is none. Without outcomes it knows time limits only."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self._of_name: dict[tuple[int, int], list[Outcome]] = {}
        self._of_user: dict[int, list[float]] = {}
        self._histories: dict[tuple[int, int], History] = {}
        by_name: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
        by_user: dict[int, list[float]] = defaultdict(list)
        newest_first = sorted((each for each in outcomes if each.elapsed_s >= LEAST_S), key=lambda each: -each.ended_s)
        for each in newest_first[:MOST_OF_ALL]:
            of_user, of_name = by_user[each.uid], by_name[each.uid, each.name]
            if len(of_user) < MOST_OF_USER and len(of_name) < MOST_OF_NAME:
                of_user.append(alone_s(each))
                of_name.append(each)
        self._of_name = {key: runs for key, runs in by_name.items() if runs}
        self._of_user = {uid: sorted(runs_s) for uid, runs_s in by_user.items() if runs_s}

    def outcomes(self) -> Iterator[Outcome]:
        """Those that it goes by."""
        return chain.from_iterable(self._of_name.values())

    def __len__(self) -> int:
        """Runs that it goes by."""
        return sum(map(len, self._of_name.values()))

    def expected_rest(self, user: int, name: str, elapsed_s: float = 0.0, limit_s: float = inf) -> Rest | None:
        """How long a job of `user` (uid) and `name` that has run for `elapsed_s` will run on; None: nothing is known, not even a limit.

        By the runs of its name E[T - t | T > t], else half of the user's other runs that lasted longer take less, else half of the users
        do. A job that has outlived them all is expected to take as long again. Never more than what `limit_s` leaves. `elapsed_s`: of
        its time alone, where the caller knows it. ValueError: a time that is negative or not a number.
        """
        if not elapsed_s >= 0 or not limit_s >= 0:
            raise ValueError(f"a job cannot have run for {elapsed_s} s of {limit_s} s")
        left_s = max(limit_s - elapsed_s, 0.0)
        key = user, name_key(name)
        if runs := len(self._of_name.get(key, ())):
            return Rest(self._history(key).expected_rest_s(elapsed_s, limit_s), "name", runs)
        if runs_s := self._of_user.get(user):
            return Rest(min(_median_rest_s(runs_s, elapsed_s), left_s), "user", len(runs_s))
        if self._medians_s:
            return Rest(min(_median_rest_s(self._medians_s, elapsed_s), left_s), "cluster", len(self._medians_s))
        return None if left_s == inf else Rest(left_s, "limit", 0)

    def known(self, user: int, name: str) -> Known | None:
        """What the runs of this user and name were; None: there was none."""
        runs = self._of_name.get((user, name_key(name)))
        return _summary(runs) if runs else None

    def runs_s(self, user: int, name: str) -> list[float]:
        """Times alone of the runs of this user and name, oldest first."""
        return [alone_s(each) for each in reversed(self._of_name.get((user, name_key(name)), []))]

    def usual_busy(self) -> float | None:
        """The median over users of the median busy share of their runs: for a job of which nothing is known."""
        by_user: dict[int, list[float]] = defaultdict(list)
        for (uid, _), runs in self._of_name.items():
            by_user[uid] += [min(each.busy, 1.0) for each in runs if each.busy != UNKNOWN]
        return _median([median(shares) for shares in by_user.values() if shares])

    @cached_property
    def _medians_s(self) -> Sequence[float]:
        """Of each user's runs, ascending: many runs of one user are one voice."""
        return sorted(map(median, self._of_user.values()))

    def _history(self, key: tuple[int, int]) -> History:
        if key not in self._histories:
            self._histories[key] = History([alone_s(each) for each in reversed(self._of_name[key])])
        return self._histories[key]


def _median_rest_s(ascending_s: Sequence[float], elapsed_s: float) -> float:
    longer = ascending_s[bisect_right(ascending_s, elapsed_s) :]
    return median(longer) - elapsed_s if longer else elapsed_s


def _summary(runs: Sequence[Outcome]) -> Known:
    times_s = sorted(map(alone_s, runs))
    compared = [each.slowdown for each in runs if each.slowdown != UNKNOWN]
    return Known(
        runs=len(runs),
        run_s=(_quantile(times_s, 0.25), median(times_s), _quantile(times_s, 0.75)),
        busy=_median([min(each.busy, 1.0) for each in runs if each.busy != UNKNOWN]),
        peak_bytes=max(each.peak_mib for each in runs) * MIB or None,
        slowdown=_median(compared),
        given=_median([each.given_s / each.elapsed_s for each in runs if each.given_s != UNKNOWN]),
        emulated=any(each.emulated for each in runs),
        compared=len(compared),
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _quantile(ascending: Sequence[float], share: float) -> float:
    """Of a number that is there, so that it is one of the runs'."""
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]
