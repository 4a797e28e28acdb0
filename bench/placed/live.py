"""The same jobs on a throw-away Slurm with real fikitd on emulated GPUs, each policy as an administrator would turn it on."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fikit.sandbox.needs import SandboxError
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.outcomes import HEAD, SUFFIX, UNKNOWN, Outcome, name_key
from fikitd.simulation.simulator import SLICES

from bench.emulator.replay import device_config
from bench.placed import jobs as work
from bench.placed.jobs import GPU_GIB, GPUS, KINDS, Job
from bench.record import BenchError
from bench.slurm.steer import SLURM, steered

LATE_S = 240.0
"""After the last job has come, so long for those that are left."""
ALONE_S = 4.0
LOOK_S = 0.2
EARLIER_S = 1_700_000_000
DEVICE = {"launch_latency_us": 0.0, "kernel_gap_us": 0.0}
FIRST_FIT = "shards"
AGENT = {"order": "order", "pair": "pair"}
"""Its mode, for the policies that need it."""


@dataclass(frozen=True)
class Lived:
    """A job, seconds since the first one was to come: when sbatch had taken it, its first and last command. gpu: as its program was told."""

    job: Job
    came_s: float
    began_s: float
    ended_s: float
    gpu: str

    @property
    def jct_s(self) -> float:
        return self.ended_s - self.came_s


@dataclass(frozen=True)
class Measured:
    """alone: by kind, how much longer its jobs took alone in a job of Slurm than simulated."""

    lived: list[Lived]
    alone: list[float]

    def starts_s(self) -> list[float]:
        """From coming to the first command, of those that came while a GPU was idle and nobody waited."""

        def there(job: Lived, other: Lived) -> bool:
            return other is not job and other.came_s <= job.came_s < other.ended_s

        beside = {id(job): [other for other in self.lived if there(job, other)] for job in self.lived}
        return [
            job.began_s - job.came_s
            for job in self.lived
            if len(beside[id(job)]) < GPUS and all(other.began_s <= job.came_s for other in beside[id(job)])
        ]


def live(jobs: Sequence[Job], gib: int, policy: str) -> Measured:
    """Some minutes. Raises BenchError."""
    try:
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fikit-placed-")))
            sandbox = stack.enter_context(_sandbox(directory, policy))
            _write_history(sandbox, jobs, gib)
            for kind in KINDS:
                (sandbox.root / f"{kind.name}.csv").write_bytes(kind.text)
            site = _Site(sandbox)
            alone = site.learn()
            if mode := AGENT.get(policy):
                stack.enter_context(steered(sandbox, mode))
            return Measured(site.live(jobs, gib, policy), alone)
    except (SandboxError, subprocess.TimeoutExpired) as error:
        raise BenchError(str(error)) from error


@contextmanager
def _sandbox(directory: Path, policy: str) -> Iterator[Sandbox]:
    """Spread, but for first fit; with a type of its own for each GPU where the agent names it."""
    device = directory / "device.toml"
    device.write_text(device_config(1.0, DEVICE, shared=SLICES))
    types = [f"g{number}" for number in range(GPUS)] if policy == "pair" else ()
    with Sandbox(
        gpus=GPUS, gpu_memory=f"{GPU_GIB}GiB", emulator_config=device, gpu_types=types, spread=policy != FIRST_FIT, slurm_lines=SLURM
    ) as sandbox:  # fmt: skip
        yield sandbox


def _write_history(sandbox: Sandbox, jobs: Sequence[Job], gib: int) -> None:
    """Each job's name has run before, as long as it will run."""
    spool = sandbox.root / "outcomes"
    spool.mkdir(mode=0o700)
    busy = work.busy_shares()
    runs = [
        Outcome(number, os.geteuid(), name_key(job.name), EARLIER_S, job.work_s, busy[job.kind], gib << 10, UNKNOWN, 0.0, 1)
        for number, job in enumerate(jobs, 1)
    ]  # fmt: skip
    file = spool / f"earlier{SUFFIX}"
    file.write_text("\n".join([HEAD, *(run.text() for run in runs), ""]))
    file.chmod(0o600)
    sandbox.daemon = {"outcomes_dir": str(spool), "outcomes_user": "root"}
    sandbox.set_access({})


