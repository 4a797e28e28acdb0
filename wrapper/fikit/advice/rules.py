"""The rules of advice: facts in, advices out, each with its figure and the line to type. Pure, and each rule says one thing or nothing.

`fikit advise` asks them of a job that is to run, reports of one that ran (`past`): a rule whose facts are not there says nothing.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Final

from fikitd.base import priorities
from fikitd.gpus.placement import shards_for

from fikit.advice import batches, deadlines, gpu_rules, residency, run_rules, use_rules
from fikit.advice.facts import Facts
from fikit.advice.offers import Choice
from fikit.advice.situation import WORTH, Rule, Situation, asked_priority, typed, with_limit, with_priority
from fikit.api.advice import Advice
from fikit.wording.units import gibibytes, span

FEW_RUNS: Final = 3
GENEROUS: Final = 1.5  # times the longest run: a limit that no run of this name needs


def advise(situation: Situation) -> list[Advice]:
    """What every rule says, in their order."""
    return [advice for rule in RULES if (advice := rule(situation)) is not None]


def unknown(situation: Situation) -> Advice | None:
    """Nothing is known of the job: its first run says it."""
    facts = situation.facts
    if facts.expected.source == "name":
        return None
    runs = facts.expected.runs
    instead = {
        "user": f"your {runs} other runs stand", "cluster": f"the runs of {runs} users stand", "limit": "its time limit stands",
    }.get(facts.expected.source)  # fmt: skip
    text = f'no run of "{facts.request.name}" is known' + (
        f", so {instead} in for it" if instead else ", nor a time limit"
    )
    return Advice(
        "unknown", f"{text}; the first run makes it known, and one alone with --fikit-measure all of it",
        {"source": facts.expected.source, "runs": runs}, typed(facts, "--gres=gpu:1", "--fikit-measure"),
    )  # fmt: skip


def share(situation: Situation) -> Advice | None:
    """A job that would have a GPU alone ends sooner beside others."""
    facts, best = situation.facts, situation.best
    if facts.request.shares or best is None or (choice := best.soonest) is None or not isfinite(choice.end_s):
        return None
    sooner_s = situation.alone.end_s - choice.end_s
    if best.start_s >= situation.alone.start_s or sooner_s <= WORTH * choice.end_s:
        return None
    when = "now" if best.start_s == 0 else f"in {span(best.start_s)}"
    text = (
        f"beside others it starts {when} and ends {span(sooner_s)} sooner than alone"
        if isfinite(sooner_s)
        else f"beside others it starts {when}"
    )
    return Advice(
        "share", text, {"sooner_s": _number(sooner_s), "start_s": best.start_s}, with_priority(facts, choice.priority)
    )


def soonest_priority(situation: Situation) -> Advice | None:
    """The priority with which it ends soonest, where another one was asked for."""
    facts, best = situation.facts, situation.best
    if best is None or not facts.request.shares or (choice := best.soonest) is None or best.verdict == "idle":
        return None
    asked = best.choice(asked_priority(facts))
    if asked is None or asked.end_s - choice.end_s <= WORTH * choice.end_s or not isfinite(choice.end_s):
        return None
    text = (
        f"with priority {priorities.name(choice.priority)} it ends in {span(choice.end_s)} on {best.gpu.name}, "
        f"{span(asked.end_s - choice.end_s)} sooner than with {priorities.name(asked.priority)}{_cost(choice)}"
    )
    return Advice(
        "soonest priority",
        text,
        {"sooner_s": _number(asked.end_s - choice.end_s), "gpu": best.gpu.name},
        with_priority(facts, choice.priority),
    )


def kindest_priority(situation: Situation) -> Advice | None:
    """The priority with which all together end soonest, where it is another one than that with which the job does."""
    best = situation.best
    if best is None or not best.gpu.neighbours or (kind := best.kindest) is None or (soon := best.soonest) is None:
        return None
    gained_s = soon.sum_s - kind.sum_s
    asked = kind.priority in (soon.priority, asked_priority(situation.facts))
    if asked or not isfinite(gained_s) or gained_s <= WORTH * kind.end_s:
        return None
    text = (
        f"with priority {priorities.name(kind.priority)} it ends {span(kind.end_s - soon.end_s)} later than with {priorities.name(soon.priority)}, "
        f"and the jobs beside it end {span(gained_s + kind.end_s - soon.end_s)} earlier, all of theirs summed"
    )
    return Advice(
        "kindest priority",
        text,
        {"sum_s": gained_s, "own_s": kind.end_s - soon.end_s, "gpu": best.gpu.name},
        with_priority(situation.facts, kind.priority),
    )


def alone_is_sooner(situation: Situation) -> Advice | None:
    """It shares, and would end sooner if it waited for a whole GPU."""
    facts, alone, best = situation.facts, situation.alone, situation.best
    if not facts.request.shares or facts.request.job is not None or alone.at_least or not isfinite(alone.end_s):
        return None
    shared_s = best.soonest.end_s if best is not None and best.soonest is not None else inf
    if best is not None and best.verdict == "idle":
        return None
    if shared_s - alone.end_s <= WORTH * alone.end_s:
        return None
    sooner = (
        f"{span(shared_s - alone.end_s)} sooner than beside others"
        if isfinite(shared_s)
        else "and beside others nobody knows when"
    )
    text = f"with a GPU to itself, which is free {_when(alone.start_s)}, it ends in {span(alone.end_s)}, {sooner}"
    figure = {"sooner_s": _number(shared_s - alone.end_s), "start_s": alone.start_s}
    if facts.request.options:
        return Advice("alone", f"{text}: take {' and '.join(facts.request.options)} out of the script", figure)
    return Advice("alone", text, figure, typed(facts, "--gres=gpu:1"))


def time_limit(situation: Situation) -> Advice | None:
    """A limit that runs of this name exceed, or one so long that Slurm cannot fill gaps with the job."""
    facts = situation.facts
    runs_s, limit_s = facts.runs_s, facts.request.limit_s
    if len(runs_s) < FEW_RUNS:
        return None
    longest_s = max(runs_s)
    enough_s = GENEROUS * longest_s * _worst_slowdown(situation)
    over = sum(run_s > limit_s for run_s in runs_s)
    if over:
        text = (
            f"{over} of {len(runs_s)} runs took longer than the limit of {span(limit_s)}, the longest {span(longest_s)}"
        )
        return Advice(
            "time limit", text, {"longest_s": longest_s, "limit_s": limit_s, "over": over}, with_limit(facts, enough_s)
        )
    if limit_s > 2 * enough_s and limit_s > 600:
        limit = "no limit" if limit_s == inf else f"a limit of {span(limit_s)}"
        text = f"{limit} is more than the runs need (the longest of {len(runs_s)}: {span(longest_s)}); Slurm fills gaps with jobs that say so"
        return Advice(
            "time limit",
            text,
            {"longest_s": longest_s, "limit_s": _number(limit_s), "over": 0},
            with_limit(facts, enough_s),
        )
    return None


def _worst_slowdown(situation: Situation) -> float:
    """With the priority that it asks for, on whatever GPU Slurm gives it."""
    if not situation.facts.request.shares:
        return 1.0
    there = (offer.choice(asked_priority(situation.facts)) for offer in situation.offers)
    return max((choice.slowdown for choice in there if choice is not None), default=1.0)


def memory(situation: Situation) -> Advice | None:
    """What it asks for against what its runs needed."""
    facts = situation.facts
    peak = facts.known.peak_bytes if facts.known else None
    if peak is None or facts.request.shards_source != "asked" or not facts.request.shares:
        return None
    if facts.request.host_gib:
        return _memory_with_host(facts, peak)
    needed, asked = shards_for(peak), facts.request.shards
    figure = {"peak_bytes": peak, "asked_gib": asked, "needed_gib": needed}
    if needed > asked:
        text = f"it asks for {asked} GiB, and a run needed {_gib(peak)}: it may run out of memory"
        return Advice("memory", text, figure, typed(facts, f"--fikit-mem={needed}G"))
    if needed * 1.25 <= asked - 1:
        more = sum(1 for gpu in facts.gpus if needed <= gpu.free < asked)
        text = f"it asks for {asked} GiB, and no run needed more than {_gib(peak)}" + (
            f"; with {needed} GiB it fits on {more} more GPU{'' if more == 1 else 's'} now" if more else ""
        )
        return Advice("memory", text, {**figure, "more_gpus": more}, typed(facts, f"--fikit-mem={needed}G"))
    return None


def _memory_with_host(facts: Facts, peak_bytes: int) -> Advice | None:
    """Of a job with --fikit-mem-host. Less of it frees no GPU: only too little is advice, and where it needs none."""
    asked, host, needed = facts.request.shards, facts.request.host_gib, shards_for(peak_bytes)
    figure = {"peak_bytes": peak_bytes, "asked_gib": asked, "host_gib": host, "needed_gib": needed}
    if needed > asked + host:
        text = f"it asks for {asked} GiB and for {host} on the host, and a run needed {_gib(peak_bytes)}: it may run out of memory"
        return Advice("memory", text, figure, typed(facts, f"--fikit-mem-host={needed - asked}G"))
    if needed < asked:  # of its last GiB it may have a part only
        text = f"no run needed more than {gibibytes(peak_bytes)}: it fits into the {asked} GiB that it has on the GPU, without --fikit-mem-host"
        return Advice("memory", text, figure)
    return None


def smaller_batch(situation: Situation) -> Advice | None:
    """It is memory that is missing, and smaller steps would fit."""
    facts = situation.facts
    short = [offer.gpu for offer in situation.offers if offer.verdict in ("later", "no memory")]
    if (
        not short
        or any(offer.verdict in ("idle", "shares") for offer in situation.offers)
        or facts.wanted_batch is None
    ):
        return None
    room = max(gpu.free for gpu in short)
    if room <= 0 or (found := batches.smaller(facts.batches, facts.wanted_batch, room)) is None:
        return None
    batch, steps = found
    text = f"{room} GiB are free now: a batch of {batch} with {steps} steps of gradient accumulation would fit where {facts.wanted_batch} at once do not"
    return Advice(
        "smaller batch", text, {"batch": batch, "steps": steps, "free": room}, typed(facts, f"--fikit-mem={room}G")
    )


def deadline(situation: Situation) -> Advice | None:
    """Beside whom requests keep the deadline that was named."""
    facts = situation.facts
    if facts.deadline_s is None:
        return None
    if facts.burst is None:
        return Advice(
            "deadline",
            "no profile of its program says how long its requests take: measure it",
            {"deadline_s": facts.deadline_s},
            typed(facts, "--gres=gpu:1", "--fikit-measure"),
        )
    found = [
        deadlines.beside(offer.gpu, facts.burst, facts.deadline_s, asked_priority(facts)) for offer in situation.offers
    ]
    keep = [each.gpu for each in found if each.keeps]
    figure = {
        "deadline_s": facts.deadline_s, "alone_s": facts.burst.p99_s,
        "gpus": [{"gpu": each.gpu, "keeps": each.keeps, "response_s": each.response_s, "by": each.by} for each in found],
    }  # fmt: skip
    room_s = deadlines.largest_delay_s(facts.burst, facts.deadline_s)
    takes = f"its requests take {span(facts.burst.p99_s)} alone (99th percentile, from its profile)"
    if room_s is None:
        return Advice("deadline", f"{takes}: a deadline of {span(facts.deadline_s)} is not kept even alone", figure)
    text = f"{takes}: they keep {span(facts.deadline_s)} on {', '.join(keep) if keep else 'no GPU for sure'}, and elsewhere where no kernel of a lower job is longer than {span(room_s)}"
    return Advice(
        "deadline",
        text,
        figure,
        typed(
            facts,
            f"--fikit-priority={priorities.name(min(asked_priority(facts), max(1, facts.highest)))}",
            f"--fikit-max-delay={max(int(room_s * 1e6), 1)}us",
        ),
    )


RULES: Final[tuple[Rule, ...]] = (
    share, soonest_priority, kindest_priority, alone_is_sooner, *gpu_rules.RULES, memory, smaller_batch, residency.residency, deadline, time_limit, unknown,
    *run_rules.RULES, *use_rules.RULES,
)  # fmt: skip


def _cost(choice: Choice) -> str:
    costs = [f"job {each.job} {each.slowdown:.2f}x" for each in choice.others if each.slowdown >= 1 + WORTH]
    return f" ({', '.join(costs)})" if costs else ""


def _gib(size: int) -> str:
    """Beside a number of GiB: `5.0`, or `1 MiB` where that would be nothing."""
    return f"{size / 2**30:.1f}" if size >= 2**30 / 10 else gibibytes(size)


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _when(start_s: float) -> str:
    return "now" if start_s <= 0 else f"in {span(start_s)}"
