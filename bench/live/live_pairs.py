"""Pairs of recorded jobs: what the simulator says, and with --live the same measured.

Live means fikit-replay, fikitd and shim as they are, on an emulated device, everything ten times as long as recorded; the
simulator runs the same recordings, stretched as much, with the same requests, arrivals, policy and learning time, the times
that the dispatcher took to react in these very runs, and for how long they had been there before the begin. What
starts up for long begins where it is at work. The high job runs alone and with the low one in turn, and so do
the cases, round by round. Nothing here is a claim about hardware.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fikitd.config import fikit_toml
from fikitd.simulation import simulator
from fikitd.simulation.simulator import SLICES, Device, Scenario

from bench import device_option, page
from bench import recordings as made_up
from bench.live import host_pace, low_time, slow_motion, stages
from bench.live.live_rounds import Measured, Rounds, machine_state
from bench.live.live_table import agrees, live_result, picture, simulated_table
from bench.live.reaction import Reactions, delayed_ns, reactions, together
from bench.record import BenchError, Result
from bench.scheduling.pairs import read_pairs
from fikitd import _simulator

ABOUT = "pairs of recorded jobs, simulated, and measured with --live"
STRETCH = 10.0  # a shared machine's jitter of 0.1 ms is 10 us of the recording
SECONDS = 6.0
CALIBRATION_SECONDS = 2.0
MOST_LEARNING_NS = 11_000_000_000
ORDERS = 9  # simulated
MANY_ORDERS = 99  # where harvest depends much on them
LITTLE = 0.03  # of a harvest
SHOWS_ITSELF = ("fifo", "prio")  # no gates, and gates that wait for nothing else


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--live", action="store_true", help="measure too, in real time")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument("--pairs", nargs="+", metavar="PAIR", help="of the standard ones, or a TOML file of pairs")
    parser.add_argument("--arrivals", nargs="+", choices=simulator.ARRIVALS, default=list(simulator.ARRIVALS))
    parser.add_argument("--policy", choices=fikit_toml.POLICIES, default=fikit_toml.SchedulerConfig().policy)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of a run alone, default {SECONDS:g}")
    parser.add_argument("--rounds", type=int, default=1, help="runs alone and with the low job, in turn")
    parser.add_argument(
        "--most", type=int, default=1, metavar="N",
        help="more rounds, N in all, of cases outside the margins: of several, the median counts",
    )  # fmt: skip
    parser.add_argument(
        "--resume", type=Path, metavar="DIR",
        help="keep each case and round in a file here as soon as it is measured, and do not measure again what is here",
    )  # fmt: skip
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the picture here, with --live")
    device_option.add_arguments(parser)
    page.add_argument(parser)


def middle(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The medians of their figures, and between what they lie; else what the first says."""
    one = dict(outcomes[0])
    figures = [name for name in one if all(isinstance(outcome[name], float) for outcome in outcomes)]
    values = {name: [outcome[name] for outcome in outcomes] for name in figures}
    between = {name: (min(found), max(found)) for name, found in values.items()}
    return {
        **one, **{name: statistics.median(found) for name, found in values.items()}, "between": between,
        "orders": len(outcomes), "harvest_spread": statistics.pstdev(values["harvest"]),
    }  # fmt: skip


def device_like(recording: _simulator.Trace) -> dict[str, float]:
    """The constants of a device on which the recording was made, stretched."""
    return {"launch_latency_us": recording.launch_latency_ns / 1000, "kernel_gap_us": recording.kernel_gap_ns / 1000}


