"""Case A under a real fikitd on the emulated GPU: a high job and three low ones of 40 % of a small GPU each. Live, emulated.

All times are SLOWER times what they are elsewhere (kernels, link, faults, the high job's host), and so is the least turn, which goes with the GPU's size,
too: 30 s for 16 GiB. Beside the product: turns whose memory comes by faults
alone (as nvshare), and no turns at all (as TGS), by the same fikitd with its moves, or its turns, left out.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fikitd.api.client import wait_until_there
from fikitd.store.records import JobRecord

from bench.record import BenchError
from bench.residency.budgets import row
from bench.residency.live_job import WARM_UP_S
from fikitd import paths

MIB: Final = 2**20
GPU_MIB: Final = 1024
JOB_MIB: Final = 416  # 40 %, in whole buffers
SLOWER: Final = 8
EPOCH_S: Final = 15  # 30 s for 16 GiB, by the GPU's size, and slower
SECONDS: Final = 90.0
GPU: Final = f"""
[device]
memory = "{GPU_MIB}MiB"
context_memory = 0
[copy]
h2d_gbps = {24 / SLOWER}
d2h_gbps = {24 / SLOWER}
[managed]
fault_batch_us = {30 * SLOWER}
[[kernel]]
match = "fikit_spin"
duration = "param0_ns"
[[kernel]]
match = "emu_increment"
us = {1000 * SLOWER}
"""
TURNS: Final = "from fikitd.daemon.main import main; main()"
LEFT_OUT: Final = {
    "turns": "",
    "faults": "from fikitd._core import Dispatcher; Dispatcher.set_goal = lambda *arguments: 0; ",
    "paging": "from fikitd.clients.memory_rotation import MemoryRotation; MemoryRotation.look = lambda self: None; ",
}
_SWAP = re.compile(r"for ([0-9.]+) s at least; the change took ([0-9.]+) s, of which moves were to take ([0-9.]+) s")


@dataclass(frozen=True)
class Outcome:
    """high_s: of each of the high job's rounds. kernels: of each low job. swaps: length, time taken, time reckoned of each change, in s."""

    high_s: list[float]
    kernels: list[int]
    right: bool
    swaps: list[tuple[float, float, float]]
    seconds: float

    @property
    def rate(self) -> float:
        """Kernels of low jobs per second."""
        return sum(self.kernels) / self.seconds


