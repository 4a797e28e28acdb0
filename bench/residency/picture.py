"""Resident bytes over time: case A's low jobs in their turns, and an iteration of a network with a budget, planned and by faults."""

from __future__ import annotations

import io

import matplotlib as mpl
from fikitd.gpus.residency import EpochRules
from matplotlib.figure import Figure

from bench.residency.budgets import MSR, Case, case_of
from bench.residency.machine import Outcome
from bench.residency.placed import CHUNK
from bench.residency.rules import NoRule
from bench.residency.times import Rates
from bench.residency.turns import Epochs, Gpu, S, Setting

GIB = 1 << 30
POINTS = 300
"""Of a line: a page need not hold each chunk's arrival."""
COLOURS = ("#1b6ca8", "#c0392b", "#27ae60")


def svg(rates: Rates) -> str:
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    turns, budget = figure.subplots(2, 1)
    setting = Setting(length_ns=150 * S)
    trail = Gpu(setting, Epochs(EpochRules())).run().trail
    trail = [trail[n * (len(trail) - 1) // POINTS] for n in range(POINTS + 1)]
    times_s = [ns / S for ns, _ in trail]
    parts = [[counts[low] * CHUNK / GIB for _, counts in trail] for low in range(setting.lows)]
    turns.stackplot(
        times_s, parts, labels=[f"low job {low + 1}" for low in range(setting.lows)], colors=COLOURS, step="post"
    )
    turns.axhline(setting.room * CHUNK / GIB, color="black", linestyle="--", label="room beside the high job")
    turns.set(
        title="Case A: three low jobs of 40 % of a GPU of 16 GiB each (simulated)", xlabel="s", ylabel="GiB resident"
    )
    case = case_of("InceptionV4", 16, "known lifetimes", rates)
    capacity = int(case.peak * (1 - MSR))
    free = case.by(NoRule())
    for name, outcome, colour in (("without a budget", free, "#7f8c8d"), ("planned", case.planned(capacity)[0], COLOURS[0]), ("faults alone", case.by(NoRule(), capacity), COLOURS[1])):  # fmt: skip
        x, y = _steps(outcome)
        budget.plot(x, y, label=name, color=colour, linewidth=1)
    budget.axhline(capacity * CHUNK / GIB, color="black", linestyle="--", label="budget")
    budget.set(title=f"Case B: an iteration of {_name(case)}, batch 16, with {100 * (1 - MSR):.0f} % of its memory (simulated)", xlabel="ms", ylabel="GiB resident")  # fmt: skip
    for axes in (turns, budget):
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right", fontsize=8)
    return as_text(figure)


def as_text(figure: Figure) -> str:
    """The same text for the same figures, with its words as text."""
    mpl.rcParams.update({"svg.hashsalt": "fikit", "svg.fonttype": "none"})
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _steps(outcome: Outcome) -> tuple[list[float], list[float]]:
    """The most that is there in each of POINTS equal times."""
    step_ns = -(-outcome.total_ns // POINTS)
    there, at = [], 0
    now = outcome.trail[0][1]
    for begin_ns in range(0, outcome.total_ns, step_ns):
        most = now
        while at < len(outcome.trail) and outcome.trail[at][0] < begin_ns + step_ns:
            now = outcome.trail[at][1]
            most = max(most, now)
            at += 1
        there.append(most * CHUNK / GIB)
    return [n * step_ns / 1e6 for n in range(len(there))], there


def _name(case: Case) -> str:
    return case.program.name