@dataclass(frozen=True)
class Case:
    """One pair with one kind of arrivals. `high`, `low`: names of recordings."""

    pair: str
    arrivals: str
    high: str
    low: str
    scenario: Scenario

    @classmethod
    def of(cls, book: Book, pair: str, names: Sequence[str], arrivals: str) -> Case:
        """As many requests as take the high job alone the book's seconds."""
        high, low = names[:2]
        scenario = Scenario(
            book.trace(high),
            [book.trace(low)],
            arrivals,
            requests=max(1, math.ceil(book.seconds * 1e9 / book.trace(high).alone_ns)),
            knowledge="context",
            device=book.shared,
            **slow_motion.simulated(STRETCH),
        )
        return cls(pair, arrivals, high, low, scenario)

    def __str__(self) -> str:
        return f"{self.pair} {self.arrivals}"

    @property
    def device(self) -> dict[str, float]:
        return device_like(self.scenario.high.native)

    def simulate(self, policy: str, seen: Reactions, lead_ns: int = 0) -> dict[str, Any]:
        """What the simulator says, of a dispatcher that reacts as it did in the runs that were seen, and of programs that are
        there for so long before they begin: medians, for a few of the orders in which the reactions may come."""
        scenario = replace(self.scenario, seen=seen.seen(), lead_ns=lead_ns)
        scenarios = [replace(scenario, draw=draw) for draw in range(1, ORDERS + 1 if seen.seen() else 2)]
        outcomes = [asdict(simulator.simulate(scenario, policy)) for scenario in scenarios]
        times = [low_time.shares(simulator.low_time(scenario, policy).free) for scenario in scenarios]
        found = middle(outcomes)
        if found["harvest_spread"] > LITTLE * found["harvest"]:
            more = [replace(scenario, draw=draw) for draw in range(ORDERS + 1, MANY_ORDERS + 1)]
            found = middle(outcomes + [asdict(simulator.simulate(scenario, policy)) for scenario in more])
        return {**found, "low_time": low_time.mean(times)}


class Book:
    """The recordings, as files and as jobs of the simulator."""

    def __init__(self, directory: Path, texts: Mapping[str, bytes], seconds: float, shared: Device) -> None:
        """`shared`: how jobs share the device, in slow motion, too."""
        self.directory, self.texts, self.seconds, self.shared = directory, texts, seconds, shared
        self.trace = cache(self._trace)

    def _trace(self, name: str) -> simulator.Trace:
        trace = simulator.parse(name, self.texts[name].decode(), stretch=STRETCH)
        # What a profile does not know is a matter of the profile: it has seen whole passes, unless one takes too long. Passes,
        # for what is measured takes longer: what a pass ends with would be known in one of the two only.
        passes = math.ceil(self.seconds * 1e9 / trace.alone_ns)
        if passes * trace.alone_ns <= MOST_LEARNING_NS:
            return replace(trace, learning_passes=passes, stored=True)
        return replace(trace, learning_ns=MOST_LEARNING_NS, stored=True)

    def file(self, name: str) -> Path:
        path = self.directory / f"{name}.csv"
        if not path.exists():
            path.write_bytes(self.texts[name])
        return path


def cases_of(book: Book, pairs: Sequence[str] | None, arrivals: Sequence[str]) -> list[Case]:
    """The chosen pairs, of the standard ones or of a file. Raises BenchError."""
    file = Path(pairs[0]) if pairs and len(pairs) == 1 and pairs[0].endswith(".toml") else None
    known = read_pairs(file, dict(book.texts))
    chosen = list(known) if pairs is None or file is not None else pairs
    unknown = [pair for pair in chosen if pair not in known]
    if unknown:
        raise BenchError(f"there is no pair {unknown[0]}; there are {', '.join(known)}")
    return [Case.of(book, pair, known[pair], kind) for pair in chosen for kind in arrivals]


def learn(stage: stages.Stage, book: Book, name: str) -> None:
    """A measuring run of the recording, alone on a device like its own."""
    trace = book.trace(name)
    cut = trace.learning_ns == MOST_LEARNING_NS
    requests = None if cut else trace.learning_passes
    job = stages.Job(book.file(name), requests, options=["--measure", "--profile", name])
    run = stage.run([job], device_like(trace.native), seconds=MOST_LEARNING_NS / 1e9 if cut else None)
    stage.report(run.job_ids[0])  # it is there when the profile is


