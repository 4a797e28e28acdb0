"""What a larger `max_slowdown` buys: the policy `budget` with several on the simulated pairs, and on a pair like one that was measured on an
H200, beside the most that a policy can harvest there which does not know when the next request comes."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any, Unpack

from fikitd.simulation import simulator
from fikitd.simulation.bound import Bound
from fikitd.simulation.simulator import SLICES, Scenario

from bench import page
from bench.record import BenchError, Result
from bench.scheduling import made_pairs
from bench.scheduling import seeds as several
from bench.scheduling.pairs import Case, Chosen, add_arguments, claim, every_case, on_all_processors
from bench.scheduling.pairs import settings as pair_settings

__all__ = ["ABOUT", "add_arguments", "run"]
ABOUT = "JCT ratio and harvest of the policy `budget` with several max_slowdown, on simulated pairs"
BUDGETS = (0.025, 0.05, 0.10, 0.20)
HIGH, LOW, ARRIVALS = made_pairs.DECODE, made_pairs.BATCH, "open30"
HEAD = (
    "`max_slowdown`", "JCT ratio of H, all pairs", "highest", "runs above 1 + `max_slowdown`", "harvest",
    f"JCT ratio of H, {HIGH.name} + {LOW.name}", "harvest", "at most", "at most, if it knew when requests come",
)  # fmt: skip


def most_unforeseen(slowdown: float, *, response_ns: float, pause_ns: float, switch_ns: float, rest_ns: float) -> float:
    """slices: the most that a policy can harvest which does not know when requests come, where these come at random. docs/measured.md derives it.

    response_ns: of a request alone, on average. pause_ns: of the high job, on average. rest_ns: what is left of a low kernel when a request comes.
    """
    visited = min(1.0, slowdown * response_ns / (switch_ns + rest_ns))
    return visited * math.exp(-switch_ns / pause_ns)


def most_of_made(scenario: Scenario, slowdown: float) -> float:
    """The same, of the made pair with arrivals. Its low kernels are equally long, so half of one is their mean rest."""
    load = simulator.ARRIVALS[scenario.arrivals]
    assert load is not None
    return most_unforeseen(
        slowdown,
        response_ns=statistics.fmean(simulator.high_alone(scenario).responses_ns),
        pause_ns=scenario.high.alone_ns / load,
        switch_ns=scenario.device.switch_ns,
        rest_ns=LOW.kernel_us * 1e3 / 2,
    )


def _with_every_budget(case: Case, scenario: Scenario) -> list[dict[str, Any]]:
    rows = []
    for budget in BUDGETS:
        outcome = case.simulate(replace(scenario, max_slowdown=budget), "budget")
        rows.append(
            {"case": str(case), "seed": case.seed, "max_slowdown": budget, "jct": outcome.high_jct_ratio, "harvest": outcome.harvest}
        )  # fmt: skip
    return rows


def _pair(case: Case) -> list[dict[str, Any]]:
    return _with_every_budget(case, case.scenario())


def _made(case: Case) -> list[dict[str, Any]]:
    scenario = replace(case.scenario(), timing_ns=made_pairs.TIMING_NS)
    known = Bound(scenario)
    return [
        row
        | {"most": most_of_made(scenario, row["max_slowdown"]), "most_known": known.harvest(1 + row["max_slowdown"])}
        for row in _with_every_budget(case, scenario)
    ]


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of one budget over all cases, of each the mean of its seeds, as the frontier's table has them."""
    cases = [several.mean(same) for same in several.by_case(rows, "case")]
    return {
        "jct": statistics.geometric_mean(case["jct"] for case in cases),
        "highest": max(row["jct"] for row in rows),
        "over": sum(row["jct"] > 1 + row["max_slowdown"] for row in rows),
        "harvest": statistics.fmean(min(1.0, case["harvest"]) for case in cases),
    }


def _cells(budget: float, pairs: dict[str, float], made: dict[str, Any]) -> tuple[str, ...]:
    of_pairs = (f"{pairs['jct']:.3f}", f"{pairs['highest']:.3f}", f"{pairs['over']}", f"{pairs['harvest']:.3f}")
    of_made = (f"{made[name]:.3f}" for name in ("jct", "harvest", "most", "most_known"))
    return f"{100 * budget:g} %", *of_pairs, *of_made


def run(**chosen: Unpack[Chosen]) -> Result:
    """Simulate every pair, and the made one with arrivals; raises BenchError."""
    device = chosen.get("device", SLICES)
    if device.overlaps:
        raise BenchError(f"couldn't say what can be harvested on {device}, where no switch is paid: use slices")
    of_pairs = every_case(_pair, **chosen)
    texts = (HIGH.text(), LOW.text())
    cases = [
        Case(f"{HIGH.name} + {LOW.name}", ARRIVALS, (HIGH.name, LOW.name), texts, chosen.get("requests"), seed, device)
        for seed in several.of(ARRIVALS, chosen.get("seeds", several.SEEDS))
    ]
    of_made = on_all_processors(_made, cases)
    values: dict[str, float] = {}
    table = []
    for budget in BUDGETS:
        pairs = _means([row for row in of_pairs if row["max_slowdown"] == budget])
        made = several.mean([row for row in of_made if row["max_slowdown"] == budget])
        table.append(_cells(budget, pairs, made))
        values |= {f"pairs_{name}_{budget:g}": value for name, value in pairs.items()}
        values |= {f"made_{name}_{budget:g}": made[name] for name in ("jct", "harvest", "most", "most_known")}
    lines = ["  ".join(f"{cell:>{len(name)}}" for cell, name in zip(row, HEAD, strict=True)) for row in (HEAD, *table)]
    settings = {"budgets": list(BUDGETS), "made_arrivals": ARRIVALS, **pair_settings(chosen)}
    samples = {name: [row[name] for row in of_pairs] for name in ("jct", "harvest")}
    details = {"runs": of_pairs, "made": of_made}
    summary = "\n".join([claim(chosen), *lines])
    return Result(summary, True, values, samples, settings, details, page.markdown(HEAD, table))