def rows(seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """As the simulated ones of this bench."""
    label = "A: 1 GiB, live, emulated"
    alone = run("turns", 0, seconds / 4)
    ours = run("turns", 3, seconds)
    faults = run("faults", 3, seconds)
    paging = run("paging", 3, seconds / 2)
    yield row(label, "high JCT", _jct(ours, alone), 1.06, note=f"{len(ours.high_s)} rounds")
    lost = sum(took for _, took, _ in ours.swaps) / (WARM_UP_S + seconds)
    bound = _bound(ours.swaps)
    if bound:
        yield row(
            label,
            "time lost to moves / (c / (E + c))",
            lost / bound,
            1.1,
            note=f"{lost:.3f} of the time, {len(ours.swaps)} changes",
        )
    beside = f"high JCT then {_jct(paging, alone):.2f}"
    yield row(
        label,
        "low work / that of paging (TGS) at 30 us per batch",
        ours.rate / paging.rate,
        3.0,
        at_least=True,
        note=beside,
    )
    beside = f"high JCT then {_jct(faults, alone):.2f}"
    yield row(
        label,
        "low work / that of turns without moves (nvshare) at 30 us per batch",
        ours.rate / faults.rate,
        1.0,
        at_least=True,
        note=beside,
    )
    everybody = all(each.right for each in (ours, faults, paging))
    yield row(label, "low jobs whose buffers are all right", float(everybody), 1.0, at_least=True)


def _jct(found: Outcome, alone: Outcome) -> float:
    return statistics.fmean(found.high_s) / statistics.fmean(alone.high_s)


def _bound(swaps: Sequence[tuple[float, float, float]]) -> float:
    """c / (E + c), of all changes together."""
    moves = sum(reckoned for *_, reckoned in swaps)
    whole = moves + sum(length for length, *_ in swaps)
    return moves / whole if whole else 0.0


def run(how: str, lows: int, seconds: float) -> Outcome:
    """One high job and so many low ones, at once."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory, ExitStack() as stack:
        root = Path(directory)
        environment = stack.enter_context(_device(root))
        log = stack.enter_context(_fikitd(root, how, environment))
        jobs = [
            stack.enter_context(_job(root, str(number), "low", seconds, environment)) for number in range(2, 2 + lows)
        ]
        high = stack.enter_context(_job(root, "1", "high", seconds, environment))
        for job in (*jobs, high):
            _line(job)
        for job in (*jobs, high):
            job.stdin.write("\n")  # type: ignore[union-attr]
            job.stdin.flush()  # type: ignore[union-attr]
        found, *of_lows = [json.loads(_line(job)) for job in (high, *jobs)]
        swaps = [(float(length), float(took), float(moves)) for length, took, moves in _SWAP.findall(log.read_text())]
    return Outcome(
        found["took_s"], [each["kernels"] for each in of_lows], all(each["right"] for each in of_lows), swaps, seconds
    )


def _line(job: subprocess.Popen[str]) -> str:
    assert job.stdout is not None
    if not (line := job.stdout.readline()):
        raise BenchError(f"a job ended without a word: {job.stderr.read() if job.stderr else ''}")
    return line


@contextmanager
def _device(root: Path) -> Iterator[Mapping[str, str]]:
    config = root / "gpu.toml"
    config.write_text(GPU)
    environment = {
        **os.environ, "EMUCUDA_NAME": f"bench-{os.getpid()}", "EMUCUDA_CONFIG": str(config),
        "LD_LIBRARY_PATH": str(paths.emulator_dir()),
    }  # fmt: skip
    try:
        yield environment
    finally:
        subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


@contextmanager
def _fikitd(root: Path, how: str, environment: Mapping[str, str]) -> Iterator[Path]:
    config, log = root / "fikit.toml", root / "fikitd.log"
    places = "".join(f'{key} = "{root / key}"\n' for key in ("run_dir", "report_dir", "profile_dir"))
    config.write_text(
        f'[daemon]\n{places}[scheduler]\npolicy = "budget"\n[oversubscribe]\nallow = "lower"\nepoch_s = {EPOCH_S}\n'
    )
    command = [sys.executable, "-c", LEFT_OUT[how] + TURNS, "--config", str(config)]
    with log.open("ab") as out, subprocess.Popen(command, stderr=out, env=dict(environment)) as process:
        try:
            wait_until_there(root / "run_dir", process, 20.0)
            yield log
        finally:
            process.terminate()


@contextmanager
def _job(
    root: Path, job: str, role: str, seconds: float, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A program that begins once its record is there."""
    memory = (
        {"priority": 1}
        if role == "high"
        else {"priority": 8, "mem_bytes": GPU_MIB // 2 * MIB, "mem_host_bytes": GPU_MIB // 2 * MIB}
    )
    program = [sys.executable, "-m", "bench.residency.live_job", role, str(JOB_MIB), str(seconds), str(SLOWER)]
    under = {**environment, "LD_PRELOAD": str(paths.shim()), "FIKIT_SOCKET": str(root / "run_dir" / "fikitd.sock")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        ["/bin/sh", "-c", 'read go && exec "$@"', "sh", *program], env=under, text=True, **pipes
    ) as process:  # type: ignore[call-overload]
        try:
            record = JobRecord(job=job, uid=os.getuid(), gid=os.getgid(), pid=process.pid, **memory)  # type: ignore[arg-type]
            record.write(root / "run_dir")
            process.stdin.write("go\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
