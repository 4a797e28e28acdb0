"""bench frontier: every case judged against every baseline, pairs of one's own, a picture."""

from __future__ import annotations

import statistics
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from fikitd.simulation.simulator import SLICES

from bench import chart, record
from bench.scheduling import bound, frontier, seeds


@pytest.mark.starts_processes
def test_pairs_of_ones_own_are_judged_and_drawn(traces: Path) -> None:
    pairs, picture = traces / "pairs.toml", traces / "out" / "frontier.svg"
    pairs.write_text('A = ["serve", "train"]\n')
    result = frontier.run(emulated=True, traces=traces, pairs=pairs, requests=4, seeds=2, svg=picture)
    cases = result.details["cases"]
    assert [case["case"] for case in cases] == ["A closed", "A open30", "A open70"]
    assert result.values["cases"] == 3
    for case in cases:
        assert case["best_jct"] <= frontier.BOUND
        assert case["jct"] >= 1
        assert 0 < case["harvest"] <= case["bound"]
        assert case["jct"] == pytest.approx(statistics.fmean(run["high_jct_ratio"] for run in case["seeds"]))
        assert case["highest_jct"] == max(run["high_jct_ratio"] for run in case["seeds"])
    for run in result.details["runs"]:
        if run.get("low_share"):
            assert run["idle"] == pytest.approx(run["low_share"] / run["harvest"])
    assert result.values["cases_with_a_policy_above_the_bound"] == 0
    labels = {run["label"] for run in result.details["runs"]}
    assert {"fifo", "prio", "oracle 5%", "budget 1%", "budget 5%", "budget 20%"} <= labels
    of_case = {case["case"]: [run["seed"] for run in case["seeds"]] for case in cases}
    assert of_case == {"A closed": [1], "A open30": [1, 2], "A open70": [1, 2]}
    assert [line.count("|") for line in result.table.splitlines()] == [len(frontier.HEAD) + 1] * (
        4 + len(frontier.baselines(SLICES)) + 2
    )
    assert "(slices of 1024 us, a switch of 50 us)" in result.summary
    assert ET.parse(picture).getroot().tag.endswith("svg")


def _run(label: str, ratio: float, harvest: float) -> dict[str, object]:
    return {
        "label": label, "policy": label.split(maxsplit=1)[0].strip(","), "pair": "A", "arrivals": "closed", "seed": 1, "idle": 0.5,
        "high_jct_ratio": ratio, "high_p99_ratio": ratio, "low_jct_ratio": 1.0, "harvest": harvest,
    }  # fmt: skip


def test_where_nobody_keeps_the_bound_there_is_no_best_to_compare_with() -> None:
    """One slow seed is enough to put the mean of every oracle beyond it."""
    labels = [f"{policy} {budget:.0%}" for policy in ("budget", "oracle") for budget in frontier.BUDGETS]
    rows = [_run(label, 1.2, 0.5) for label in [*labels, *frontier.baselines(SLICES), frontier.BOUNDED]]
    ((name, case),) = frontier._by_case(rows).items()
    judged = frontier._judge(name, case)
    assert (judged["oracle"], judged["best"], judged["best_harvest"]) == (None, None, None)
    assert frontier._values([judged])["cases_above_every_baseline"] == 1
    assert frontier._values([judged])["of_oracle_worst"] == 1.0
    assert "oracle" not in frontier._page({name: case})
    assert frontier._table([judged]).splitlines()[1].split()[6:9] == ["-", "-", "-"]


@pytest.mark.starts_processes
def test_the_policy_is_shown_beside_what_none_could_exceed(traces: Path) -> None:
    result = bound.run(emulated=True, traces=traces, requests=4, seeds=2)
    assert result.values["cases"] == 6
    assert result.values["cases_above_the_bound"] == 0
    for case in result.details["cases"]:
        assert list(case["bounds"].values()) == sorted(case["bounds"].values())
        assert [run["seed"] for run in case["seeds"]] == ([1] if case["case"].endswith("closed") else [1, 2])
        assert case["harvest"] == pytest.approx(statistics.fmean(run["harvest"] for run in case["seeds"]))
    assert "emulated" in result.summary


def test_a_mean_over_seeds_leaves_out_what_is_not_there() -> None:
    rows: list[dict[str, object]] = [
        {"policy": "fifo", "seed": 1, "harvest": 0.5, "low": None, "bounds": {"5%": 1.0}},
        {"policy": "fifo", "seed": 2, "harvest": 1.0, "low": 3.0, "bounds": {"5%": 2.0}},
    ]
    assert seeds.mean(rows) == {"policy": "fifo", "seed": 1, "harvest": 0.75, "low": 3.0, "bounds": {"5%": 1.5}}


@pytest.mark.starts_processes
def test_several_low_jobs_have_no_bound(traces: Path) -> None:
    pairs = traces / "pairs.toml"
    pairs.write_text('A = ["serve", "train", "train"]\n')
    with pytest.raises(record.BenchError, match="A closed: the bound is for one low job"):
        bound.run(emulated=True, traces=traces, pairs=pairs, requests=2, seeds=1)
    result = frontier.run(emulated=True, traces=traces, pairs=pairs, requests=2, seeds=1, svg=traces / "some.svg")
    assert {case["bound"] for case in result.details["cases"]} == {None}


@pytest.mark.parametrize(
    ("text", "what"),
    [("A = 3", "A is no pair"), ('A = ["serve"]', "A is no pair"), ("", "is no pair"), ("A = [", "couldn't read"),
     ('A = ["serve", "nobody"]', "there is no recording nobody; there are serve, train")],
)  # fmt: skip
def test_a_bad_file_of_pairs_is_one_sentence(traces: Path, text: str, what: str) -> None:
    pairs = traces / "pairs.toml"
    pairs.write_text(text)
    with pytest.raises(record.BenchError, match=what):
        frontier.run(emulated=True, traces=traces, pairs=pairs)


def test_it_does_not_run_on_hardware() -> None:
    with pytest.raises(record.BenchError, match="leave --real away"):
        frontier.run(emulated=False)


def test_names_in_a_picture_do_not_cover_each_other() -> None:
    points = [chart.Series(f"policy {n}", [(10.0, 50.0)]) for n in range(3)]
    root = ET.fromstring(chart.scatter("a < b", ("x", "y"), [], points, log_x=True))
    heights = {
        text.get("y")
        for text in root.iter("{http://www.w3.org/2000/svg}text")
        if (text.text or "").startswith("policy")
    }
    assert len(heights) == 3


def test_a_name_at_the_right_edge_is_whole() -> None:
    points = [chart.Series("a policy with a long name", [(10.0, 50.0)])]
    root = ET.fromstring(chart.scatter("title", ("x", "y"), [], points, log_x=True))
    (name,) = (text for text in root.iter("{http://www.w3.org/2000/svg}text") if text.text == points[0].name)
    assert float(name.get("x", "nan")) + 7 * len(points[0].name) <= chart.WIDTH
