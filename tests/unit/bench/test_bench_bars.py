"""`python -m bench cluster --bars`: which bars there are, when one holds, what is printed of one that does not."""

from __future__ import annotations

import pytest
from fikitd.gpus.placement import Priorities

from bench import cluster
from bench.cluster import bars, kinds, traces
from bench.cluster.bars import Bar, Figures
from bench.cluster.policies import Lived, Policy, Workload, live

FOUND = Figures(
    {"sjf": 100.0, "sjf-bsbf": 80.0, "spread": 60.0, "auto": 50.0, "order": 50.0, "pair": 45.0, "pair-agent": 49.0},
    {"sjf": 1.0, "sjf-bsbf": 1.0, "spread": 10.0, "order": 10.0, "pair": 12.0, "pair-agent": 10.0},
)


@pytest.mark.parametrize(
    ("value", "most", "holds"), [(0.25, False, True), (0.24, False, False), (0.25, True, True), (0.26, True, False)]
)
def test_a_bar_holds_from_its_value_on(value: float, most: bool, holds: bool) -> None:
    assert Bar("x", "slices", "philly", 32, 0.8, value, 0.25, most).holds is holds


def test_what_is_claimed_of_philly() -> None:
    found = {bar.claim: (round(bar.value, 3), bar.holds) for bar in bars.of_philly(FOUND, "slices", 32, 0.8)}
    assert found == {
        "order: mean JCT below spread's by": (0.167, False),
        "order: p99 JCT / that of spread, first come first served": (1.0, True),
        "pair: p99 JCT / that of spread, first come first served": (1.2, False),
        "pair: mean JCT below order's by": (0.1, True),
        "pair: mean JCT below SJF-BSBF's (equal sharing) by": (0.438, True),
        "pair: mean JCT below that of exclusive GPUs, shortest first, by": (0.55, True),
        "pair-agent: p99 JCT / that of spread, first come first served": (1.0, True),
        "pair-agent: mean JCT below order's by": (0.02, False),
        "pair-agent: mean JCT below SJF-BSBF's (equal sharing) by": (0.387, True),
        "pair-agent: mean JCT below that of exclusive GPUs, shortest first, by": (0.51, True),
    }


def test_order_against_spread_is_judged_where_two_fill_a_gpu() -> None:
    judged = [bar.claim for bar in bars.of_philly(FOUND, "slices", 14, 0.8) if "spread's" in bar.claim]
    assert judged == ["auto: mean JCT below spread's by"], "which is a node's, and needs no third job"


def test_one_per_cent_worse_than_spread_is_too_much_and_two_of_auto() -> None:
    worse = Figures({"spread": 100.0, "auto": 102.0, "order": 101.0, "pair": 101.1, "pair-agent": 100.0}, {})
    assert [bar.holds for bar in bars.not_worse(worse, "mps", "muri1", 14, None)] == [True, True, False, True]
    worse = Figures({"spread": 100.0, "auto": 102.1, "order": 100.0, "pair": 100.0, "pair-agent": 100.0}, {})
    assert [bar.holds for bar in bars.not_worse(worse, "mps", "muri1", 14, None)] == [False, True, True, True]


def test_a_bar_that_fails_is_seen() -> None:
    shown = bars.result(list(bars.of_philly(FOUND, "slices", 32, 0.8)), 4)
    assert shown.summary.splitlines()[0] == "Simulated, no claim about hardware: 7 of 10 bars hold; sigma 1, 4 seeds"
    assert sum(line.strip().startswith("fails") for line in shown.summary.splitlines()) == 3
    assert "| `slices` order: mean JCT below spread's by | at least 25 % | - | - | **16.67 %** | - |" in shown.table
    assert [bar["holds"] for bar in shown.details["bars"]].count(False) == 3


def test_a_page_shows_the_worst_of_the_other_traces() -> None:
    pair = [
        Bar("pair: mean JCT / spread's", "mps", trace, 14, None, value, 1.01, most=True)
        for trace, value in (("a", 1.2), ("b", 0.9))
    ]
    line = bars.result(pair, 4).table.splitlines()[-1]
    assert line.split(" | ")[1:] == ["at most 1.01", "**1.200**", "**1.200**", "-", "- |"], line


def test_figures_are_of_all_seeds() -> None:
    made_up = traces.made_up(5000, seed=1)
    one, two = (bars.figures(made_up, kinds.closed(), ("spread",), gib=14, load=0.8, gpus=8, seeds=n) for n in (1, 2))
    assert one.mean_s != two.mean_s


def test_every_trace_is_drawn_as_often_as_seeds_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its jobs do to a GPU is drawn, also where the trace is taken whole."""
    drawn: dict[str, set[int]] = {}

    def figures(source: str, *_: object, seeds: int, **__: object) -> Figures:
        drawn.setdefault(source, set()).add(seeds)
        return FOUND

    monkeypatch.setattr(bars, "figures", figures)
    assert list(bars.all_of(lambda name: kinds.closed(), lambda name: name, {"muri1": 64}, 3, True))  # type: ignore[arg-type, return-value]
    assert drawn == {"philly": {3}, "made-up": {3}, "muri1": {3}}


@pytest.mark.parametrize("know_pairs", [False, True])
def test_the_rules_know_the_pairs_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, know_pairs: bool) -> None:
    works: list[Workload] = []

    def lived(work: Workload, policy: Policy, most: int | None) -> Lived:
        works.append(work)
        return live(work, policy, most)

    monkeypatch.setattr(cluster, "_lived", lived)
    cluster.run(
        emulated=True, trace="made-up", kinds="mps", policies=["auto"], memory=[14], loads=[1.0], seeds=1, jobs=50, know_pairs=know_pairs
    )  # fmt: skip
    pairs = [[(0.5, i), (0.5, j)] for i in range(11) for j in range(11)]
    real, believed = (
        [each.rates(Priorities.ORDERED, pair) for pair in pairs] for each in (works[0].real, works[0].believed)
    )
    assert (real == believed) is know_pairs
