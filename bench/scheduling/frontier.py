"""What each policy costs the high job and gives to the low ones: simulated pairs of recorded timelines on one device; with --svg budgets from
0 to 20 %, too."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from fikitd.simulation import simulator
from fikitd.simulation.bound import Bound
from fikitd.simulation.simulator import SLICES, Device

from bench import page
from bench.chart import Series, scatter
from bench.record import Result
from bench.scheduling import line
from bench.scheduling import seeds as several
from bench.scheduling.pairs import Case, Chosen, claim, every_case
from bench.scheduling.pairs import add_arguments as add_pair_arguments
from bench.scheduling.pairs import settings as pair_settings

ABOUT = "slowdown of the high job against harvest, every policy, on simulated pairs"
BUDGETS = (0.0, 0.01, 0.02, 0.05, 0.10, 0.20)
SMALL = (0.001, 0.002, 0.005)
"""Of `budget` alone: between 0 and 1 % its line bends."""
DEFAULT = 0.05
OF_ORACLE = (0.01, 0.02, DEFAULT)
"""Its rules are those of `budget`, which are not the best use of the truth: of these the one that harvests most within the bound."""
BOUND = 1 + DEFAULT
MAX_DELAY_NS = 200_000
P99_BOUND = 1.15
NEVER = 1000.0
"""Times as long as alone: such a low job had a kernel or two before the high one came."""
BOUNDED = f"budget, delay <= {MAX_DELAY_NS // 1000} us"
SAME = 0.001
"""Harvests that differ by no more are the same."""
CLAIM_IDLE, CLAIM_FASTER = 0.3, 3.4
"""The paper's claim: high jobs that leave so much of the device idle are so many times faster than with default sharing, mostly. Its authors'
default sharing was without MPS."""


def baselines(device: Device) -> tuple[str, ...]:
    """All but our own."""
    return tuple(name for name in simulator.policies_of(device) if name not in ("budget", "oracle"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    add_pair_arguments(parser)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the picture here")


def _case(case: Case, *, sweep: bool) -> list[dict[str, Any]]:
    """Every policy on one pair with one kind of arrivals; sweep: our own with every budget."""
    scenario = case.scenario()
    runs = [(policy, policy, scenario) for policy in baselines(case.device)]
    for policy, budgets in (("budget", (DEFAULT,)), ("oracle", OF_ORACLE)):
        for budget in BUDGETS if sweep else budgets:
            runs.append((f"{policy} {budget:.0%}", policy, replace(scenario, max_slowdown=budget)))
    if sweep:
        runs += [(f"budget {budget:.1%}", "budget", replace(scenario, max_slowdown=budget)) for budget in SMALL]
    bounded = replace(scenario, max_delay_ns=MAX_DELAY_NS)
    runs.append((BOUNDED, "budget", bounded))
    rows = [{"label": label, **asdict(case.simulate(setup, policy))} for label, policy, setup in runs]
    rows += _bounds(scenario, rows)
    same = {"pair": case.pair, "arrivals": case.arrivals, "seed": case.seed, "idle": simulator.idle_alone(scenario)}
    return [same | row for row in rows]


def _bounds(scenario: simulator.Scenario, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bound for every budget; adds to each row that of its own slowdown, where there is one. Nothing for several low jobs."""
    if len(scenario.lows) != 1:
        return []
    bound = Bound(scenario)
    for row in rows:
        if row["high_jct_ratio"] <= 1 + bound.most:
            row["bound"] = bound.harvest(row["high_jct_ratio"])
    return [
        {"label": f"bound {b:.0%}", "policy": "bound", "high_jct_ratio": 1 + b, "harvest": bound.harvest(1 + b)}
        for b in BUDGETS
    ]


