"""Runs the demo's steps and measures them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fikit.demo.launchers import Launcher, Running
from fikit.demo.plan import Step
from fikit.demo.told import Told
from fikit.demo.usage import Usage
from fikit.disk_space import is_full
from fikit.errors import UserError

START_TIMEOUT_S = 90.0  # a cold start compiles every kernel, on as little as two cores
LOOP_TIMEOUT_S = 120.0
POLL_S = 0.01
REST_S = 0.06  # before a loop begins: a pause, whose length no report compares with a profile's (docs/elapsed.md)
WORDS = {"ready": "ready", "result": "done"}  # for the file's name, what the job is then


@dataclass(frozen=True)
class Look:
    """How jobs are seen: what each has used so far (pids by job name in), the jobs of the processes that fikitd manages, and the report
    of a job as it stands; None where nobody has it."""

    usage: Callable[[dict[str, int]], Usage]
    managed: Callable[[], Mapping[int, str]]
    report: Callable[[str], dict[str, Any] | None]


@dataclass(frozen=True)
class Outcome:
    """A step as measured: seconds of each job's loop, the device's use while the first job's loop ran, and what the jobs' reports say of
    their loops, as far as these have any."""

    seconds: dict[str, float]
    begin: Usage
    end: Usage
    told: dict[str, Told] = field(default_factory=dict)


class Experiment:
    """Runs steps through one launcher. `meet` is where a step's programs wait for each other, `logs` where they write."""

    def __init__(self, launcher: Launcher, env: dict[str, str], look: Look, meet: Path, logs: Path) -> None:
        self._launcher, self._env, self._look, self._meet, self._logs = launcher, env, look, meet, logs

    def run(self, name: str, step: Step) -> Outcome:
        """Start the step's jobs, let their loops begin together, wait for their ends."""
        for path in self._meet.iterdir():
            path.unlink()
        self._launcher.set_policy(step.policy)
        started = {}
        try:
            for job in step.jobs:
                output = self._logs / f"{name}-{job.name}.out"
                started[job.name] = _Started(job.name, self._launcher.start(job, self._env, output), output, self._meet)
            return self._measure(started, [job.name for job in step.jobs if job.options])
        finally:
            for one in started.values():
                one.job.stop()

    def _measure(self, started: dict[str, _Started], ours: list[str]) -> Outcome:
        ready = {name: one.wait_for("ready", START_TIMEOUT_S) for name, one in started.items()}
        pids = {name: int(content["pid"]) for name, content in ready.items()}
        managed = self._look.managed() if ours else {}
        for name in ours:
            if pids[name] not in managed:  # fikit lets it run all the same: the figures would be of something else
                raise started[name].failed("runs, but fikit does not manage it")
        jobs = {name: managed[pids[name]] for name in ours}
        time.sleep(REST_S)
        reports = {name: self._look.report(job) for name, job in jobs.items()}
        begin = end = self._look.usage(pids)
        (self._meet / "go").touch()
        seconds: dict[str, float] = {}
        told: dict[str, Told] = {}
        for name, one in _as_they_end(started):
            seconds[name] = one.seconds()
            if name == next(iter(started)):
                end = self._look.usage(pids)
            before, after = reports.get(name), self._look.report(jobs[name]) if name in jobs else None
            if before is not None and after is not None:
                told[name] = Told.between(before, after, seconds[name])
            (self._meet / f"{name}.seen").touch()
        for one in started.values():
            one.finish()
        return Outcome(seconds, begin, end, told)


def _as_they_end(started: Mapping[str, _Started]) -> Iterator[tuple[str, _Started]]:
    """Each when its loop is over. Raises UserError for one that fails, or that takes too long."""
    left, deadline = dict(started), time.monotonic() + LOOP_TIMEOUT_S
    while left:
        for name, one in list(left.items()):
            if one.has("result", LOOP_TIMEOUT_S, deadline):
                yield name, left.pop(name)
        time.sleep(POLL_S)


@dataclass(frozen=True)
class _Started:
    """A job that runs, its name, the file with its output, where it meets the others."""

    name: str
    job: Running
    output: Path
    meet: Path

    def wait_for(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """The content of the file that the job writes when it is ready or done."""
        deadline = time.monotonic() + timeout_s
        while not self.has(kind, timeout_s, deadline):
            time.sleep(POLL_S)
        return self._content(kind)

    def has(self, kind: str, timeout_s: float, deadline: float) -> bool:
        """Whether it is ready or done by now. Raises UserError where it never will be, or `deadline` has passed."""
        path = self._path(kind)
        if path.exists():
            return True
        code = self.job.poll()
        if code is not None and not path.exists():
            raise self.failed(f"ended with exit code {code} before it was {WORDS[kind]}")
        if time.monotonic() > deadline:
            raise self.failed(f"was not {WORDS[kind]} after {timeout_s:.0f} s")
        return path.exists()

    def seconds(self) -> float:
        """That its loop took, when it is done."""
        return float(self._content("result")["seconds"])

    def _path(self, kind: str) -> Path:
        return self.meet / f"{self.name}.{kind}"

    def _content(self, kind: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._path(kind).read_text())
        return content

    def finish(self) -> None:
        deadline = time.monotonic() + LOOP_TIMEOUT_S
        while (code := self.job.poll()) is None:
            if time.monotonic() > deadline:
                raise self.failed(f"did not end within {LOOP_TIMEOUT_S:.0f} s of its loop")
            time.sleep(POLL_S)
        if code:
            raise self.failed(f"ended with exit code {code}")

    def failed(self, what: str) -> UserError:
        lines = self.output.read_text(errors="replace").strip().splitlines() if self.output.exists() else []
        said = f", its last line is: {lines[-1]}" if lines else ""
        full = [str(directory) for directory in (self.output.parent, self.meet) if is_full(directory)]
        why = f"; there is no room in {' nor in '.join(full)}" if full else ""
        return UserError(f"the {self.name}-priority job {what} (output in {self.output}{said}){why}")
