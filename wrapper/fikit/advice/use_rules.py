"""The rules that go by what NVML saw of a job whose launches fikit did not: it had a GPU alone, or used none. Pure."""

from __future__ import annotations

from math import inf
from typing import Final

from fikitd.api.uses import Use
from fikitd.base import priorities
from fikitd.gpus.placement import shards_for

from fikit.advice import words
from fikit.advice.facts import Busy, Expectation, Facts, Request, Used
from fikit.advice.offers import Alone
from fikit.advice.situation import Rule, Situation, typed
from fikit.api.advice import Advice
from fikit.wording.units import share

IDLE: Final = 0.5  # who leaves so much of a GPU can share it
FEW_LOOKS: Final = 3  # of less nobody knows anything


def situation(use: Use, highest: int = 0) -> Situation:
    """Of a job that ended. highest: the highest priority that the site allows."""
    peak = use["peak_bytes"]
    gpus = len(use["gpus"]) or use.get("whole", 0)
    used = Used(use["busy"], use["looks"], peak, gpus, use["shared"])
    request = Request(
        name=use["name"],
        uid=use["uid"],
        gpus=max(gpus, 1),
        shares=use["shared"],
        script=words.script(use["name"]),
        job=use["job"],
    )
    facts = Facts(
        request=request,
        expected=Expectation(0.0, "name", 1),
        busy=Busy(),
        known=None,
        gpus=(),
        highest=highest,
        used=used,
    )
    return Situation(facts, (), Alone("", inf, inf))


def would_share(situation: Situation) -> Advice | None:
    """It had a GPU alone, and left most of it idle."""
    facts, used = situation.facts, situation.facts.used
    if used is None or used.shared or used.busy is None or used.looks < FEW_LOOKS or used.busy >= IDLE:
        return None
    whose = "its GPU" if used.gpus == 1 else f"its {used.gpus} GPUs, in the mean,"
    text = (
        f"it kept {whose} busy {share(used.busy)} of the time: beside others it leaves {share(1 - used.busy)} to them"
    )
    figure = {"busy_share": used.busy, "looks": used.looks, "gpus": used.gpus}
    if used.gpus != 1:  # only jobs of one GPU share it
        return Advice("share", f"{text}, or fewer GPUs would do", figure)
    memory = [f"--fikit-mem={shards_for(used.peak_bytes)}G"] if used.peak_bytes else []
    priority = f"--fikit-priority={priorities.name(max(1, facts.highest))}"
    return Advice("share", text, figure, typed(facts, "--gres=gpu:1", priority, *memory))


def unused(situation: Situation) -> Advice | None:
    """It had options of fikit's, or a share of a GPU, and no program of it launched anything there under fikit."""
    facts, used = situation.facts, situation.facts.used
    if used is None or not used.shared:
        return None
    alone = "a GPU alone" if used.gpus == 1 else f"{used.gpus} GPUs alone"
    had = alone if used.gpus else "a GPU or a share of one"
    text = f"it had {had}, and no program of it launched anything there through fikit: if it needs none, leave the GPU to others"
    return Advice("unused", text, {"kernels": 0}, typed(facts, "--gres=none"))


RULES: Final[tuple[Rule, ...]] = (would_share, unused)