def measure(stage: stages.Stage, book: Book, case: Case) -> Measured:
    """The high job alone, then with the low one, as they are known from learn(), not from the cases before."""
    high = stages.Job(book.file(case.high), case.scenario.count, case.scenario.arrival_times())
    managed = replace(high, options=["--priority", "high", "--profile", case.high])
    low = stages.Job(book.file(case.low), options=["--priority", "low", "--profile", case.low])
    alone = stage.run([high], case.device)
    begun_s = time.time()
    with stage.learnt_before():
        shared = stage.run([managed, low], case.device)
        delayed, _ = (stage.report(job)["delays"] for job in shared.job_ids)
    closed = case.arrivals == "closed"
    ratios = simulator.compare(alone.observed, shared.observed, closed=closed, device=case.scenario.device)
    latency_ns = case.device["launch_latency_us"] * 1000
    high_trace, low_trace = (stage.trace(job) for job in shared.job_ids)
    waits = case.scenario.high.native.waits_before
    beside = (shared.events, shared.pids[0])
    host_ns = host_pace.longer_ns((alone.events, alone.pids[0]), beside, waits, closed=case.arrivals == "closed")
    times = low_time.seen(low_trace, shared)
    row = {
        **asdict(ratios),
        "host_longer": host_ns / alone.observed.span_ns,
        "low_time": None if times is None else low_time.shares(times.free),
        "delayed_ms": delayed_ns(shared.events, shared.pids[0], shared.pids[1], latency_ns) / 1e6,
        "reported_delayed_ms": sum(entry["total_s"] for entry in delayed) * 1e3,
        "span_ms": shared.observed.span_ns / 1e6,
        "alone_ms": alone.observed.span_ns / 1e6,
        "lead_ms": shared.lead_ns / 1e6,
        "switch_us": None if (switch_ns := stage.switch_ns(begun_s)) is None else switch_ns / 1e3 / STRETCH,
    }
    seen = reactions(low_trace, high_trace, shared.events, shared.pids[1])
    turns_us = host_pace.turns_us(shared.events, shared.pids[0], shared.begun_ns, shared.requests, len(waits))
    return row, replace(seen, turn=turns_us)


def calibrate(directory: Path, shared: Device) -> Reactions:
    """How soon the dispatcher of this machine reacts: of a made-up pair under `prio`, which shows everything."""
    texts = {"inference": made_up.inference(made_up.SEED).text(), "training": made_up.training(made_up.SEED).text()}
    book = Book(directory, texts, CALIBRATION_SECONDS, shared)
    case = Case.of(book, "calibration", ("inference", "training"), "closed")
    with stages.stage(directory, STRETCH, {"policy": "prio"}, shared) as stage:
        for name in (case.high, case.low):
            learn(stage, book, name)
        return measure(stage, book, case)[1]


def run(
    *, emulated: bool, live: bool, traces: Path | None, pairs: list[str] | None, arrivals: list[str], policy: str,
    seconds: float, rounds: int, most: int, resume: Path | None, svg: Path | None, device: Device = SLICES,
) -> Result:  # fmt: skip
    """Raises BenchError."""
    if not emulated:
        raise BenchError("its devices are emulated, leave --real away")
    if rounds < 1:
        raise BenchError("--rounds must be 1 or more")
    slow = replace(device, slice_ns=round(device.slice_ns * STRETCH), switch_ns=round(device.switch_ns * STRETCH))
    settings = {"policy": policy, "stretch": STRETCH, "seconds": seconds, "device": str(device)}
    with tempfile.TemporaryDirectory(prefix="fikit-pairs-") as directory:
        texts = {name: made_up.steady_fills(made_up.at_work(text)) for name, text in made_up.recordings(traces).items()}
        book = Book(Path(directory), texts, seconds, slow)
        cases = cases_of(book, pairs, arrivals)
        if not live:
            rows = [{"case": str(case), "simulated": case.simulate(policy, Reactions())} for case in cases]
            return Result(
                simulated_table(rows, policy, STRETCH), True, {}, {}, {**settings, "rounds": rounds, "most": most},
                details={"cases": rows},
            )  # fmt: skip
        kept = Rounds(Path(directory) / "rounds" if resume is None else resume, settings)
        rows = Bench(book, cases, policy, kept).rows(rounds, most)
    if svg is not None:
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(picture(rows, policy))
    return live_result(rows, policy, STRETCH, {**settings, "rounds": rounds, "most": most})


