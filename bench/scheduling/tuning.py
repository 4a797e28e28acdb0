"""Is the policy `budget` on a knife's edge? Each of its constants halved and doubled, and a dispatcher without a core of its
own, on all pairs of recordings."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any, Unpack

from fikitd.simulation import simulator

from bench import page
from bench.record import Result
from bench.scheduling import seeds as several
from bench.scheduling.frontier import BOUND
from bench.scheduling.pairs import Case, Chosen, add_arguments, claim, every_case
from bench.scheduling.pairs import settings as pair_settings

__all__ = ["ABOUT", "add_arguments", "run"]
ABOUT = "slowdown and harvest of the policy `budget` with each of its constants halved and doubled"
FACTORS = (0.5, 2.0)
HEAD = ("constant", "mean JCT ratio", "highest", f"runs over {BOUND:.2f}", "mean harvest")


# Where two hosts and the dispatcher share two cores: means of `pairs --live --policy prio`, recordings as fast as they are.
SHARED_CORES = simulator.Costs(observe_ns=22_000, wake_ns=22_000, done_ns=45_000, late_ns=13_000)


def variants() -> dict[str, dict[str, Any]]:
    """Label -> what of a scenario differs."""
    changed = {
        f"{name} x {factor:g}": {"tuning": {name: value * factor}}
        for name, value in simulator.TUNING.items()
        for factor in FACTORS
        if name != "highest_load" or value * factor < 1
    }
    return {"as it is": {}, **changed, "reacts on shared cores": {"costs": SHARED_CORES}}


def _case(case: Case) -> list[dict[str, Any]]:
    rows = []
    for label, changes in variants().items():
        outcome = case.simulate(replace(case.scenario(), **changes), "budget")
        rows.append(
            {
                "case": str(case), "seed": case.seed, "label": label, "jct": outcome.high_jct_ratio,
                "harvest": outcome.harvest,
            }
        )  # fmt: skip
    return rows


def _judge(label: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one variant: a case counts once, whatever its seeds; the highest slowdown is that of all of them."""
    cases = [several.mean(same) for same in several.by_case(rows, "case")]
    return {
        "label": label,
        "highest_jct": max(row["jct"] for row in rows),
        "mean_jct": statistics.fmean(case["jct"] for case in cases),
        "over": sum(row["jct"] > BOUND for row in rows),
        "mean_harvest": statistics.fmean(case["harvest"] for case in cases),
    }


def run(**chosen: Unpack[Chosen]) -> Result:
    """Simulate every pair with every variant; raises BenchError."""
    rows = every_case(_case, **chosen)
    table = [_judge(label, [row for row in rows if row["label"] == label]) for label in variants()]
    cells = [
        (row["label"], f"{row['mean_jct']:.3f}", f"{row['highest_jct']:.3f}", f"{row['over']}", f"{row['mean_harvest']:.3f}")
        for row in table
    ]  # fmt: skip
    width = max(len(row["label"]) for row in table)
    lines = [
        f"{name:{width}}  " + "  ".join(f"{cell:>{len(of)}}" for cell, of in zip(rest, HEAD[1:], strict=True))
        for name, *rest in (HEAD, *cells)
    ]
    summary = "\n".join([claim(chosen), *lines])
    values = {
        "cases": len({row["case"] for row in rows}),
        "highest_jct_ratio": max(row["highest_jct"] for row in table),
    }
    settings = {"factors": list(FACTORS), **pair_settings(chosen)}
    samples = {"mean_harvest": [row["mean_harvest"] for row in table]}
    details = {"table": table, "runs": rows}
    return Result(summary, True, values, samples, settings, details, page.markdown(HEAD, cells))
