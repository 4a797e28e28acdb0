"""Resident bytes over time in live runs of one program: with all of its memory, by its plan, by faults. Of the emulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure

from bench.residency.live_plans import Trail
from bench.residency.picture import COLOURS, GIB, as_text

SHOWN_S: Final = 6.0
OF_HOW: Final = {"all of its memory": "#7f8c8d", "planned": COLOURS[0], "faults alone": COLOURS[1]}


def svg(trails: Sequence[Trail]) -> str:
    """A row for each program."""
    programs = list(dict.fromkeys(each.program for each in trails))
    figure = Figure(figsize=(9, 2.6 * len(programs)), layout="constrained")
    for axes, program in zip(figure.subplots(len(programs), 1, squeeze=False)[:, 0], programs, strict=True):
        for trail in (each for each in trails if each.program == program):
            shown = [(s, there / GIB) for s, there in trail.points if s <= SHOWN_S]
            axes.plot(*zip(*shown, strict=True), label=trail.how, color=OF_HOW[trail.how], linewidth=1)
            room_bytes = trail.room_bytes
        axes.axhline(room_bytes / GIB, color="black", linestyle="--", label="room")
        axes.set(title=f"{program} (live, emulated)", xlabel="s", ylabel="GiB resident")
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right", fontsize=8)
    return as_text(figure)
