"""Which GPU: where the job would start now on several, and ends on one of them sooner than on another. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

from fikit.advice.facts import Facts
from fikit.advice.offers import Offer
from fikit.advice.situation import WORTH, Rule, Situation, asked_priority, typed
from fikit.api.advice import Advice
from fikit.wording.units import span

STARTS_NOW: Final = ("idle", "shares")


def another_gpu(situation: Situation) -> Advice | None:
    """Slurm knows shards and nothing of who is there: it may put the job where it ends later."""
    facts = situation.facts
    if not facts.request.shares or facts.request.running:
        return None
    ends = [(offer, end_s) for offer in situation.offers if (end_s := _end_s(offer, facts)) is not None]
    if len(ends) < 2:
        return None
    (best, soon_s), (worst, late_s) = min(ends, key=_rank), max(ends, key=_rank)
    if late_s - soon_s <= WORTH * soon_s:
        return None
    how = _how(best, [offer for offer, end_s in ends if end_s - soon_s > WORTH * soon_s])
    rest = "" if how[0] else "; which of the node's it gets, Slurm decides"
    text = (
        f"it ends in {span(soon_s)} on {best.gpu.name}, {_who(best)}, {span(late_s - soon_s)} sooner than on {worst.gpu.name}, "
        f"{_who(worst)}, where Slurm may put it as well{rest}"
    )
    figure = {"gpu": best.gpu.name, "end_s": soon_s, "instead_of": worst.gpu.name, "sooner_s": late_s - soon_s}
    return Advice("another GPU", text, figure, _line(facts, how))


def _end_s(offer: Offer, facts: Facts) -> float | None:
    """With the priority that it asks for; None: it does not start there now, or nobody knows."""
    choice = offer.choice(asked_priority(facts)) or offer.soonest
    if offer.verdict not in STARTS_NOW or offer.start_s > 0 or choice is None or not isfinite(choice.end_s):
        return None
    return choice.end_s


def _rank(each: tuple[Offer, float]) -> tuple[float, str]:
    return each[1], each[0].gpu.name


def _how(best: Offer, worse: Sequence[Offer]) -> tuple[str, str]:
    """The node, and where that is not enough the type, that leave no worse GPU to Slurm; "", "" where none do: within a node Slurm chooses."""
    node, type_ = best.gpu.node, best.gpu.type
    there = [offer for offer in worse if offer.gpu.node == node]
    if not there:
        return node, ""
    if type_ and all(offer.gpu.type != type_ for offer in there):
        return node, type_
    return "", ""


def _line(facts: Facts, how: tuple[str, str]) -> str:
    node, type_ = how
    if not node:
        return ""
    if facts.request.script:
        return typed(facts, f"--nodelist={node}", *([f"--gres=gpu:{type_}:1"] if type_ else []))
    return "" if type_ or facts.request.job is None else f"scontrol update JobId={facts.request.job} ReqNodeList={node}"


def _who(offer: Offer) -> str:
    jobs = [each.job for each in offer.gpu.neighbours]
    if not jobs:
        return "where nobody is"
    return f"beside job {jobs[0]}" if len(jobs) == 1 else f"beside {len(jobs)} jobs"


RULES: Final[tuple[Rule, ...]] = (another_gpu,)