@contextmanager
def patient() -> Iterator[None]:
    """What only computes needs no priority that its caller has over what else runs on this machine (`chrt`)."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.sched_setscheduler(0, policy, parameters)


class Bench:
    """Cases that are measured round by round; what was measured before is not measured again."""

    def __init__(self, book: Book, cases: Sequence[Case], policy: str, kept: Rounds) -> None:
        self.book, self.cases, self.policy, self.kept = book, cases, policy, kept

    def rows(self, rounds: int, most: int) -> list[dict[str, Any]]:
        """Of all cases. Those that are outside the margin are all measured `most` times, whatever comes of it: to stop where a case
        agrees would be to choose."""
        self._measure(self.cases, rounds)
        usual = None if self.policy in SHOWS_ITSELF else self._usual()
        with patient():
            rows = [self._row(case, rounds, usual) for case in self.cases]
        outside = [case for case, row in zip(self.cases, rows, strict=True) if not agrees(row)]
        if not outside or most <= rounds:
            return rows
        self._measure(outside, most)
        with patient():
            return [
                self._row(case, most, usual) if case in outside else row
                for case, row in zip(self.cases, rows, strict=True)
            ]  # fmt: skip

    def _measure(self, cases: Sequence[Case], rounds: int) -> None:
        """Their rounds up to this number, as far as they are not there: the cases in turn, so that a time in which the machine had much to do
        is not one case's."""
        missing = [
            (number, case)
            for number in range(1, rounds + 1)
            for case in cases
            if self.kept.load(str(case), number) is None
        ]
        if not missing:
            return
        with stages.stage(self.book.directory, STRETCH, {"policy": self.policy}, self.book.shared) as stage:
            self._learn(stage, [case for _, case in missing])
            for done, (number, case) in enumerate(missing, 1):
                begun = time.monotonic()
                row, seen = measure(stage, self.book, case)
                state = machine_state(begun)
                self.kept.save(str(case), number, ({**row, "machine": state}, seen))
                said = f"JCT ratio {row['high_jct_ratio']:.3f}, harvest {row['harvest']:.3f}"
                said += "" if row.get("switch_us") is None else f", switch {row['switch_us']:.0f} us"
                took = f"{state['took_s']:.0f} s, load {state['load']:.1f}"
                print(f"{done}/{len(missing)}  {case}, round {number}: {said} ({took})", file=sys.stderr, flush=True)

    def _learn(self, stage: stages.Stage, cases: Sequence[Case]) -> None:
        known = self.kept.learnt()
        self.kept.take_profiles(stage.profiles)
        for name in dict.fromkeys(name for case in cases for name in (case.high, case.low)):
            if name in known:
                continue
            learn(stage, self.book, name)
            known.add(name)
            self.kept.keep_profiles(stage.profiles, known)

    def _usual(self) -> Reactions:
        """How soon this machine's dispatcher reacts."""
        seen = self.kept.load_calibration()
        if seen is None:
            seen = calibrate(self.book.directory, self.book.shared)
            self.kept.save_calibration(seen)
        return seen

    def _row(self, case: Case, rounds: int, usual: Reactions | None) -> dict[str, Any]:
        found = [self.kept.load(str(case), number) for number in range(1, rounds + 1)]
        return _live_row(case, self.policy, [measured for measured in found if measured is not None], usual)


def _live_row(case: Case, policy: str, measured: Sequence[Measured], usual: Reactions | None) -> dict[str, Any]:
    seen = together(reaction for _, reaction in measured)
    if usual is not None:  # what other policies' grants do not show
        seen = replace(seen, done=usual.done, late=usual.late)
    lead_ns = round(statistics.median(row["lead_ms"] for row, _ in measured) * 1e6)
    return {
        "case": str(case),
        "simulated": case.simulate(policy, seen, lead_ns),
        "simulated_with_assumed_costs": case.simulate(policy, Reactions(), lead_ns),
        "live": [row for row, _ in measured],
        "reactions_us": {
            name: {"mean": statistics.fmean(values), "p50": statistics.median(values), "count": len(values)}
            for name, values in asdict(seen).items()
            if values
        },
    }
