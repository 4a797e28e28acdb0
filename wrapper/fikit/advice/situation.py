"""What the rules of advice go by, and the lines to type. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from fikitd.base import priorities

from fikit.advice.facts import Facts
from fikit.advice.offers import Alone, Offer
from fikit.api.advice import Advice

WORTH: Final = 0.02  # of the time: less is no advice


@dataclass(frozen=True)
class Situation:
    """What the rules go by."""

    facts: Facts
    offers: Sequence[Offer]
    alone: Alone

    @property
    def best(self) -> Offer | None:
        """Where the job ends soonest beside others or on an idle GPU, if anywhere."""
        return next((each for each in self.offers if each.soonest is not None and isfinite(each.start_s)), None)


Rule = Callable[[Situation], Advice | None]


def typed(facts: Facts, *options: str) -> str:
    """The line that submits the script with these options, which beat those in it; of a job that is in the queue, nothing."""
    if not (script := facts.request.script):
        return ""
    if not facts.request.program:
        return " ".join(["sbatch", *options, script])
    own = [option.replace("--fikit-", "--", 1) for option in options if option.startswith("--fikit-")]
    return " ".join(["fikit run", *own, "--", script]) if own else ""


def with_priority(facts: Facts, priority: int) -> str:
    """Of a job that runs, what lowers it: only that may its owner."""
    request, name = facts.request, priorities.name(priority)
    if request.script:
        return typed(facts, *([] if request.shares else ["--gres=gpu:1"]), f"--fikit-priority={name}")
    lower = request.job is not None and request.elapsed_s > 0 and priority > asked_priority(facts)
    return f"srun --overlap --jobid={request.job} fikit priority {request.job} {name}" if lower else ""


def with_limit(facts: Facts, seconds: float) -> str:
    """Of a job that waits or runs, what makes its limit shorter: only that may its owner."""
    if facts.request.script:
        return typed(facts, f"--time={_limit(seconds)}")
    shorter = facts.request.job is not None and seconds < facts.request.limit_s
    return f"scontrol update JobId={facts.request.job} TimeLimit={_limit(seconds)}" if shorter else ""


def asked_priority(facts: Facts) -> int:
    return facts.default_priority if facts.request.priority is None else facts.request.priority


def _limit(seconds: float) -> str:
    """As --time takes it, in whole quarters of an hour."""
    minutes = max(-(-int(seconds) // 900) * 15, 15)
    hours, rest = divmod(minutes, 60)
    return f"{hours}:{rest:02}:00"
