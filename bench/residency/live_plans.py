"""Case B under a real fikitd on the emulated GPU: training steps with MSR of their memory saved, by a plan that fikitd has learnt. Live, emulated.

Durations are SLOWER times those of the simulated bench, and so is what the link takes; sizes and the link's rate are scaled so that the room is GPU_MIB. Each
program is measured once, in a run with all its memory, as `--fikit-measure` does; later runs find its profile. Beside the product: all of the memory on the GPU,
page faults alone (as TGS, and nvshare within a turn), and turns, by the same fikitd with its plans left out. fikitd takes a link for one of 24 GB/s until
moves have shown it another: a run's steps count from when fikitd has made a plan by the emulated one's rate.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fikitd.gpus.link_rate import is_another
from fikitd.gpus.residency import Link as PlanLink

from bench.residency import stage, times
from bench.residency.budgets import EOR, MSR, row
from bench.residency.live_script import STREAM_ORDER, UNIT_NS, Scaled, scaled
from bench.residency.machine import Link
from bench.residency.placed import CHUNK
from bench.residency.rules import NoRule

SLOWER: Final = 8
EPOCH_S: Final = 15
MIB: Final = 2**20
GPU_MIB: Final = 1024
BATCH: Final = 16
PLAIN_MIB: Final = 8
"""For what of a program is no memory of fikit's: it stays on the GPU."""
CASES: Final = (
    ("ResNet50", "known lifetimes"),
    ("InceptionV4", "known lifetimes"),
    ("ResNet50", STREAM_ORDER),
    ("VGG16", "cached"),
)
SECONDS: Final = 10.0
LEARNS_S: Final = 30.0
"""A program that has a profile has its plan by then, or has none."""
LOOK_S: Final = 0.05
SETTLES_S: Final = 4.0
STEPS_MEASURED: Final = 12
"""As long as so many steps take without the driver's work for memory that comes and goes."""
HIGH_MIB: Final = 128
HIGH_WARM_UP_S: Final = 10.0
BESIDE: Final = "cached"
"""What the low programs beside others are like: as with a framework's memory cache."""
LONGER: Final = 10.0
"""Steps beside others take longer, and are to be many enough for a mean."""
BUDGET_OF_TWO: Final = 0.83
"""Of the peak of each of two programs whose memory does not fit together: so much of it does."""
PLANNED: Final = re.compile(r"job (\S+): its memory has a plan: .* over a link of (\S+) GB/s in and (\S+) out")
NO_PLANS: Final = "from fikitd._core import Dispatcher; Dispatcher.set_plan = lambda *arguments: 0; "
TURNS: Final = "from fikitd.gpus import memory_budgets; memory_budgets.MOST_LOST = -1.0; " + NO_PLANS


@dataclass(frozen=True)
class Outcome:
    """Of the steps that count. The bytes are of one step, by the device's record; missed: brought by page faults. plan: what fikitd says of it.

    trail: seconds, bytes on the GPU.
    """

    steps_s: list[float]
    right: bool
    in_bytes: float
    out_bytes: float
    missed_bytes: float
    plan: dict[str, Any]
    trail: list[tuple[float, int]] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        return statistics.fmean(self.steps_s)


@dataclass(frozen=True)
class Trail:
    """Bytes on the GPU over the seconds of a run, and how long each step took."""

    program: str
    room_bytes: int
    how: str
    points: list[tuple[float, int]]
    steps_s: list[float]


@dataclass(frozen=True)
class Together:
    """Of so many seconds. high_s: of the rounds of a high job, if there was one."""

    lows: list[Outcome]
    high_s: list[float]
    seconds: float

    @property
    def rate(self) -> float:
        """Steps that ended, of all low jobs, per second: of jobs that take turns a step may last as long as others have theirs."""
        return sum(len(low.steps_s) for low in self.lows) / self.seconds

    @property
    def longest_s(self) -> float:
        """Of their steps."""
        return max(took_s for low in self.lows for took_s in low.steps_s)


