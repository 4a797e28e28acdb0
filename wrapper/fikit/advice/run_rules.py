"""The rules that go by what one run came to, as its report has it. Pure, and each says one thing or nothing.

A run that has not ended is asked only what does not change its sense until the end: whom it waits for, its kernels, its host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from fikitd.api import elapsed
from fikitd.base import priorities
from fikitd.gpus.placement import shards_for

from fikit.advice.situation import WORTH, Rule, Situation, asked_priority, typed, with_priority
from fikit.api.advice import Advice
from fikit.api.job_report import TypedReport, WaitReason
from fikit.wording import memory_moved
from fikit.wording.units import count, duration, gibibytes, percent, share

HEAVY: Final = 0.1  # of the elapsed time: so much waiting is worth a higher priority, which costs others theirs
IDLE: Final = 0.5  # of the time alone: who leaves so much of a GPU can share it
FULL: Final = 0.9  # who takes so much of it leaves lower jobs next to nothing
LOW: Final = 8
GIB: Final = 2**30
NAME_LENGTH: Final = 48
TOO_LONG: Final = "does_not_fit"


def _share(part_s: float, run: TypedReport) -> float:
    return min(part_s / run.elapsed_s, 1.0) if run.elapsed_s else 0.0


def _busy(run: TypedReport) -> float | None:
    """Which part of its time alone its kernels kept the GPU busy; None: not known."""
    return min(run.gpu_time_s / run.alone_s, 1.0) if run.gpu_time_s is not None and run.alone_s else None


def _worst(reasons: Sequence[WaitReason]) -> WaitReason:
    return max(reasons, key=lambda each: each.total_s)


def _cost_s(reasons: Sequence[WaitReason], run: TypedReport) -> float:
    """What the waits cost of its elapsed time, which all of them together never exceed."""
    told = sum(each.total_s if each.cost_s is None else each.cost_s for each in reasons)
    return min(told, run.waited_s or 0.0)


def _who(reason: WaitReason) -> str:
    return "another job" if reason.job is None else f"job {reason.job}"


def _above(run: TypedReport) -> list[WaitReason]:
    return [each for each in run.wait_reasons if each.priority is not None and each.priority < run.priority]


def idle(situation: Situation) -> Advice | None:
    """It had the GPU alone, and left most of it idle."""
    run = situation.facts.run
    if run is None or not run.measured or run.state == "running" or (busy := _busy(run)) is None or busy > IDLE:
        return None
    text = f"it had the GPU alone and kept it busy {share(busy)} of its time: beside others it leaves {share(1 - busy)} to them"
    line = typed(
        situation.facts, "--gres=gpu:1", f"--fikit-priority={priorities.name(max(1, situation.facts.highest))}"
    )
    return Advice("share", text, {"busy_share": busy}, line)


def long_kernel(situation: Situation) -> Advice | None:
    """Of its kernels, the one that waited longest because it is longer than what the jobs above it can spare."""
    facts, run = situation.facts, situation.facts.run
    if run is None or not run.elapsed_s:
        return None
    by_kernel: defaultdict[str, float] = defaultdict(float)
    for each in run.wait_reasons:
        if each.reason == TOO_LONG and each.kernel:
            by_kernel[each.kernel] += each.total_s
    if not by_kernel:
        return None
    kernel = max(by_kernel, key=lambda name: by_kernel[name])
    of_it = [each for each in run.wait_reasons if each.reason == TOO_LONG and each.kernel == kernel]
    cost_s, worst = _cost_s(of_it, run), _worst(of_it)
    if _share(cost_s, run) <= WORTH:
        return None
    short = kernel if len(kernel) <= NAME_LENGTH else kernel[: NAME_LENGTH - 1] + "…"
    long = "" if worst.p90_us is None else f" (p90 {duration(worst.p90_us / 1e6)})"
    equal = None if worst.priority is None else max(worst.priority, facts.highest)
    as_high = equal is not None and equal < run.priority
    text = (
        f"its kernel `{short}`{long} waited {duration(cost_s)}, {percent(cost_s, run.elapsed_s)} of its time, because it does not fit what {_who(worst)} can spare: smaller steps make it shorter"
        + (", the same priority gives it turns" if as_high else "")
    )
    figure = {"kernel": kernel, "waited_s": cost_s, "p90_us": worst.p90_us, "job": worst.job}
    line = with_priority(facts, equal) if as_high and equal is not None else ""
    return Advice("long kernel", text, figure, line)


def raise_priority(situation: Situation) -> Advice | None:
    """A good part of its time it waited for jobs of higher priority."""
    facts, run = situation.facts, situation.facts.run
    reasons = [] if run is None else [each for each in _above(run) if each.reason != TOO_LONG]
    if run is None or not reasons or not run.elapsed_s:
        return None
    cost_s, worst = _cost_s(reasons, run), _worst(reasons)
    equal = max(run.priority if worst.priority is None else worst.priority, facts.highest)
    if _share(cost_s, run) <= HEAVY or equal >= run.priority:
        return None
    text = f"it waited {duration(cost_s)}, {percent(cost_s, run.elapsed_s)} of its time, for jobs of higher priority, longest for {_who(worst)}: if it is as urgent, take priority {priorities.name(equal)}"
    return Advice(
        "raise priority",
        text,
        {"waited_s": cost_s, "waited_share": _share(cost_s, run), "job": worst.job},
        with_priority(facts, equal),
    )


def lower_priority(situation: Situation) -> Advice | None:
    """It took nearly all of the GPU, so that jobs below it had next to nothing."""
    facts, run = situation.facts, situation.facts.run
    if run is None or run.measured or asked_priority(facts) >= LOW or (busy := _busy(run)) is None or busy < FULL:
        return None
    if not any(each.priority is not None and each.priority > run.priority for each in run.delays):
        return None
    text = f"its kernels kept the GPU busy {share(busy)} of its time, so jobs below it got next to nothing: if it is not urgent, take priority low"
    return Advice("lower priority", text, {"busy_share": busy}, with_priority(facts, LOW))


def promise(situation: Situation) -> Advice | None:
    """Lower jobs cost it more than they may."""
    run = situation.facts.run
    if run is None or run.kept is not False or run.max_slowdown is None or run.state == "running":
        return None
    lower = [each for each in run.delays if each.priority is not None and each.priority > run.priority]
    worst = max(lower, key=lambda each: each.total_s, default=None)
    by = "" if worst is None or worst.job is None else f", most of it job {worst.job}"
    text = f"lower jobs cost it more than the {share(run.max_slowdown)} of its time alone that they may{by}: with a GPU to itself, and without its fikit options, nobody does"
    figure = {
        "slowdown": run.slowdown,
        "max_slowdown": run.max_slowdown,
        "delayed_s": run.delayed_s,
        "job": worst.job if worst else None,
    }
    return Advice("promise", text, figure, typed(situation.facts, "--gres=gpu:1"))


def refused_memory(situation: Situation) -> Advice | None:
    """Requests for memory were beyond its limit, though what it held at most leaves room: the next step was too large."""
    run = situation.facts.run
    memory = None if run is None else run.memory
    if memory is None or not memory.refused or not memory.limit_bytes:
        return None
    request = situation.facts.request
    if shards_for(memory.peak_bytes) > request.shards + request.host_gib:  # the rule `memory` says so
        return None
    more = shards_for(memory.limit_bytes)
    option = f"--fikit-mem-host={more - request.shards}G" if request.host_gib else f"--fikit-mem={more}G"
    requests = f"{count(memory.refused)} request{'' if memory.refused == 1 else 's'}"
    text = f"{requests} for GPU memory {'was' if memory.refused == 1 else 'were'} beyond its {gibibytes(memory.limit_bytes)}, of which it held {gibibytes(memory.peak_bytes)} at most: if it failed for that, ask for more"
    figure = {"refused": memory.refused, "limit_bytes": memory.limit_bytes, "peak_bytes": memory.peak_bytes}
    return Advice("refused memory", text, figure, typed(situation.facts, option))


def memory_moves(situation: Situation) -> Advice | None:
    """Its memory moved by a plan, and takes much longer for it than its kernels: memory on the GPU does not."""
    run = situation.facts.run
    memory = None if run is None else run.memory
    plan = None if memory is None else memory.plan
    if run is None or memory is None or plan is None or plan.expected_loss <= HEAVY:
        return None
    all_bytes = max(memory.peak_bytes, plan.peak_bytes)
    needed, gpu_bytes = shards_for(all_bytes), run.device.memory_bytes
    longer = memory_moved.longer(plan.expected_loss)
    fits = gpu_bytes is None or all_bytes <= gpu_bytes
    instead = (
        f"give it {gibibytes(all_bytes)} on the GPU (--fikit-mem={needed}G)"
        if fits
        else f"it needs a GPU with more than {gibibytes(gpu_bytes or 0)}, or smaller steps"
    )
    text = f"by its memory's plan, {memory_moved.budget(plan.budget_bytes, plan.peak_bytes)} on the GPU, its passes are expected to take {longer}: {instead}"
    figure = {
        "longer_share": plan.expected_loss,
        "budget_bytes": plan.budget_bytes,
        "peak_bytes": all_bytes,
        "needed_gib": needed,
    }
    more = fits and needed > situation.facts.request.shards
    return Advice("memory moves", text, figure, typed(situation.facts, f"--fikit-mem={needed}G") if more else "")


def measure(situation: Situation) -> Advice | None:
    """Nothing knew how long its kernels run, and this run has not taught it."""
    run = situation.facts.run
    if run is None or run.measured or run.kernels == 0 or run.state == "running":
        return None
    profile = run.record["profile"]
    unknown = run.record["span_alone_s"] is None if profile["found"] else not profile["stored"]
    unexplained = run.no_slowdown == elapsed.UNEXPLAINED
    if not unknown and not unexplained:
        return None
    untimed = run.record.get("untimed", 0)
    what = (
        f"{percent(run.unexplained_s or 0.0, run.elapsed_s or 0.0)} of its time is not explained, for want of times of its kernels"
        if unexplained
        else "no profile knows all of its kernels"
    )
    return Advice(
        "measure", f"{what}: one run alone with --fikit-measure makes them known",
        {"kernels": run.kernels, "untimed": untimed, "unexplained_s": run.unexplained_s}, typed(situation.facts, "--gres=gpu:1", "--fikit-measure"),
    )  # fmt: skip


def late_host(situation: Situation) -> Advice | None:
    """Its host took longer between launches than in its profile."""
    run = situation.facts.run
    if run is None or run.host is None or _share(run.host.late_s, run) <= WORTH:
        return None
    text = f"its host was late by {duration(run.host.late_s)} between launches, {percent(run.host.late_s, run.elapsed_s or 0.0)} of its time: if its CPUs were full, ask for more of them (--cpus-per-task)"
    line = f"sacct -j {run.job} --format=AllocCPUS,TotalCPU,Elapsed" if run.job.isdecimal() else ""
    return Advice("late host", text, {"late_s": run.host.late_s, "late_share": _share(run.host.late_s, run)}, line)


RULES: Final[tuple[Rule, ...]] = (
    promise, idle, raise_priority, lower_priority, long_kernel, refused_memory, memory_moves, late_host, measure,
)  # fmt: skip