def _profile(kind: int) -> str:
    """Runs of a kind are the same work."""
    return f"--fikit-profile={KINDS[kind].name}"


class _Site:
    """Submits to the sandbox, and reads what its jobs leave: a file with two moments each."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._program = sandbox.root / "native" / "bin" / "fikit-replay"

    def learn(self) -> list[float]:
        """Each kind is measured, as users are told to; then how long it takes alone, without fikit."""
        passes = [max(1, round(ALONE_S / kind.pass_s)) for kind in KINDS]
        for what in ("measured", "alone"):
            for number, kind in enumerate(KINDS):
                # Of fikit's options each but --fikit-measure makes a job share.
                options = ("--fikit-measure", _profile(number)) if what == "measured" else ()
                self._submit(f"{what}-{kind.name}", number, passes[number], *options)
            self._wait([f"{what}-{kind.name}" for kind in KINDS], time.monotonic() + 60)
        found = []
        for kind, count in zip(KINDS, passes, strict=True):
            began_s, ended_s, _ = self._marks(f"alone-{kind.name}")
            found.append((ended_s - began_s) / (count * kind.pass_s))
        return found

    def live(self, jobs: Sequence[Job], gib: int, policy: str) -> list[Lived]:
        priority = "auto" if work.POLICIES[policy] == "ordered" else "normal"
        begin, begin_s = time.monotonic(), time.time()
        came = {}
        for job in jobs:
            time.sleep(max(0.0, begin + job.submit_s - time.monotonic()))
            self._submit(job.name, job.kind, job.passes, f"--fikit-priority={priority}", f"--fikit-mem={gib}G", _profile(job.kind))  # fmt: skip
            came[job.name] = time.time() - begin_s
        self._wait([job.name for job in jobs], time.monotonic() + LATE_S)
        marks = {job.name: self._marks(job.name) for job in jobs}
        return [
            Lived(job, came[job.name], marks[job.name][0] - begin_s, marks[job.name][1] - begin_s, marks[job.name][2])
            for job in jobs
        ]

    def _submit(self, name: str, kind: int, passes: int, *options: str) -> None:
        mark = self._sandbox.root / f"{name}.mark"
        recording = self._sandbox.root / f"{KINDS[kind].name}.csv"
        script = (
            f"began=$(date +%s%N); {self._program} job {recording} --requests {passes} >/dev/null </dev/null || exit 1; "
            f'echo "$began $(date +%s%N) $CUDA_VISIBLE_DEVICES" >{mark}.part; mv {mark}.part {mark}'
        )
        command = ["sbatch", f"--output={self._sandbox.logs}/{name}.out", "--gres=gpu:1", f"--job-name={name}",
                   "--time=10", *options, f"--wrap={script}"]  # fmt: skip
        done = self._sandbox.run(command, timeout=60)
        if done.returncode != 0:
            raise BenchError(f"sbatch failed: {(done.stderr or done.stdout).strip()}")

    def _wait(self, names: Sequence[str], deadline: float) -> None:
        while missing := [name for name in names if not (self._sandbox.root / f"{name}.mark").exists()]:
            if time.monotonic() > deadline:
                raise BenchError(f"{len(missing)} jobs did not end in time or failed, {missing[0]} among them: {self._said(missing[0])}")  # fmt: skip
            time.sleep(LOOK_S)

    def _said(self, name: str) -> str:
        file = self._sandbox.logs / f"{name}.out"
        lines = file.read_text(errors="replace").strip().splitlines() if file.exists() else []
        return lines[-1] if lines else "it said nothing"

    def _marks(self, name: str) -> tuple[float, float, str]:
        began, ended, *gpu = (self._sandbox.root / f"{name}.mark").read_text().split()
        return int(began) / 1e9, int(ended) / 1e9, gpu[0] if gpu else ""
