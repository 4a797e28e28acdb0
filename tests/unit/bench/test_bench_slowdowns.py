"""`python -m bench slowdowns --fit`: the constants of placement's closed form are those that its pairs give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fikitd.simulation.simulator import SLICES

from bench.cluster.kinds import MEASURED
from bench.scheduling import closed_form, slowdowns


def test_the_constants_of_time_slices_are_what_the_fit_finds() -> None:
    """The errors of the product's form, with its own constants, are the errors of the best constants on the grid."""
    pairs = slowdowns.read(MEASURED["slices"])
    wrong = slowdowns.errors(pairs, SLICES)
    for priorities, found in slowdowns.fitted(pairs).items():
        p50, p90 = np.percentile(wrong[priorities], (50, 90))
        assert (found.error_p50, found.error_p90) == (pytest.approx(p50), pytest.approx(p90)), priorities


def test_constants_that_made_the_slowdowns_are_found() -> None:
    busy = np.linspace(0.05, 0.6, 12)
    high, low = (each.ravel() for each in np.meshgrid(busy, busy))
    unknown = closed_form.ordered(high, low, np.full(len(high), np.inf))
    found = closed_form.fit(
        replace(unknown, simulated=unknown.errors(0.9, 1.5, 0.7))
    )  # of rates of 0 the error is the rate
    assert (found.granted, found.power, found.crossing) == (0.9, 1.5, 0.7)
    assert found.error_p90 == pytest.approx(0, abs=1e-12)
    assert str(found) == "granted 0.9, power 1.5, crossing 0.7: error p50 0.000, p90 0.000"


def test_both_jobs_of_an_equal_pair_count() -> None:
    one, other = np.array([0.2]), np.array([0.7])
    rates = closed_form.equal((one, other), (np.array([1.1]), np.array([1.6])))
    assert rates.busy.tolist() == [0.2, 0.7]
    assert rates.left.tolist() == pytest.approx([0.3, 0.8])
    assert rates.simulated.tolist() == pytest.approx([1 / 1.1, 1 / 1.6])


def test_with_three_jobs_the_form_is_compared_with_each_of_them() -> None:
    rates = slowdowns.placement.Slowdowns(device=slowdowns.placement.Device.SLICES).rates(
        slowdowns.placement.Priorities.EQUAL, [(0.2, -1), (0.5, -1), (0.9, -1)]
    )
    rows = [{"busy": [0.2, 0.5, 0.9], "rates": [rates[0], rates[1] - 0.1, rates[2] + 0.2]}]
    assert slowdowns.errors_of_three(rows, SLICES) == pytest.approx([0, 0.1, 0.2])
