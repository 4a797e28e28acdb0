"""The loop: read the queue, plan, set what changed. Whatever fails here, no job waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from fikitd.history import JobHistory

from fikit.placement.commands import Slurm, SlurmError
from fikit.placement.jobs import Job
from fikit.placement.journal import Journal
from fikit.placement.plan import NOTHING, Change, Mark, Plan, Settings, plan, undo

_log = logging.getLogger("fikit.place")

ROUND_S: Final = 1.0
MOST_UPDATES: Final = 50
"""Of a round."""
LONGEST_PAUSE_S: Final = 30.0
"""Between two tries while Slurm does not answer."""
REFUSED_S: Final = 300.0
"""A job that Slurm would not change is left in peace so long."""


class Histories(Protocol):
    """fikitd.history.SpoolHistory, or anything that knows as much."""

    def history(self) -> JobHistory:
        """What is known now."""


def expectation(history: JobHistory) -> Callable[[Job], float | None]:
    """How long a job will run, by the earlier runs of its user and name; else by its limit; else nobody knows."""

    def expect(job: Job) -> float | None:
        rest = history.expected_rest(job.uid, job.name, 0.0, job.limit_s)
        return None if rest is None or rest.rest_s == inf else rest.rest_s

    return expect


class Agent:
    """advises: it only says what it would do."""

    def __init__(
        self, slurm: Slurm, histories: Histories, journal: Journal, settings: Settings, *, advises: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._slurm, self._histories, self._journal, self._settings = slurm, histories, journal, settings
        self._advises, self._clock = advises, clock
        self.marks: dict[int, Mark] = {} if advises else journal.load()
        self._refused: dict[int, float] = {}
        self._foreign: set[int] = set()  # jobs whose AdminComment is somebody else's
        self._complained = ""

    def run(self, stop: threading.Event) -> None:
        """Until `stop`; then everything is taken back."""
        pause_s = ROUND_S
        while not stop.wait(pause_s):
            began = time.monotonic()
            if self.round():
                pause_s = max(0.0, ROUND_S - (time.monotonic() - began))
            else:
                pause_s = min(max(2 * pause_s, ROUND_S), LONGEST_PAUSE_S)
        self.clear()

    def round(self) -> bool:
        """One look at the queue, and what it asks for. Whether Slurm answered."""
        try:
            self._steer(self.look())
        except SlurmError as error:
            self._complain(f"the queue stays as it is: {error}")
            return False
        if self._complained:
            _log.info("Slurm answers again")
        self._complained = ""
        return True

    def look(self) -> Plan:
        """What it would do now. Raises SlurmError."""
        jobs = self._slurm.jobs()
        return plan(jobs, expectation(self._histories.history()), self.marks, self._settings, self._clock())

    def _steer(self, wanted: Plan) -> None:
        for number in wanted.gone:
            self.marks.pop(number, None)
            self._foreign.discard(number)
        now = time.monotonic()
        self._refused = {job: since for job, since in self._refused.items() if now - since < REFUSED_S}
        changes = [change for change in wanted.changes if change.job not in self._refused][:MOST_UPDATES]
        if self._advises:
            self._say(changes)
        elif changes:
            self._set(changes)
        if not self._advises:
            self._journal.save(self.marks)

    def _say(self, changes: list[Change]) -> None:
        for change in changes:
            _log.info("job %d: SiteFactor would become %d: %s", change.job, change.after.factor, change.why)
            self.marks[change.job] = change.after

    def _set(self, changes: list[Change]) -> None:
        new = {change.job for change in changes if change.comment and not change.before.comment}
        self._foreign |= self._slurm.commented(new - self._foreign)
        changes = [self._without_comment(change) if change.job in self._foreign else change for change in changes]
        self._journal.save(
            {**self.marks, **{change.job: change.after for change in changes if change.after != NOTHING}}
        )
        refused = self._slurm.update(changes)
        for change in changes:
            if change.job in refused:
                self._refused[change.job] = time.monotonic()
            else:
                self.marks[change.job] = change.after
        if refused:
            _log.info(
                "%d jobs were not changed: they have ended, or Slurm does not let this user change them", len(refused)
            )

    def _without_comment(self, change: Change) -> Change:
        return Change(change.job, change.before, Mark(change.after.factor, ""), change.why)

    def clear(self) -> bool:
        """Take back all that is set; whether Slurm answered. What it refuses has begun or ended."""
        changes = [] if self._advises else undo(self.marks)
        try:
            for first in range(0, len(changes), MOST_UPDATES):
                part = changes[first : first + MOST_UPDATES]
                self._slurm.update(part)
                for change in part:
                    del self.marks[change.job]
        except SlurmError as error:
            _log.warning("what was set of %d jobs could not be taken back: %s", len(self.marks), error)
            self._journal.save(self.marks)
            return False
        self.marks.clear()
        if not self._advises:
            self._journal.save({})
        return True

    def _complain(self, sentence: str) -> None:
        """The same only once, until something went well."""
        if sentence != self._complained:
            self._complained = sentence
            _log.warning("%s", sentence)