@dataclass(frozen=True)
class Low:
    """A program, and how many bytes of its memory have a place on the GPU (--fikit-mem)."""

    of: Scaled
    mem_bytes: int

    def record(self) -> dict[str, Any]:
        script = self.of.script
        return {
            "priority": 8,
            "profile": f"{script.name}-{script.manner.partition(' ')[0]}-{self.of.peak_bytes // MIB}".lower(),
            "mem_bytes": self.mem_bytes,
            "mem_host_bytes": max(self.of.peak_bytes - self.mem_bytes + PLAIN_MIB * MIB, 0),
        }


@dataclass
class Bench:
    """One directory for all runs, for the profiles that they share."""

    root: Path
    rates: times.Rates
    runs: int = 0
    trails: list[Trail] = field(default_factory=list)

    def rows(self, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
        right: list[bool] = []
        for name, manner in CASES:
            yield from self._of_one(name, manner, seconds, right)
        yield from self._beside_high(seconds, right)
        yield from self._of_two(right)
        yield row("B: all, live, emulated", "jobs whose buffers are all right", statistics.fmean(right), 1.0, at_least=True)  # fmt: skip

    def _of_one(self, name: str, manner: str, seconds: float, right: list[bool]) -> Iterator[dict[str, Any]]:
        of = scaled(name, BATCH, manner, GPU_MIB * MIB, self.rates)
        low = Low(of, of.room_bytes)
        self.measure(of)
        everything = self.run([Low(of, of.peak_bytes)], of.peak_bytes, seconds).lows[0]
        ours = self.run([low], of.room_bytes, seconds, waits=True).lows[0]
        faults = self.run([low], of.room_bytes, seconds, NO_PLANS).lows[0]
        right += [each.right for each in (everything, ours, faults)]
        by_name = {"all of its memory": everything, "planned": ours, "faults alone": faults}
        self.trails += [
            Trail(f"{name}, {manner}", of.room_bytes, how, each.trail, each.steps_s) for how, each in by_name.items()
        ]
        yield from _rows_of_one(f"B: {name}, {manner}, 1 GiB, live, emulated", of, everything, ours, faults)

    def _beside_high(self, seconds: float, right: list[bool]) -> Iterator[dict[str, Any]]:
        """A high job that never moves, and one low one with a budget."""
        label = f"B: VGG16, {BESIDE}, beside a high job, 1 GiB, live, emulated"
        seconds *= LONGER
        of = scaled("VGG16", BATCH, BESIDE, (GPU_MIB - HIGH_MIB) * MIB, self.rates)
        low, memory = Low(of, of.room_bytes), of.room_bytes + HIGH_MIB * MIB
        self.measure(of)
        alone = self.run([], memory, seconds, high=of)
        ours = self.run([low], memory, seconds, high=of, waits=True)
        faults = self.run([low], memory, seconds, NO_PLANS, high=of)
        right += [each.right for run in (ours, faults) for each in run.lows]
        yield row(label, "high JCT", _jct(ours, alone), 1.06, note=f"{len(ours.high_s)} rounds")
        yield row(label, "low work / that of page faults alone", faults.lows[0].step_s / ours.lows[0].step_s, 1.0, at_least=True, note=f"high JCT then {_jct(faults, alone):.2f}")  # fmt: skip

    def _of_two(self, right: list[bool]) -> Iterator[dict[str, Any]]:
        """Two at once, each with a part of its memory, beside turns."""
        label = f"B: ResNet50, {BESIDE}, two at once, 1 GiB, live, emulated"
        of = scaled("ResNet50", BATCH, BESIDE, int(GPU_MIB / BUDGET_OF_TWO / 2 * (1 - MSR)) * MIB, self.rates)  # fmt: skip
        low = Low(of, int(of.peak_bytes * BUDGET_OF_TWO))
        self.measure(of)
        seconds = 2.0 * EPOCH_S
        ours = self.run([low, low], 2 * low.mem_bytes, seconds, waits=True)
        turns = self.run([low, low], 2 * low.mem_bytes, seconds, TURNS)
        right += [each.right for run in (ours, turns) for each in run.lows]
        budgets = ", ".join(f"{low.plan.get('budget_bytes', 0) / of.peak_bytes:.2f}" for low in ours.lows)
        yield row(label, "work / that of turns", ours.rate / turns.rate, note=f"budgets {budgets} of the peak")  # fmt: skip
        yield row(label, "longest step, s", ours.longest_s, note=f"in turns {turns.longest_s:.1f}")

    def measure(self, of: Scaled) -> None:
        """Writes its profile."""
        low = Low(of, of.peak_bytes)
        with ExitStack() as stack:
            place, environment, _ = self._begin(stack, of, of.peak_bytes, "")
            job = self._low(stack, place, "1", low, environment, measure=True)
            job.line()
            time.sleep(STEPS_MEASURED * of.script.duration_ns * SLOWER / 1e9)
            _end(job, "enough")

    def run(
        self, lows: Sequence[Low], memory: int, seconds: float, left_out: str = "", *, high: Scaled | None = None, waits: bool = False,
    ) -> Together:  # fmt: skip
        """On a GPU with so many bytes. high: whose link it is, where there is a high job. waits: for plans."""
        of = lows[0].of if lows else high
        assert of is not None
        with ExitStack() as stack:
            place, environment, log = self._begin(stack, of, memory, left_out)
            jobs = [self._low(stack, place, str(number), low, environment) for number, low in enumerate(lows, 2)]
            for job in jobs:
                job.line()
            if waits:
                _wait_for_plans(jobs, log, of.case.link.times(1 / SLOWER))
            above = [] if high is None else [self._high(stack, place, seconds, environment)]
            time.sleep(HIGH_WARM_UP_S if above else SETTLES_S)
            found = _watched(jobs, seconds)
            return Together(found, [took for job in above for took in json.loads(job.line())["took_s"]], seconds)

    def _begin(self, stack: ExitStack, of: Scaled, memory: int, left_out: str) -> tuple[Path, Any, Path]:
        self.runs += 1
        place = self.root / str(self.runs)
        place.mkdir()
        environment = stack.enter_context(stage.device(place, model(of, memory)))
        log = stack.enter_context(stage.fikitd(place, left_out, EPOCH_S, environment, profiles=self.root / "profiles"))
        return place, environment, log

    @staticmethod
    def _low(stack: ExitStack, place: Path, name: str, low: Low, environment: Any, **record: Any) -> stage.Job:
        script = place / f"script-{name}.json"
        low.of.script.write(script)
        program = ["-m", "bench.residency.live_step", str(script)]
        return stack.enter_context(stage.job(place, name, program, environment, **low.record(), **record))

    @staticmethod
    def _high(stack: ExitStack, place: Path, seconds: float, environment: Any) -> stage.Job:
        said = [str(HIGH_MIB), str(seconds), str(SLOWER), str(HIGH_WARM_UP_S)]
        program = ["-m", "bench.residency.live_job", "high", *said]
        job = stack.enter_context(stage.job(place, "1", program, environment, priority=1))
        job.line()
        job.say("")
        return job


def _wait_for_plans(jobs: Sequence[stage.Job], log: Path, link: Link) -> None:
    """By about that rate of the link, as fikitd's log says."""
    there_is = PlanLink(link.in_bytes_per_s, link.out_bytes_per_s)
    deadline = time.monotonic() + LEARNS_S
    while time.monotonic() < deadline:
        said = PLANNED.findall(log.read_text())  # of each job the newest counts
        links = {job: PlanLink(float(inward) * 1e9, float(out) * 1e9) for job, inward, out in said}
        if all(job.name in links and not is_another(there_is, links[job.name]) for job in jobs):
            return
        time.sleep(0.2)


def _watched(jobs: Sequence[stage.Job], seconds: float) -> list[Outcome]:
    for job in jobs:
        job.say("begin")
    began = time.monotonic()
    before = [job.on_device() for job in jobs]
    trails: list[list[tuple[float, int]]] = [[] for _ in jobs]
    while (now_s := time.monotonic() - began) < seconds:
        for job, trail in zip(jobs, trails, strict=True):
            trail.append((now_s, int(job.on_device()["resident_bytes"])))
        time.sleep(LOOK_S)
    after = [(job.on_device(), job.memory().get("plan") or {}) for job in jobs]
    found = [_end(job) for job in jobs]
    return [_outcome(*each) for each in zip(before, after, found, trails, strict=True)]


def _outcome(
    before: dict[str, Any], after: tuple[dict[str, Any], dict[str, Any]], found: dict[str, Any], trail: list[tuple[float, int]]
) -> Outcome:  # fmt: skip
    device, plan = after

    def each(key: str) -> float:
        return (int(device[key]) - int(before[key])) / len(found["took_s"])

    return Outcome(
        found["took_s"], found["right"], each("moved_in_bytes"), each("moved_out_bytes"), each("missed_chunks") * CHUNK, plan, trail,
    )  # fmt: skip


def _end(job: stage.Job, word: str = "end") -> dict[str, Any]:
    job.say(word)
    found: dict[str, Any] = json.loads(job.line())
    job.process.wait()
    job.control.end(job.name)
    return found


def model(of: Scaled, memory: int) -> str:
    """Of an emulated GPU with so much memory for what fikit may move."""
    link = of.case.link.times(1 / SLOWER)
    return f"""
[device]
memory = "{memory // MIB + PLAIN_MIB}MiB"
context_memory = 0
[copy]
h2d_gbps = {link.in_bytes_per_s / 1e9}
d2h_gbps = {link.out_bytes_per_s / 1e9}
both_ways = 0.5
[managed]
fault_batch_us = {of.case.link.batch_ns * SLOWER / 1e3}
[[kernel]]
match = "fikit_spin"
duration = "param0_ns"
[[kernel]]
match = "emu_increment"
base_us = 0
ns_per_thread = {UNIT_NS * SLOWER}
"""


def run(seconds: float = SECONDS) -> tuple[list[dict[str, Any]], list[Trail]]:
    """Rows as the simulated ones of this bench, and what lay on the GPU in the runs of one program."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory:
        bench = Bench(Path(directory), times.rates())
        return list(bench.rows(seconds)), bench.trails


def _rows_of_one(label: str, of: Scaled, everything: Outcome, ours: Outcome, faults: Outcome) -> Iterator[dict[str, Any]]:  # fmt: skip
    capacity, touched = of.room_bytes // CHUNK, sum(len(use.touched) for use in of.case.program.uses) * CHUNK
    case = of.simulated()
    simulated, by_faults = (case.figures(each)[1] for each in (case.planned(capacity)[0], case.by(NoRule(), capacity)))
    within = of.case.free_bound >= MSR
    note = f"simulated {simulated:.3f}, free bound {of.case.free_bound:.2f}, {len(ours.steps_s)} steps"
    kernels_s = of.script.duration_ns * SLOWER / 1e9
    yield row(label, "step with all of its memory / its kernels' time", everything.step_s / kernels_s)
    yield row(label, f"EOR at MSR {MSR:.2f}", ours.step_s / everything.step_s - 1, EOR if within else None, note=note)
    yield row(label, f"faults alone: EOR at MSR {MSR:.2f}", faults.step_s / everything.step_s - 1, note=f"simulated {by_faults:.2f}")  # fmt: skip
    if planned := ours.plan.get("moved_bytes_per_pass", 0):
        note = f"{planned / MIB:.0f} MiB planned for a step, with {ours.plan['budget_bytes'] / of.peak_bytes:.2f} of the peak"
        yield row(label, "bytes moved / bytes planned", (ours.in_bytes + ours.out_bytes) / planned, note=note)
    missed, alone = (_again(each, everything) / touched for each in (ours, faults))
    yield row(label, "missed bytes of those touched", missed, 0.05, note=f"faults alone {alone:.2f}")


def _again(found: Outcome, everything: Outcome) -> float:
    """Bytes that faults brought of a step, but for those of memory that nobody had used yet."""
    return max(found.missed_bytes - everything.missed_bytes, 0.0)


def _jct(found: Together, alone: Together) -> float:
    return statistics.fmean(found.high_s) / statistics.fmean(alone.high_s)
