"""The loop: read the queue, plan, set what changed. Whatever fails here, no job waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final, Protocol

from fikitd.history import JobHistory
from fikitd.store.storage import reason, write_atomic

from fikit.placement.commands import Slurm, SlurmError
from fikit.placement.jobs import Job
from fikit.placement.journal import Journal
from fikit.placement.pairing import Pairing
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
    """advises: it only says what it would do. pairing: it says where jobs run, too; then job_submit.lua reads in the file `heartbeat` that there
    is somebody who decides."""

    def __init__(
        self, slurm: Slurm, histories: Histories, journal: Journal, settings: Settings, *, advises: bool = False,
        pairing: Pairing | None = None, heartbeat: Path | None = None, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._slurm, self._histories, self._journal, self._settings = slurm, histories, journal, settings
        self._advises, self._pairing, self._heartbeat, self._clock = advises, pairing, heartbeat, clock
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
        self._beat()
        if self._complained:
            _log.info("Slurm answers again")
        self._complained = ""
        return True

    def look(self) -> Plan:
        """What it would do now. Raises SlurmError."""
        jobs, known, now_s = self._slurm.jobs(), self._histories.history(), self._clock()
        wanted = plan(jobs, expectation(known), self.marks, self._settings, now_s)
        if self._pairing is None:
            return wanted
        return self._pairing.refine(wanted, jobs, self.marks, known, settings=self._settings, now_s=now_s)

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
        return replace(change, after=replace(change.after, comment=""))

    def _beat(self) -> None:
        """Jobs that come from now on wait for a decision, for GATE_S at most."""
        if self._heartbeat is None:
            return
        try:
            write_atomic(self._heartbeat, f"{time.time():.0f}\n".encode(), mode=0o644)
        except OSError as error:
            self._heartbeat = None
            _log.warning("the heartbeat cannot be written: %s; jobs start before it is decided where", reason(error))

    def clear(self) -> bool:
        """Take back all that is set; whether Slurm answered. What it refuses has begun or ended."""
        if self._heartbeat is not None:
            self._heartbeat.unlink(missing_ok=True)
        if self._advises or not self.marks:
            return True
        try:
            jobs = self._slurm.jobs()
            changes = undo(jobs, self.marks)
            running = {job.number for job in jobs if not job.waits}
            # One that runs on the GPU that it was given asks for that again where it is started again: the next agent knows it.
            for number in self.marks.keys() - {change.job for change in changes}:
                if number not in running or not self.marks[number].node:
                    del self.marks[number]
            for first in range(0, len(changes), MOST_UPDATES):
                part = changes[first : first + MOST_UPDATES]
                self._slurm.update(part)
                for change in part:
                    del self.marks[change.job]
        except SlurmError as error:
            _log.warning("what was set of %d jobs could not be taken back: %s", len(self.marks), error)
            return False
        finally:
            self._journal.save(self.marks)
        return True

    def _complain(self, sentence: str) -> None:
        """The same only once, until something went well."""
        if sentence != self._complained:
            self._complained = sentence
            _log.warning("%s", sentence)
