"""How much of what any policy could harvest `budget` does: the upper bound of every simulated pair, and the policy beside it."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from typing import Any, Unpack

from fikitd.simulation import simulator
from fikitd.simulation.bound import Bound

from bench import page
from bench.record import BenchError, Result
from bench.scheduling import seeds as several
from bench.scheduling.frontier import BUDGETS, DEFAULT
from bench.scheduling.pairs import Case, Chosen, claim, every_case
from bench.scheduling.pairs import add_arguments as add_pair_arguments
from bench.scheduling.pairs import settings as pair_settings

ABOUT = "the most that any policy could harvest at a slowdown, and what `budget` does, on simulated pairs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    add_pair_arguments(parser)


def _case(case: Case) -> list[dict[str, Any]]:
    scenario = case.scenario()
    try:
        bound = Bound(scenario)
        bounds = {f"{budget:.0%}": bound.harvest(1 + budget) for budget in BUDGETS}
        outcome = case.simulate(scenario, "budget")
        own = bound.harvest(min(outcome.high_jct_ratio, 1 + bound.most))
    except simulator.SimulatorError as error:
        raise BenchError(f"{case}: {error}") from error
    return [
        {
            "case": str(case), "seed": case.seed, "jct": outcome.high_jct_ratio, "harvest": outcome.harvest,
            "bounds": bounds, "above": outcome.harvest > own,
        }
    ]  # fmt: skip


def _judge(same: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One case of the table: means over its seeds."""
    row = several.mean(same)
    most = row["bounds"][f"{DEFAULT:.0%}"]
    return row | {
        "of_bound": row["harvest"] / most if most else 1.0,
        "above": any(of_seed["above"] for of_seed in same),
        "seeds": same,
    }


def _line(row: dict[str, Any], width: int) -> str:
    bounds = " ".join(f"{row['bounds'][f'{budget:.0%}']:6.3f}" for budget in BUDGETS)
    return f"{row['case']:{width}}  {bounds}  {row['jct']:6.3f} {row['harvest']:7.3f} {row['of_bound']:6.2f}"


HEAD = (
    "case",
    *(f"{b:.0%}".replace("%", " %") for b in BUDGETS[1:]),
    "`budget`: JCT ratio",
    "harvest",
    f"of the bound at {DEFAULT:.0%}",
)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    bounds = (f"{row['bounds'][f'{budget:.0%}']:.2f}" for budget in BUDGETS[1:])
    return row["case"], *bounds, f"{row['jct']:.3f}", f"{row['harvest']:.2f}", f"{row['of_bound']:.2f}"


def run(**chosen: Unpack[Chosen]) -> Result:
    """Simulate every pair; raises BenchError."""
    runs = every_case(_case, **chosen)
    rows = [_judge(same) for same in several.by_case(runs, "case")]
    width = max(len(row["case"]) for row in rows)
    head = f"{'bound at':{width}}  " + " ".join(f"{budget:6.0%}" for budget in BUDGETS) + "     JCT harvest  share"
    values = {
        "cases": len(rows),
        "of_bound_median": statistics.median(row["of_bound"] for row in rows),
        "of_bound_worst": min(row["of_bound"] for row in rows),
        "cases_from_95_percent": sum(row["of_bound"] >= 0.95 for row in rows),
        "cases_from_85_percent": sum(row["of_bound"] >= 0.85 for row in rows),
        "cases_above_the_bound": sum(row["above"] for row in rows),
    }
    totals = "\n".join(f"{name:24} {value:.3f}".rstrip("0").rstrip(".") for name, value in values.items())
    summary = "\n".join([claim(chosen), head, *(_line(row, width) for row in rows), "", totals])
    samples = {"of_bound": [float(row["of_bound"]) for row in rows]}
    settings = {"budgets": list(BUDGETS), **pair_settings(chosen)}
    return Result(summary, True, values, samples, settings, {"cases": rows}, page.markdown(HEAD, map(_cells, rows)))
