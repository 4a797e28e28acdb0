"""Where jobs' time went: their reports beside the device's own record.

Pairs of programs made of kernels and pauses play in slow motion under a real fikitd, on an emulated device of their own. Each runs
alone, then as the one that ends first of a pair; of an array, each program beside others of its kind that are as important. The device's record says when each kernel was handed over and ended, and how much
of the device it needed: what it stood there for longer than alone is a delay; what else the run took longer than alone, the gate and
a late host. Nothing here is a claim about hardware.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from fikit.wording import units
from fikitd.simulation.simulator import SLICES, Device

from bench import device_option, page
from bench.live import stages as live
from bench.live.reaction import ON_COMPUTE_ENGINE
from bench.record import BenchError, Result

ABOUT = "reports' sums of waiting and delays beside the device's own record"
DEVICE: Final = {"launch_latency_us": 8.0, "kernel_gap_us": 0.0}
ROUNDS: Final = 5  # of a program's work in its recording
ALONE: Final = (
    3  # runs alone, of which the shortest is what a program takes alone: a busy machine makes one longer, none shorter
)


class Shape(NamedTuple):
    """A program: so many kernels of so many us each, a wait for them, a pause of so many us."""

    kernels: int
    kernel_us: int
    pause_us: int

    def recording(self) -> str:
        lines = [
            "#N 1 step", "#N 2 cudaDeviceSynchronize",
            "type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid",
        ]  # fmt: skip
        now_us = 0
        for _ in range(ROUNDS):
            end_us = now_us + 8
            for number in range(self.kernels):
                shape = f"7,{64 + number},1,1,256,1,1,32,0"
                lines.append(f"K,{now_us},5,{end_us},{self.kernel_us},{shape},,1,1")
                now_us, end_us = now_us + 6, end_us + self.kernel_us
            lines.append(f"S,{now_us},{end_us - now_us}{',' * 13}2,1")
            now_us = end_us + self.pause_us
        return "\n".join([*lines, ""])

    def requests(self, seconds: float, stretch: float) -> int:
        """Plays of the recording that take so long alone."""
        return max(round(seconds * 1e6 / stretch / ROUNDS / (self.kernels * self.kernel_us + self.pause_us)), 2)


HIGH: Final = {"bursts": Shape(4, 300, 3000), "steps": Shape(2, 1000, 1500), "short": Shape(8, 100, 800)}
LOW: Final = {"training": Shape(6, 900, 300), "long": Shape(3, 3000, 500), "small": Shape(12, 200, 100)}
PAIRS: Final = [(high, low) for high in HIGH for low in LOW]
TASKS: Final = 3  # of an array, on one GPU


@dataclass(frozen=True, order=True)
class Seen:
    """Of one program in the device's record, in seconds: the run's begin to its last end, for it may wait at the gate before its first
    kernel is handed over; and for how long its work stood there beyond its own."""

    span_s: float
    stood_s: float

    @classmethod
    def of(cls, run: live.Run) -> Seen:
        """Of the run's first program. Raises BenchError."""
        mine = sorted(
            (int(event["enqueue_ns"]), int(event["end_ns"]), int(event["work_ns"]))
            for event in run.events
            if event["pid"] == run.pids[0] and event["kind"] in ON_COMPUTE_ENGINE and event["end_ns"] is not None
        )
        if not mine:
            raise BenchError("the device's record has nothing of a program")
        there_ns = until_ns = 0
        for enqueued_ns, ended_ns, _ in mine:
            there_ns += max(ended_ns - max(enqueued_ns, until_ns), 0)
            until_ns = max(until_ns, ended_ns)
        work_ns = sum(work for _, _, work in mine)
        return cls((until_ns - run.begun_ns) / 1e9, (there_ns - work_ns) / 1e9)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--policy", default="budget", metavar="NAME", help="default: budget")
    parser.add_argument("--pairs", type=int, default=len(PAIRS), metavar="N", help="the first N; default: all")
    parser.add_argument(
        "--arrays", type=int, default=len(LOW), metavar="N", help="of the first N low programs; default: all"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run alone, default 2")
    parser.add_argument("--stretch", type=float, default=4.0, help="play so many times as slowly, default 4")
    device_option.add_arguments(parser)
    page.add_argument(parser)


def run(
    *, emulated: bool, policy: str, pairs: int, arrays: int, seconds: float, stretch: float, device: Device = SLICES
) -> Result:
    """Raises BenchError."""
    if not emulated:
        raise BenchError("only the emulated device keeps a record of its own")
    rows = measure(PAIRS[:pairs], list(LOW)[:arrays], policy, seconds, stretch, device)
    worst = {part: max(row["error"][part] for row in rows) for part in ("alone", "waited", "delayed")}
    worst["unexplained"] = max(row["report"]["unexplained"] / row["report"]["elapsed"] for row in rows)
    said = ", ".join(f"{part} {units.share(share, 1)}" for part, share in worst.items())
    return Result(
        f"{table(rows)}\n{len(rows)} reports, {policy} on {device}, emulated, in real time; at most so far from the device's record, of "
        f"elapsed: {said}",
        True,
        {f"worst_{part}": share for part, share in worst.items()},
        {f"error_{part}": [row["error"][part] for row in rows] for part in ("alone", "waited", "delayed")},
        {"policy": policy, "seconds": seconds, "stretch": stretch, **device_option.settings(device)},
        {"rows": rows},
        table(rows).rstrip(),
    )


def measure(  # noqa: PLR0917
    pairs: Sequence[tuple[str, str]], arrays: Sequence[str], policy: str, seconds: float, stretch: float,
    device: Device = SLICES,
) -> list[dict[str, Any]]:  # fmt: skip
    """Of each pair the high job's row and the low job's, of each array one of its first task: what the report says, what the record
    says, and how far they are apart."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="fikit-elapsed-") as root:
        directory = Path(root)
        with live.stage(directory, stretch, {"policy": policy}, device) as stage:
            jobs, alone = {}, {}
            for priority, shapes in (("high", HIGH), ("low", LOW)):
                names = [pair[priority == "low"] for pair in pairs] + (list(arrays) if priority == "low" else [])
                for name in dict.fromkeys(names):
                    (directory / name).write_text(shapes[name].recording())
                    count = shapes[name].requests(seconds, stretch)
                    measuring = live.Job(directory / name, max(count // 4, 2), options=["--measure", "--profile", name])
                    stage.report(stage.run([measuring], DEVICE).job_ids[0])
                    jobs[name] = replace(measuring, requests=count, options=["--priority", priority, "--profile", name])
                    alone[name] = min(_alone(stage, jobs[name]) for _ in range(ALONE))
            for high, low in pairs:
                for first, other in ((high, low), (low, high)):
                    with stage.learnt_before():
                        ran = stage.run([jobs[first], replace(jobs[other], requests=None)], DEVICE)
                        reports = [stage.report(job) for job in ran.job_ids]
                    rows.append(_row(first, other, reports[0], Seen.of(ran), alone[first]))
            for name in arrays:
                others = [replace(jobs[name], requests=None)] * (TASKS - 1)
                with stage.learnt_before():
                    ran = stage.run([jobs[name], *others], DEVICE)
                    reports = [stage.report(job) for job in ran.job_ids]
                rows.append(_row(name, f"{len(others)} tasks of its array", reports[0], Seen.of(ran), alone[name]))
    return rows


def _alone(stage: live.Stage, job: live.Job) -> Seen:
    with stage.learnt_before():
        ran = stage.run([job], DEVICE)
        stage.report(ran.job_ids[0])
    return Seen.of(ran)


def _row(job: str, beside: str, report: Mapping[str, Any], shared: Seen, alone: Seen) -> dict[str, Any]:
    parts = {
        part: float(report[f"{part}_s"]) for part in ("elapsed", "alone", "waited", "delayed", "host", "unexplained")
    }
    late_s = float(report["host"]["late_s"])
    stood_s = max(shared.stood_s - alone.stood_s, 0.0)
    record = {"delayed": stood_s, "waited": max(shared.span_s - alone.span_s - stood_s, 0.0), "alone": alone.span_s}
    said = {
        "delayed": parts["delayed"],
        "waited": parts["waited"] + late_s,
        "alone": shared.span_s - parts["waited"] - parts["delayed"] - parts["unexplained"] - late_s,
    }
    return {
        "job": job, "beside": beside, "report": {**parts, "late": late_s, "slowdown": report["slowdown"], "kept": report["kept"]},
        "record": {**record, "span": shared.span_s},
        "error": {part: abs(said[part] - record[part]) / parts["elapsed"] for part in record},
    }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Seconds; the record's in brackets."""
    lines = [
        "| job | beside | elapsed | waited and late host (record) | delayed (record) | host, start and end too | unexplained | alone (span alone) | slowdown | most off, of elapsed |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        said, record = row["report"], row["record"]
        ratio = "-" if said["slowdown"] is None else f"{said['slowdown']:.2f}"
        lines.append(
            f"| {row['job']} | {row['beside']} | {said['elapsed']:.3f} | {said['waited'] + said['late']:.3f} ({record['waited']:.3f}) "
            f"| {said['delayed']:.3f} ({record['delayed']:.3f}) | {said['host']:.3f} | {said['unexplained']:.3f} "
            f"| {said['alone']:.3f} ({record['alone']:.3f}) | {ratio} | {units.share(max(row['error'].values()), 1)} |"
        )
    return "\n".join([*lines, ""])