def _of_baselines(case: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {label: row for label, row in case.items() if row["policy"] not in ("budget", "oracle", "bound")}


def _below(case: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Baselines above the line through the budgets (`bench.line`), as far as the largest budget goes. Nothing without a sweep."""
    labels = [f"budget {budget:.0%}" for budget in BUDGETS] + [f"budget {budget:.1%}" for budget in SMALL]
    if not all(label in case for label in labels):
        return []
    kept = line.line((case[label]["high_jct_ratio"], case[label]["harvest"]) for label in labels)
    found = []
    for policy, row in _of_baselines(case).items():
        ratio, harvest = row["high_jct_ratio"], row["harvest"]
        mine_there = line.at(kept, ratio)
        if ratio <= 1 + BUDGETS[-1] and harvest > mine_there + SAME:
            found.append({"policy": policy, "jct": ratio, "harvest": harvest, "line": mine_there})
    return found


def _by_case(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Case -> label -> mean over the seeds, the highest JCT and p99 ratio of them beside it, and each seed's own."""
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for same in several.by_case(rows, "pair", "arrivals", "label"):
        row = several.mean(same)
        if row["policy"] != "bound":
            row["highest_jct"] = max(of_seed["high_jct_ratio"] for of_seed in same)
            row["highest_p99"] = max(of_seed["high_p99_ratio"] for of_seed in same)
        row["seeds"] = same
        cases.setdefault(f"{row['pair']} {row['arrivals']}", {})[row["label"]] = row
    return cases


def _above_the_bound(case: dict[str, dict[str, Any]]) -> list[str]:
    """Policies that did, with some seed, what should be impossible."""
    return sorted(
        label
        for label, row in case.items()
        if any(of_seed["harvest"] > of_seed.get("bound", of_seed["harvest"]) for of_seed in row["seeds"])
    )


def _best_within(rows: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Who harvests most of those that keep the bound; None: nobody keeps it."""
    return max(
        (row for row in rows if row["high_jct_ratio"] <= BOUND), key=lambda row: float(row["harvest"]), default=None
    )


def _judge(name: str, case: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One case of the table: the policy, the best baseline within the bound, the oracle; means over the seeds."""
    mine = case[f"budget {DEFAULT:.0%}"]
    oracle = _best_within(row for row in case.values() if row["policy"] == "oracle")
    bounded = case[BOUNDED]
    best = _best_within(_of_baselines(case).values())
    return {
        "case": name, "idle": mine["idle"], "jct": mine["high_jct_ratio"], "highest_jct": mine["highest_jct"], "p99": mine["high_p99_ratio"],
        "harvest": mine["harvest"], "low_jct": mine["low_jct_ratio"],
        "oracle": oracle and oracle["harvest"], "oracle_jct": oracle and oracle["high_jct_ratio"],
        "best": best and best["policy"], "best_jct": best and best["high_jct_ratio"], "best_harvest": best and best["harvest"],
        "fifo_jct": case["fifo"]["high_jct_ratio"], "fifo_low_jct": case["fifo"]["low_jct_ratio"],
        "bound": case[f"bound {DEFAULT:.0%}"]["harvest"] if f"bound {DEFAULT:.0%}" in case else None,
        "above_the_bound": _above_the_bound(case),
        "bounded_p99": bounded["highest_p99"], "bounded_harvest": bounded["harvest"],
        "above_the_line": _below(case),
        "seeds": [{name: row[name] for name in ("seed", "high_jct_ratio", "high_p99_ratio", "harvest")} for row in mine["seeds"]],
    }  # fmt: skip


def _or_dash(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table(cases: list[dict[str, Any]]) -> str:
    width = max(len(case["case"]) for case in cases)
    head = f"{'case':{width}}  {'JCT':>6} {'highest':>7} {'p99':>6} {'harvest':>7} {'oracle':>7} {'bound':>6}  best baseline <= {BOUND:.2f}        {'with max_delay':>16}  {'fifo':>8}"
    lines = [head]
    for c in cases:
        best = f"{c['best'] or '-':>12} {_or_dash(c['best_jct']):>6} {_or_dash(c['best_harvest']):>7}"
        bounded = f"p99 {c['bounded_p99']:5.2f} {c['bounded_harvest']:6.3f}"
        lines.append(
            f"{c['case']:{width}}  {c['jct']:6.3f} {c['highest_jct']:7.3f} {c['p99']:6.2f} {c['harvest']:7.3f} {_or_dash(c['oracle']):>7} {_or_dash(c['bound']):>6}  {best}  "
            f"{bounded}  {c['fifo_jct']:8.2f}"
        )
    return "\n".join(lines)


HEAD = (
    "policy", "JCT ratio of H", "highest", f"runs over {BOUND:.2f}", "p99 ratio of H", "harvest", "JCT ratio of L",
)  # fmt: skip


def _cells(label: str, cases: list[dict[str, Any]]) -> tuple[str, ...]:
    """A line of the page's table, as HEAD has it: means over the cases, geometric ones of ratios; of one policy's row of each."""
    low = [case["low_jct_ratio"] for case in cases if case["low_jct_ratio"] and case["low_jct_ratio"] < NEVER]
    return (
        label,
        f"{statistics.geometric_mean(case['high_jct_ratio'] for case in cases):.3f}",
        f"{max(case['highest_jct'] for case in cases):.3f}",
        f"{sum(row['high_jct_ratio'] > BOUND for case in cases for row in case['seeds'])}",
        f"{statistics.geometric_mean(case['high_p99_ratio'] for case in cases):.2f}",
        f"{statistics.fmean(min(1.0, case['harvest']) for case in cases):.3f}",
        f"{statistics.geometric_mean(low):.2f}" if 2 * len(low) > len(cases) else "-",
    )


def _page(by_case: dict[str, dict[str, dict[str, Any]]]) -> str:
    """A row for each policy, ours first; then the oracle and the bound, where there is one."""
    cases = list(by_case.values())
    labels = [f"budget {DEFAULT:.0%}", BOUNDED, *_of_baselines(cases[0])]
    rows = [_cells(label, [case[label] for case in cases]) for label in labels]
    oracles = [_best_within(row for row in case.values() if row["policy"] == "oracle") for case in cases]
    if all(oracles):
        rows.append(_cells("oracle", [row for row in oracles if row]))
    bounds = [case[f"bound {DEFAULT:.0%}"]["harvest"] for case in cases if f"bound {DEFAULT:.0%}" in case]
    if len(bounds) == len(cases):
        most = statistics.fmean(min(1.0, harvest) for harvest in bounds)
        rows.append((f"bound at {BOUND:.2f}", "", "", "", "", f"{most:.3f}", ""))
    return page.markdown(HEAD, rows)


def _values(cases: list[dict[str, Any]]) -> dict[str, float]:
    of_oracle = [c["harvest"] / c["oracle"] for c in cases if c["oracle"]]
    covered = [c for c in cases if c["idle"] >= CLAIM_IDLE]
    of_bound = [c["harvest"] / c["bound"] for c in cases if c["bound"]]
    return {
        "cases": len(cases),
        "highest_jct_ratio": max(c["highest_jct"] for c in cases),
        "runs_over": sum(row["high_jct_ratio"] > BOUND for c in cases for row in c["seeds"]),
        "mean_jct_ratio": statistics.fmean(c["jct"] for c in cases),
        "mean_harvest": statistics.fmean(min(1.0, c["harvest"]) for c in cases),
        "cases_above_every_baseline": sum(c["best"] is None or c["harvest"] >= c["best_harvest"] for c in cases),
        "of_oracle_median": statistics.median(of_oracle) if of_oracle else 1.0,
        "of_oracle_worst": min(of_oracle, default=1.0),
        "of_bound_median": statistics.median(of_bound) if of_bound else 1.0,
        "of_bound_worst": min(of_bound, default=1.0),
        "cases_with_a_policy_above_the_bound": sum(bool(c["above_the_bound"]) for c in cases),
        "highest_p99_ratio_with_max_delay": max(c["bounded_p99"] for c in cases),
        "cases_with_a_baseline_above_the_line": sum(bool(c["above_the_line"]) for c in cases),
        "cases_of_the_claim": len(covered),
        "cases_of_the_claim_3_4_times_faster_than_fifo": sum(c["fifo_jct"] / c["jct"] > CLAIM_FASTER for c in covered),
        "cases_of_the_claim_that_alone_are_no_3_4_times_faster": sum(c["fifo_jct"] <= CLAIM_FASTER for c in covered),
    }


def _draw(path: Path, by_case: dict[str, dict[str, dict[str, Any]]], device: Device) -> None:
    """Mean slowdown against mean harvest over all cases: a point for a policy, a line through the budgets."""
    labels = list(dict.fromkeys(label for case in by_case.values() for label in case))

    def mean(label: str) -> tuple[float, float]:
        mine = [case[label] for case in by_case.values() if label in case]
        slowdown = statistics.geometric_mean(row["high_jct_ratio"] for row in mine)
        return 100 * (slowdown - 1), 100 * statistics.fmean(min(1.0, row["harvest"]) for row in mine)

    drawn_as_lines = [policy for policy in ("budget", "oracle", "bound") if f"{policy} {DEFAULT:.0%}" in labels]
    lines = [Series(policy, [mean(f"{policy} {budget:.0%}") for budget in BUDGETS]) for policy in drawn_as_lines]
    drawn = {f"{series.name} {budget:.0%}" for series in lines for budget in BUDGETS}
    drawn |= {f"budget {budget:.1%}" for budget in SMALL}
    points = [Series(label, [mean(label)]) for label in labels if label not in drawn]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        scatter(
            f"Simulated ({device}): what sharing costs and gives, mean over all cases",
            ("high job longer than alone, %", "harvest of its idle device time, %"), lines, points, log_x=True,
        )
    )  # fmt: skip


def run(*, svg: Path | None = None, **chosen: Unpack[Chosen]) -> Result:
    """Simulate every pair with every policy; raises BenchError."""
    work = partial(_case, sweep=svg is not None)
    rows = every_case(work, **chosen)
    by_case = _by_case(rows)
    cases = [_judge(name, case) for name, case in by_case.items()]
    values = _values(cases)
    device = chosen.get("device", SLICES)
    if svg is not None:
        _draw(svg, by_case, device)
    totals = "\n".join(f"{name:36} {value:.3f}".rstrip("0").rstrip(".") for name, value in values.items())
    settings = {
        "budgets": list(BUDGETS),
        "small_budgets": list(SMALL),
        "max_delay_ns": MAX_DELAY_NS,
        **pair_settings(chosen),
        "switch_us": device.switch_ns / 1e3,
    }
    summary = f"{claim(chosen)}\n{_table(cases)}\n\n{totals}"
    samples = {"high_jct_ratio": [c["jct"] for c in cases], "harvest": [c["harvest"] for c in cases]}
    details = {"cases": cases, "runs": rows}
    return Result(summary, True, values, samples, settings, details, _page(by_case))
