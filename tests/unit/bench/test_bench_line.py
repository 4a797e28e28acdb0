"""The line through a policy's points: who is below it, and who is not."""

from __future__ import annotations

import pytest

from bench.scheduling import line

POINTS = [(1.02, 0.5), (1.01, 0.3), (1.05, 0.4), (1.10, 0.9)]


def test_a_point_that_costs_more_and_gives_less_is_not_on_the_line() -> None:
    assert line.line(POINTS) == [(1.0, 0.0), (1.01, 0.3), (1.02, 0.5), (1.10, 0.9)]


@pytest.mark.parametrize(
    ("ratio", "harvest"),
    [(0.99, 0.0), (1.0, 0.0), (1.005, 0.15), (1.01, 0.3), (1.015, 0.4), (1.06, 0.7), (1.10, 0.9), (1.5, 0.9)],
)
def test_between_two_points_the_line_is_straight(ratio: float, harvest: float) -> None:
    assert line.at(line.line(POINTS), ratio) == pytest.approx(harvest)


def test_a_job_that_is_faster_than_alone_counts_as_undisturbed() -> None:
    assert line.at(line.line([(0.999, 0.2)]), 1.0) == pytest.approx(0.2)
