"""Many short jobs through a throw-away Slurm on one emulated GPU: whether all of them end well and have a report, how long fikit's part
of prolog and epilog takes, and whether fikitd's memory grows.

Jobs come in two waves: a job array of which eight run at a time, and as many `srun` at once. Needs root and Debian's
Slurm packages."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fikit.sandbox.needs import SandboxError
from fikit.sandbox.processes import processes_of
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportError, ReportStore
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.record import BenchError, Result

ABOUT = "many short jobs under Slurm: successes, reports, prolog and epilog, fikitd's memory"
JOBS = 500
SRUNS = 50
LONGEST_ARRAY = 1000
AT_ONCE = 8
KERNELS = 30  # that one job launches through the shim: 10 in each of three rounds of fikit-measure-bench
WORK = ("1", "1", "10", "20000", "0", "0")
SHARING = ("--gres=gpu:1", "--fikit-priority=low", "--fikit-mem=2G")  # of 16 GiB: eight at a time
PATIENCE_S = 60.0  # without any job that ends
REPORT_S = 10.0
LOOK_S = 0.5
OVER = "completed,failed,cancelled,timeout,node_fail,out_of_memory,boot_fail"
HOOK_LINE = re.compile(r"fikit: the (prolog|epilog) of job (\d+) took (\d+) us")

OnProgress = Callable[[int], None]


@dataclass
class Outcome:
    """What became of the jobs. `memory_kib`: of fikitd, at every look, with how many jobs had ended."""

    jobs: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unreported: list[str] = field(default_factory=list)
    memory_kib: list[tuple[int, int]] = field(default_factory=list)
    hooks_ms: dict[str, list[float]] = field(default_factory=lambda: {"prolog": [], "epilog": []})
    seconds: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help=f"jobs of the array (default {JOBS}, at most {LONGEST_ARRAY})"
    )
    parser.add_argument("--sruns", type=int, default=SRUNS, help=f"srun commands at once (default {SRUNS})")


def run(
    *, emulated: bool, jobs: int = JOBS, sruns: int = SRUNS, on_progress: Callable[[int], None] | None = None
) -> Result:
    """Measure; raises BenchError when Slurm does not start or stands still."""
    if not emulated:
        raise BenchError("it is about many jobs and not about the GPU, leave --real away")
    if jobs > LONGEST_ARRAY:
        raise BenchError(f"Slurm's arrays have at most {LONGEST_ARRAY} jobs, not {jobs}")
    try:
        with Sandbox(gpus=1) as sandbox, _progress(1 + jobs + sruns) as advance:
            outcome = load(sandbox, jobs, sruns, on_progress or advance)
    except SandboxError as error:
        raise BenchError(str(error)) from error
    return _result(outcome, jobs, sruns)


@contextmanager
def _progress(total: int) -> Iterator[OnProgress]:
    """A bar on the terminal; elsewhere nothing is shown."""
    columns = (TextColumn("jobs on the emulated GPU"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done)


def load(sandbox: Sandbox, jobs: int, sruns: int, on_progress: OnProgress = lambda done: None) -> Outcome:
    """Run the jobs, and one before them that starts fikitd if none runs, in a sandbox of one GPU with 16 GiB."""
    watch = _Watch(sandbox, on_progress)
    command = [str(sandbox.root / "native" / "bin" / "fikit-measure-bench"), *WORK]
    first = sandbox.run(["srun", "--quiet", *SHARING, *command])
    if first.returncode != 0:
        raise BenchError(f"the first srun failed: {first.stderr.strip()}")
    watch.until(1)
    begin = time.monotonic()
    if jobs:
        array = ["sbatch", *SHARING, f"--array=1-{jobs}%{AT_ONCE}", "--output=/dev/null"]
        done = sandbox.run([*array, f"--wrap=exec {' '.join(command)}"])
        if done.returncode != 0:
            raise BenchError(f"sbatch failed: {done.stderr.strip()}")
        watch.until(1 + jobs)
    clients = [
        subprocess.Popen(["srun", "--quiet", *SHARING, *command], env=sandbox.env, cwd="/",
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(sruns)
    ]  # fmt: skip
    try:
        watch.until(1 + jobs + sruns)
        for client in clients:
            error = client.communicate(timeout=PATIENCE_S)[1]
            if client.returncode != 0:
                watch.outcome.failed.append(f"srun: {error.strip()}")
    finally:
        for client in clients:
            client.kill()
            client.wait()
    outcome = watch.outcome
    outcome.seconds = time.monotonic() - begin
    outcome.unreported = _unreported(ReportStore(sandbox.report_dir), outcome.jobs)
    for hook, times in hooks(sandbox.logs / "slurmd.log").items():
        outcome.hooks_ms[hook] = [times[job] for job in outcome.jobs if job in times]
    return outcome


def hooks(log: Path) -> dict[str, dict[str, float]]:
    """How many milliseconds fikit's part of prolog and epilog took, by job, as slurmd's log tells."""
    found: dict[str, dict[str, float]] = {"prolog": {}, "epilog": {}}
    for hook, job, us in HOOK_LINE.findall(log.read_text(errors="replace")):
        found[hook][job] = int(us) / 1e3
    return found


class _Watch:
    """Looks at Slurm's queue and at fikitd until so many jobs have ended."""

    def __init__(self, sandbox: Sandbox, on_progress: OnProgress) -> None:
        self.outcome = Outcome()
        self._sandbox, self._on_progress = sandbox, on_progress
        self._earlier = set(self._over())
        self._ended: dict[str, str] = {}

    def until(self, jobs: int) -> None:
        news = time.monotonic()
        while len(self._ended) < jobs:
            time.sleep(LOOK_S)
            if self._look():
                news = time.monotonic()
            elif time.monotonic() - news > PATIENCE_S:
                raise BenchError(f"no job ended for {PATIENCE_S:.0f} s, {jobs - len(self._ended)} are left")

    def _look(self) -> bool:
        """Whether jobs ended. Slurm forgets them after MinJobAge, five minutes: each is taken when it is first seen."""
        new = {job: state for job, state in self._over().items() if job not in self._ended.keys() | self._earlier}
        self._ended |= new
        self.outcome.jobs += new
        self.outcome.failed += [f"job {job}: {state}" for job, state in new.items() if state != "COMPLETED"]
        if (memory := _fikitd_kib(self._sandbox)) is not None:
            self.outcome.memory_kib.append((len(self._ended), memory))
        self._on_progress(len(self._ended))
        return bool(new)

    def _over(self) -> dict[str, str]:
        """Every job that has ended, as far as Slurm remembers, and how."""
        command = ["squeue", "--noheader", "--array", f"--states={OVER}", "--format=%A %T"]
        return dict(line.split() for line in self._sandbox.run(command).stdout.splitlines())


