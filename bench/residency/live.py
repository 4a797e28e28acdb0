"""Case A under a real fikitd on the emulated GPU: a high job and three low ones of 40 % of a small GPU each. Live, emulated.

The GPU has a sixteenth of 16 GiB, and all times are 16 times what they are elsewhere (kernels, link, faults, the high job's host): so a change moves its bytes
in the time that it takes on a GPU of 16 GiB, and fikitd's steps, which take the time they take, have the share of it that they have there. Another
slowness is for comparison; the least turn goes with it. Beside the product: turns whose memory comes by faults alone (as nvshare), and no turns at
all (as TGS), by the same fikitd with its moves, or its turns, left out.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.residency import stage
from bench.residency.budgets import row
from bench.residency.live_job import WARM_UP_S
from bench.residency.stage import Job

MIB: Final = 2**20
GPU_MIB: Final = 1024
JOB_MIB: Final = 416  # 40 %, in whole buffers
SLOWER: Final = 16
LINK: Final = 24e9  # bytes per second, of a device that is not slower
SECONDS: Final = 135.0  # four turns and more


@dataclass(frozen=True)
class Scale:
    """How much slower everything is, and the least turn."""

    slower: int = SLOWER

    @property
    def epoch_s(self) -> int:
        """30 s for a GPU of 16 GiB."""
        return max(round(30 * self.slower / SLOWER), 1)

    @property
    def link(self) -> float:
        """Bytes per second."""
        return LINK / self.slower

    @property
    def gpu(self) -> str:
        """As the emulator reads it."""
        return f"""
[device]
memory = "{GPU_MIB}MiB"
context_memory = 0
[copy]
h2d_gbps = {self.link / 1e9}
d2h_gbps = {self.link / 1e9}
[managed]
fault_batch_us = {30 * self.slower}
[[kernel]]
match = "fikit_spin"
duration = "param0_ns"
[[kernel]]
match = "emu_increment"
us = {1000 * self.slower}
"""


LEFT_OUT: Final = {
    "turns": "",
    "faults": "from fikitd._core import Dispatcher; Dispatcher.set_goal = lambda *arguments: 0; ",
    "paging": "from fikitd.clients.memory_rotation import MemoryRotation; MemoryRotation.look = lambda self: None; ",
}
_SWAP = re.compile(
    r"after ([0-9.]+) s it is the turn of [^;]* for ([0-9.]+) s at least; the change took ([0-9.]+) s: granted work ended within ([0-9.]+) s, "
    r"then ([0-9.]+) MiB were moved; it was reckoned at ([0-9.]+) s"
)


@dataclass(frozen=True)
class Change:
    """Of turns, as fikitd says it: the turn before it, the least length of the one behind it, how long it took, of that work that was granted before,
    the bytes, what fikitd expected it to take."""

    after_s: float
    length_s: float
    took_s: float
    stop_s: float
    moved_mib: float
    reckoned_s: float

    @property
    def lost_s(self) -> float:
        """So long did no low job's work run because of it."""
        return self.took_s - self.stop_s


@dataclass(frozen=True)
class Outcome:
    """high_s: of each of the high job's rounds. kernels: of each low job. changes: those after WARM_UP_S."""

    high_s: list[float]
    kernels: list[int]
    right: bool
    changes: list[Change]
    seconds: float

    @property
    def rate(self) -> float:
        """Kernels of low jobs per second."""
        return sum(self.kernels) / self.seconds


def rows(seconds: float = SECONDS, scale: Scale = Scale()) -> Iterator[dict[str, Any]]:
    """As the simulated ones of this bench."""
    label = f"A: 1 GiB, x{scale.slower}, live, emulated"
    alone = run("turns", 0, seconds / 4, scale)
    ours = run("turns", 3, seconds, scale)
    faults = run("faults", 3, seconds * 0.7, scale)
    paging = run("paging", 3, seconds * 0.3, scale)
    yield row(label, "high JCT", _jct(ours, alone), 1.06, note=f"{len(ours.high_s)} rounds")
    yield from _changes(label, ours.changes, scale)
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


def _changes(label: str, changes: Sequence[Change], scale: Scale) -> Iterator[dict[str, Any]]:
    """Time lost, of all time, against c / (E + c), as in the simulated rows: c is what the device's link needs for the bytes that are not moved ahead."""
    moved = [each for each in changes if each.moved_mib]
    if not moved:
        return
    whole_s = sum(each.after_s + each.took_s for each in changes)
    lost, took = (sum(times) / whole_s for times in ([e.lost_s for e in changes], [e.took_s for e in changes]))
    link = statistics.fmean(_share(each.moved_mib * MIB / scale.link, each.length_s) for each in moved)
    known = statistics.fmean(_share(each.reckoned_s, each.length_s) for each in moved)
    mean_s, stop_s, c_s = (statistics.fmean(times) for times in ([e.took_s for e in moved], [e.stop_s for e in moved], [e.moved_mib * MIB / scale.link for e in moved]))  # fmt: skip
    note = f"{lost:.3f} of the time, {len(moved)} changes of {c_s:.3f} s"
    yield row(label, "time lost to moves / (c / (E + c))", lost / link, 1.1, note=note)
    note = f"a change took {mean_s:.3f} s, granted work still ran for {stop_s:.3f} s of it"
    yield row(label, "whole changes / (c / (E + c))", took / link, note=note)
    yield row(label, "time lost to moves / (c / (E + c)), c with what fikitd learnt beside the link", lost / known)
    yield row(label, "share of the time lost to changes", took, 0.1)


def _share(change_s: float, length_s: float) -> float:
    return change_s / (change_s + length_s)


def run(how: str, lows: int, seconds: float, scale: Scale) -> Outcome:
    """One high job and so many low ones, at once."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory, ExitStack() as stack:
        root = Path(directory)
        environment = stack.enter_context(stage.device(root, scale.gpu))
        log = stack.enter_context(stage.fikitd(root, LEFT_OUT[how], scale.epoch_s, environment))
        jobs = [
            stack.enter_context(_start(root, str(number), "low", seconds, environment, slower=scale.slower))
            for number in range(2, 2 + lows)
        ]
        high = stack.enter_context(_start(root, "1", "high", seconds, environment, slower=scale.slower))
        for job in (*jobs, high):
            job.line()
        for job in (*jobs, high):
            job.say("")
        time.sleep(WARM_UP_S)
        before = len(log.read_text())
        time.sleep(seconds - 1)  # the changes when they end, one after the other, are no changes of turns
        said = log.read_text()[before:]
        found, *of_lows = [json.loads(job.line()) for job in (high, *jobs)]
    return Outcome(
        found["took_s"],
        [each["kernels"] for each in of_lows],
        all(each["right"] for each in of_lows),
        changes_in(said),
        seconds,
    )


def changes_in(log: str) -> list[Change]:
    """What fikitd says of them."""
    return [Change(*map(float, said)) for said in _SWAP.findall(log)]


def _start(
    root: Path, name: str, role: str, seconds: float, environment: Mapping[str, str], *, slower: int
) -> AbstractContextManager[Job]:
    memory = (
        {"priority": 1}
        if role == "high"
        else {"priority": 8, "mem_bytes": GPU_MIB // 2 * MIB, "mem_host_bytes": GPU_MIB // 2 * MIB}
    )
    program = ["-m", "bench.residency.live_job", role, str(JOB_MIB), str(seconds), str(slower)]
    return stage.job(root, name, program, environment, **memory)
