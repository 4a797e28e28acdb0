"""Jobs of recordings in real time: fikit-replay under a real fikitd and the shim, on a slow emulated device of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from fikitd.config import fikit_toml
from fikitd.gpus.switches import DIRECTORY as SWITCHES
from fikitd.gpus.switches import Switches
from fikitd.simulation.simulator import MERGED, Device, Observed

from bench.emulator.replay import NS_PER_BYTE, device_config
from bench.launch.managed import managed, own_environment
from bench.live import slow_motion
from bench.live.device_use import used_ns
from bench.record import BenchError
from fikitd import paths

TRACE_RECORDS = 1 << 20
TRACE_EVENTS = 1 << 18
PATIENCE_S = 120.0  # for one run, beside the time until its last request is there
STORING_S = 5.0


@dataclass(frozen=True)
class Job:
    """One program: `fikit-replay job` with a recording. `options`: of `fikit run`; None: without fikit."""

    recording: Path
    requests: int | None = None  # None: until it is stopped
    arrivals_ns: Sequence[int] = ()
    options: Sequence[str] | None = None


@dataclass(frozen=True)
class Run:
    """What was seen of jobs that ran together, the first until its requests had ended. Times are CLOCK_MONOTONIC ns."""

    pids: list[int]
    begun_ns: int
    observed: Observed
    events: list[dict[str, Any]] = field(repr=False)  # the device's own record
    job_ids: list[str] = field(default_factory=list)  # as fikitd knows them; "" without fikit
    requests: Sequence[tuple[int, int]] = ()  # of the first: arrival and end, since begun_ns
    lead_ns: int = 0  # so long before the begin the first program was there


class Stage:
    """A fikitd and its profiles, for several runs one after the other, each on a fresh device."""

    def __init__(
        self, environment: Mapping[str, str], directory: Path, stretch: float, shared: Device = MERGED
    ) -> None:
        """`shared`: how programs share the device, in slow motion, too."""
        self.environment, self.directory, self.stretch, self.shared = dict(environment), directory, stretch, shared

    def run(self, jobs: Sequence[Job], device: Mapping[str, float], *, seconds: float | None = None) -> Run:
        """All jobs at once; the others are stopped when the first has ended, that one after `seconds`."""
        device_file = self.directory / "device.toml"
        device_file.write_text(device_config(1, device, shared=self.shared))
        environment = {
            **self.environment,
            "EMUCUDA_CONFIG": str(device_file),
            "EMUCUDA_TRACE": str(TRACE_RECORDS),
            "LD_LIBRARY_PATH": str(paths.emulator_dir()),
        }
        started: list[subprocess.Popen[str]] = []
        try:
            pids, there_ns = [], []
            for number, job in enumerate(jobs):
                started.append(self._start(job, number, environment))
                pids.append(_ready(started[-1], job))
                there_ns.append(time.monotonic_ns())
            for process in reversed(started):
                _say(process, "begin\n")
            played = _end(started[0], jobs[0], seconds)
            for process, job in zip(started[1:], jobs[1:], strict=True):
                _end(process, job, 0)
            return replace(
                self._seen(jobs, started, pids, played, environment), lead_ns=played["begun_ns"] - there_ns[0]
            )
        finally:
            for process in started:
                process.kill()
                process.wait()
            subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)

    @contextmanager
    def learnt_before(self) -> Iterator[None]:
        """Each time with the same profiles: what programs teach inside is forgotten. Only of jobs whose report was taken, for
        until then it is not stored."""
        profiles, kept = self.profiles, self.directory / "profiles-before"
        if profiles.exists():  # else nothing was learnt yet
            shutil.copytree(profiles, kept)
        try:
            yield
        finally:
            shutil.rmtree(profiles, ignore_errors=True)
            if kept.exists():
                shutil.move(kept, profiles)

    def trace(self, job: str) -> dict[str, Any] | None:
        """What `fikit trace` shows; None for a job that left no events behind."""
        return _stored(TraceStore(Path(self._daemon.report_dir)).load, job)

    def switch_ns(self, since_s: float) -> int | None:
        """How long the device takes to go to another process, as fikitd has measured it since then (`time.time`); None: it has not."""
        directory = Path(self._daemon.run_dir) / SWITCHES
        files = directory.iterdir() if directory.exists() else ()
        place = next((file.name for file in files if file.stat().st_mtime >= since_s), None)
        found = None if place is None else Switches(Path(self._daemon.run_dir)).of(place)
        return None if found is None else found.switch_ns

    def report(self, job: str) -> dict[str, Any]:
        """What `fikit-report` shows."""
        report = _stored(ReportStore(Path(self._daemon.report_dir)).load, job)
        if report is None:
            raise BenchError(f"fikitd kept no report of {job}")
        return report

    @property
    def profiles(self) -> Path:
        """Where fikitd has them."""
        return Path(self._daemon.profile_dir)

    @property
    def _daemon(self) -> fikit_toml.DaemonConfig:
        return fikit_toml.load(Path(self.environment[fikit_toml.ENV_CONFIG])).daemon

    def _start(self, job: Job, number: int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        arguments = ["job", "--stretch", f"{self.stretch:g}", "--ns-per-byte", f"{NS_PER_BYTE:g}", str(job.recording)]
        if job.requests is not None:
            arguments += ["--requests", str(job.requests)]
        if job.arrivals_ns:
            file = self.directory / f"arrivals-{number}"
            file.write_text("".join(f"{ns}\n" for ns in job.arrivals_ns))
            arguments += ["--arrivals", str(file)]
        command = [str(paths.native_dir() / "bin" / "fikit-replay"), *arguments]
        if job.options is not None:
            command = managed("fikit-replay", *arguments, options=job.options)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def _seen(
        self, jobs: Sequence[Job], started: Sequence[subprocess.Popen[str]], pids: list[int], played: dict[str, Any],
        environment: Mapping[str, str],
    ) -> Run:  # fmt: skip
        events = _device_events(environment)
        requests = played["requests"]
        begun_ns = played["begun_ns"]
        span_ns = requests[-1][1] if requests else played["ended_ns"] - begun_ns
        used = [used_ns(events, pid, begun_ns, begun_ns + span_ns, self.shared) for pid in pids]
        responses = [end - arrival for arrival, end in requests]
        return Run(
            pids, begun_ns, Observed(span_ns, responses, used[0], sum(used[1:])), events,
            [f"run-{process.pid}-1" if job.options is not None else "" for process, job in zip(started, jobs, strict=True)],
            [(arrival, end) for arrival, end in requests],
        )  # fmt: skip


@contextmanager
def stage(
    directory: Path, stretch: float, scheduler: Mapping[str, int | str], shared: Device = MERGED
) -> Iterator[Stage]:
    """`scheduler`: keys of fikit.toml; times are in slow motion, too. `shared`: see Stage."""
    keys = {**slow_motion.scheduler(stretch), **scheduler}
    with (
        own_environment(keys, {"trace_events": TRACE_EVENTS}) as environment,
        slow_motion.fikitd(environment, stretch),
    ):
        yield Stage(environment, directory, stretch, shared)


def _stored(load: Callable[[str], dict[str, Any] | None], job: str) -> dict[str, Any] | None:
    """What fikitd writes at the end of a job; a long trace takes it a moment."""
    deadline = time.monotonic() + STORING_S
    while (found := load(job)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def _ready(process: subprocess.Popen[str], job: Job) -> int:
    """The program's pid, once it has prepared itself."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    if len(words) != 2 or words[0] != "ready":
        raise BenchError(f"{job.recording.stem}: {_last_words(process.communicate()[1])}")
    return int(words[1])


def _end(process: subprocess.Popen[str], job: Job, seconds: float | None) -> dict[str, Any]:
    """What the program printed at its end, or when it was told to end after `seconds`."""
    patience_s = PATIENCE_S + max(job.arrivals_ns, default=0) / 1e9
    try:
        out, err = process.communicate(timeout=patience_s if seconds is None else seconds)
    except subprocess.TimeoutExpired:
        if seconds is None:  # cut short it would be compared with a whole one
            raise BenchError(f"{job.recording.stem} did not end in {patience_s:.0f} s, measure fewer seconds") from None
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE_S)
    if process.returncode != 0 or not out:
        raise BenchError(f"{job.recording.stem}: {_last_words(err)}")
    return dict(json.loads(out))


def _last_words(text: str) -> str:
    return (text.strip().splitlines() or ["it failed without a word"])[-1]


def _device_events(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run([paths.emuctl(), "trace", "--json"], env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise BenchError(_last_words(done.stderr.decode()))
    trace = json.loads(done.stdout)
    lost = sum(device["lost"] for device in trace["devices"])
    if lost:
        raise BenchError(f"the device's record is too small by {lost} entries, make the runs shorter")
    return list(trace["events"])
