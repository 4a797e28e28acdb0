"""docs/scheduling.md, "One request, with numbers": what its table says is asked and granted."""

from __future__ import annotations

import pytest
from fikitd._core import Policy, mean_before
from fikitd.simulation.simulator import TUNING

US, MS = 1_000, 1_000_000
HIGH, LOW = 1, 2
SLACK = [tenths * 100 * US for tenths in range(2, 10)]
IDLE = [tenths * 100 * US for tenths in range(4, 20, 2)]


def expected_us(times: list[int], until_ns: int) -> float:
    return mean_before(times, 0, until_ns) / US


FULL = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}


def granted(length_ns: int, *, at_rest: bool, full: bool) -> bool:
    """Whether the low kernel goes: at 10 ms, beside the request, or at 11.5 ms, when its wait has ended."""
    made = Policy("budget", tuning=FULL if full else {})
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    made.event("launched", HIGH, 10 * MS, duration_ns=1 * MS, slack_ns=SLACK)
    if at_rest:
        made.event("drained", HIGH, 11_500 * US, duration_ns=0, began_ns=10_400 * US, slack_ns=SLACK, idle_ns=IDLE)
    decisions = made.event("waiting", LOW, (11_500 if at_rest else 10_000) * US, request=1, duration_ns=length_ns)
    return ("grant", LOW, 1, 1) in decisions


def test_what_is_asked_is_what_the_page_says() -> None:
    reaction_ns = round(TUNING["reaction_ns"])
    assert expected_us(SLACK, 200 * US) == pytest.approx(2, abs=0.5)
    assert expected_us(SLACK, 1 * MS) == pytest.approx(450, abs=5)
    assert expected_us(IDLE, 1 * MS + reaction_ns - 300 * US) == pytest.approx(54, abs=0.5)
    assert expected_us(IDLE, 2 * MS + reaction_ns - 300 * US) == pytest.approx(630, abs=5)


def test_the_budget_begins_and_ends_where_the_page_says() -> None:
    begins_ms, holds_ms = 0.05 / TUNING["reserve"] * TUNING["advance_ns"] / MS, 0.05 * TUNING["saved_ns"] / MS
    f = (begins_ms + 0.06) / holds_ms
    assert (round(begins_ms + 0.06, 1), holds_ms, round(f, 2)) == (8.4, 30, 0.28)
    assert TUNING["cheap"] + f / (1 - f**4) == pytest.approx(0.30, abs=0.005)


@pytest.mark.parametrize(
    ("length_ns", "at_rest", "full", "goes"),
    [
        (200 * US, False, False, False),
        (200 * US, False, True, True),
        (1 * MS, False, True, False),
        (1 * MS, True, False, True),
        (2 * MS, True, False, False),
        (2 * MS, True, True, True),
    ],
)
def test_who_goes_is_who_the_page_says(length_ns: int, at_rest: bool, full: bool, goes: bool) -> None:
    assert granted(length_ns, at_rest=at_rest, full=full) == goes
