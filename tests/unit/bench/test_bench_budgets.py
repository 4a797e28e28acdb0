"""bench budgets: what a larger max_slowdown buys, and the most that can be had by who does not know when requests come."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fikitd.simulation.simulator import MPS

from bench import record
from bench.scheduling import budgets

ROUND = {"response_ns": 2e6, "pause_ns": 4e6, "switch_ns": 150e3, "rest_ns": 50e3}


def test_a_slowdown_pays_for_so_many_pauses_and_each_has_a_switch() -> None:
    """5 % of 2 ms are 0.1 ms a request; a pause in which low work ran costs the next one 0.2 ms: every second pause."""
    assert budgets.most_unforeseen(0.05, **ROUND) == pytest.approx(0.5 * math.exp(-0.15 / 4))
    assert budgets.most_unforeseen(0.0, **ROUND) == 0
    assert budgets.most_unforeseen(3.0, **ROUND) == budgets.most_unforeseen(0.1, **ROUND) == math.exp(-0.15 / 4)


def test_the_page_has_the_bounds_of_the_measured_pair() -> None:
    """By the figures that the page itself derives them from."""
    text = (record.ROOT / "docs" / "measured.md").read_text()
    for slowdown in (0.05, 0.032):
        most = [
            budgets.most_unforeseen(slowdown, response_ns=2.03e6, pause_ns=1.64e6 / 0.3, switch_ns=us * 1e3, rest_ns=77e3)
            for us in (225, 162)
        ]  # fmt: skip
        assert "{:.2f} to {:.2f}".format(*most).replace("0.", ".") in text


@pytest.mark.starts_processes
def test_every_budget_has_a_row(traces: Path) -> None:
    result = budgets.run(emulated=True, traces=traces, requests=3, seeds=2)
    head, _, *rows = result.table.splitlines()
    assert [row.split(" | ")[0] for row in rows] == ["| 2.5 %", "| 5 %", "| 10 %", "| 20 %"]
    assert {row.count("|") for row in (head, *rows)} == {len(budgets.HEAD) + 1}
    assert {row["case"] for row in result.details["made"]} == {"decode + batch open30"}
    assert result.values["made_most_0.025"] < result.values["made_most_0.1"] <= result.values["made_most_known_0.1"]


def test_means_are_over_cases_and_each_run_that_is_longer_than_its_budget_counts() -> None:
    runs = [("a", 1, 1.0, 0.2), ("a", 2, 1.2, 0.4), ("b", 1, 1.05, 3.0)]
    rows = [
        {"case": case, "seed": seed, "max_slowdown": 0.05, "jct": jct, "harvest": harvest}
        for case, seed, jct, harvest in runs
    ]
    assert budgets._means(rows) == {
        "jct": pytest.approx(math.sqrt(1.1 * 1.05)), "highest": 1.2, "over": 1, "harvest": pytest.approx((0.3 + 1) / 2)
    }  # fmt: skip


def test_it_is_about_slices_and_does_not_run_on_hardware() -> None:
    with pytest.raises(record.BenchError, match="use slices"):
        budgets.run(emulated=True, device=MPS)
    with pytest.raises(record.BenchError, match="leave --real away"):
        budgets.run(emulated=False)
