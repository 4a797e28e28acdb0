"""A situation and its advices as what --json prints and the table shows. Times are seconds from now, null where nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from fikitd.base import priorities

from fikit.advice import speeds
from fikit.advice.facts import Facts, Neighbour
from fikit.advice.offers import Choice, Offer
from fikit.advice.situation import Situation
from fikit.api.advice import Advice


def of(situation: Situation, advices: Sequence[Advice]) -> dict[str, Any]:
    facts, alone = situation.facts, situation.alone
    request = facts.request
    return {
        "job": {
            "name": request.name, "job": request.job, "script": request.script, "partition": request.partition, "shares": request.shares,
            "priority": request.priority, "shards": request.shards, "shards_source": request.shards_source, "host_gib": request.host_gib, "limit_s": _number(request.limit_s),
            "elapsed_s": request.elapsed_s, "running": request.running,
        },
        "expected": _expected(facts),
        "gpus": [_offer(offer) for offer in situation.offers],
        "alone": {
            "gpu": alone.gpu or None, "start_s": _number(alone.start_s), "end_s": _number(alone.end_s), "at_least": alone.at_least,
        },
        "waiting": {"whole": facts.ahead_whole, "shared": facts.ahead_shared, "slurm_start_s": facts.slurm_start_s},
        "advice": [asdict(each) for each in advices],
        "notes": list(notes(facts)),
    }  # fmt: skip


def notes(facts: Facts) -> list[str]:
    mode = "MPS" if facts.mps else "time slices"
    found = [
        f"reckoned, not measured: ends by the closed form for {mode}, which is fitted to simulated pairs; Slurm decides what starts",
        *facts.notes,
    ]
    if any(each.busy.source == "assumed" for gpu in facts.gpus for each in gpu.neighbours):
        found.append(
            f"~ how busy the GPU is with it is not known: {facts.busy.share if facts.busy.source == 'assumed' else 0.5:.2f} is assumed"
        )
    if any(each.priority is None for gpu in facts.gpus for each in gpu.neighbours if not each.whole):
        found.append(f"? its priority is not known here: {priorities.name(facts.default_priority)} is assumed")
    if measured := speeds.of(facts).measured:
        found.append(f"the slowdowns of {measured} of these pairs are those of earlier runs side by side")
    if facts.hidden:
        found.append("Slurm does not show you others' jobs (PrivateData): who is on the GPUs besides is left out")
    if facts.known is not None and facts.known.emulated:
        found.append("earlier runs were on an emulated GPU")
    return found


def _expected(facts: Facts) -> dict[str, Any]:
    known = facts.known
    return {
        "rest_s": _number(facts.expected.rest_s), "source": facts.expected.source, "runs": facts.expected.runs,
        "quartiles_s": None if known is None else list(known.run_s), "busy": facts.busy.share, "busy_source": facts.busy.source,
        "peak_bytes": None if known is None else known.peak_bytes, "slowdown": None if known is None else known.slowdown,
        "given": None if known is None else known.given, "compared": None if known is None else known.compared,
    }  # fmt: skip


def _offer(offer: Offer) -> dict[str, Any]:
    gpu, soonest, kindest = offer.gpu, offer.soonest, offer.kindest
    return {
        "gpu": gpu.name, "node": gpu.node, "index": gpu.index, "type": gpu.type or None, "shards": gpu.shards, "free": gpu.free,
        "beside": [_neighbour(each) for each in gpu.neighbours], "verdict": offer.verdict, "why": offer.why,
        "start_s": _number(offer.start_s), "soonest": soonest.priority if soonest else None, "kindest": kindest.priority if kindest else None,
        "choices": [_choice(each) for each in offer.choices],
    }  # fmt: skip


def _neighbour(neighbour: Neighbour) -> dict[str, Any]:
    return {
        "job": neighbour.job, "uid": neighbour.uid, "shards": neighbour.shards, "whole": neighbour.whole, "priority": neighbour.priority,
        "rest_s": _number(neighbour.expected.rest_s), "source": neighbour.expected.source, "busy": neighbour.busy.share,
        "busy_source": neighbour.busy.source,
    }  # fmt: skip


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "priority": choice.priority, "priority_name": priorities.name(choice.priority), "end_s": _number(choice.end_s),
        "slowdown": choice.slowdown, "sum_s": _number(choice.sum_s), "gain_s": choice.gain_s, "others": [asdict(each) for each in choice.others],
    }  # fmt: skip


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
