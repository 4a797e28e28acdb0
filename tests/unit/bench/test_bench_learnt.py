"""`python -m bench learnt`: what its jobs do is what pairs say, and what is learnt of them comes near that."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from fikitd.gpus.placement import Priorities, Slowdowns
from fikitd.history.pairs import Pair, learn

from bench.record import BenchError
from bench.scheduling import learnt

BUSY = [0.5, 0.5]


def two_kinds() -> Slowdowns:
    real = Slowdowns(2)
    for a in (0, 1):
        for b in (0, 1):
            real.measured(Priorities.ORDERED, a, b, 1.1, 4.0)
            real.measured(Priorities.EQUAL, a, b, 2.0, 2.0)
    return real


def test_what_is_learnt_is_what_the_jobs_did() -> None:
    stream = learnt.outcomes(0, two_kinds(), BUSY, 0.0, np.random.default_rng(1))
    found = learn(islice(stream, 5000))
    assert len(found) == 12
    for pair, slowdown in found.items():
        assert slowdown == pytest.approx({"above": 1.1, "below": 4.0, "equal": 2.0}[pair.standing], rel=0.1), pair


def test_errors_are_those_of_the_form_until_something_is_learnt() -> None:
    real, form = two_kinds(), Slowdowns()
    before = learnt.errors({}, real, form, BUSY)
    low = form.rates(Priorities.ORDERED, [(0.5, -1), (0.5, -1)])[1]
    assert before["ordered"] == pytest.approx([abs(low - 0.25)] * 4)
    assert len(before["equal"]) == 8
    after = learnt.errors({Pair((0, 1), (0, 0), "below"): 4.0}, real, form, BUSY)
    assert sorted(after["ordered"]) == pytest.approx([0.0, *before["ordered"][1:]])


def test_more_runs_come_nearer() -> None:
    found = learnt.run(emulated=True, runs=[0, 4000], device="mps")
    assert found.values["4000 runs: pairs measured"] > 100
    assert found.values["4000 runs, ordered: error p50"] < found.values["0 runs, ordered: error p50"]
    assert "Simulated" in found.summary
    with pytest.raises(BenchError, match="leave --real away"):
        learnt.run(emulated=False)