def _fikitd_kib(sandbox: Sandbox) -> int | None:
    """Resident memory of the sandbox's fikitd; None when there is not exactly one."""
    daemons = [process for process in processes_of(sandbox.run_dir) if process.named("fikitd")]
    if len(daemons) != 1:
        return None
    try:
        status = Path(f"/proc/{daemons[0].pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.M)
    return int(found[1]) if found else None


def _unreported(store: ReportStore, jobs: list[str]) -> list[str]:
    """The jobs without a complete report, when the last epilogs have had their time."""
    deadline = time.monotonic() + REPORT_S
    while (missing := [job for job in jobs if not _is_reported(store, job)]) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return missing


def _is_reported(store: ReportStore, job: str) -> bool:
    try:
        report = store.load(job)
    except ReportError:
        return False
    return report is not None and report["state"] == "ended" and report["kernels"] == KERNELS


def _growth_kib(memory_kib: list[tuple[int, int]]) -> float:
    """How much fikitd grew over the second half of its jobs, when its libraries and buffers are what they will be."""
    if not memory_kib:
        return float("nan")
    begin = memory_kib[-1][0] / 2
    settled = [kib for jobs, kib in memory_kib if jobs >= begin]
    return settled[-1] - settled[0]


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98] if len(times) > 1 else float("nan")


def _result(outcome: Outcome, jobs: int, sruns: int) -> Result:
    (first, *prolog), (_, *epilog) = outcome.hooks_ms["prolog"], outcome.hooks_ms["epilog"]
    samples = {"prolog_ms": prolog, "epilog_ms": epilog, "memory_kib": [float(kib) for _, kib in outcome.memory_kib]}
    values = {
        "jobs": float(len(outcome.jobs)),
        "failed": float(len(outcome.failed)),
        "unreported": float(len(outcome.unreported)),
        "jobs_per_s": len(outcome.jobs) / outcome.seconds,
        "first_prolog_ms": first,
        "memory_growth_kib": _growth_kib(outcome.memory_kib),
    }
    for name, times in (("prolog", prolog), ("epilog", epilog)):
        values |= {
            f"{name}_p50_ms": statistics.median(times),
            f"{name}_p99_ms": _p99(times),
            f"{name}_max_ms": max(times),
        }
    summary = (
        f"emulated GPU: {len(outcome.jobs)} jobs, {len(outcome.failed)} failed, {len(outcome.unreported)} without a "
        f"complete report, {values['jobs_per_s']:.1f} per second\n"
        + "".join(
            f"fikit's part of the {name}: median {values[f'{name}_p50_ms']:.1f} ms, p99 {values[f'{name}_p99_ms']:.1f} ms, "
            f"longest {values[f'{name}_max_ms']:.1f} ms\n"
            for name in ("prolog", "epilog")
        )
        + f"the first prolog, which starts fikitd: {first:.0f} ms\n"
        f"fikitd: {samples['memory_kib'][-1] / 1024:.1f} MiB, {values['memory_growth_kib']:+.0f} KiB over the second half of the jobs"
    )  # fmt: skip
    details = {"failures": outcome.failed, "unreported": outcome.unreported}
    return Result(summary, True, values, samples, {"jobs": jobs, "sruns": sruns, "at_once": AT_ONCE}, details)
