"""The policy `budget` in the dispatcher: what the high client's waits teach, and what a client itself may ask for.

With a budget of nothing only what costs nothing may run, so a grant says what is known of the high client: without
knowledge it would take 40 s until its silence is believed to last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, now
from fikitd._core import Dispatcher, Rhythm
from host_segments import FILLER, LESSONS, SEGMENT_NS, STEP, live_through_segments, meet, notice


@pytest.fixture
def strict() -> Iterator[Dispatcher]:
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=0.0, starvation_timeout_ns=None) as running:
        yield running


def test_lower_work_runs_inside_a_request_where_its_host_is_known_to_be_late(strict: Dispatcher) -> None:
    high, low = meet(strict)
    live_through_segments(strict, high)
    high.launch(STEP)
    request = low.ask(FILLER)
    assert eventually(lambda: low.granted(request), 10.0)


def test_segments_with_others_work_teach_nothing_about_the_client_alone(strict: Dispatcher) -> None:
    high, low = meet(strict)
    live_through_segments(strict, high, among=low)
    high.launch(STEP)
    request = low.ask(FILLER)
    time.sleep(0.05)  # no condition to wait for: it must NOT happen
    assert not low.granted(request)


def test_segments_of_which_reports_were_lost_teach_nothing(strict: Dispatcher) -> None:
    high, low = meet(strict)
    live_through_segments(strict, high, lose=True)
    high.launch(STEP)
    request = low.ask(FILLER)
    time.sleep(0.05)
    assert not low.granted(request)


def test_what_its_profile_says_holds_from_before_its_first_launch_on(strict: Dispatcher) -> None:
    """Whatever it launches first: 80 ms of lower work are less than the slack of any of its segments."""
    learner = Rhythm()
    for number in range(LESSONS):
        learner.launched(number * 2 * SEGMENT_NS, 1, MS)
        learner.waited(number * 2 * SEGMENT_NS + SEGMENT_NS, True)
    high, low = meet(strict)
    request = low.ask(FILLER)
    time.sleep(0.05)
    assert not low.granted(request)
    strict.set_profile(high.number, [], learner.learnt())
    assert eventually(lambda: low.granted(request), 10.0)


def test_a_client_may_ask_for_less_protection_than_the_site_gives(strict: Dispatcher) -> None:
    high, low = meet(strict, max_slowdown=1.0)
    time.sleep(0.2)
    high.launch(STEP, t_ns=now() - 100 * MS)
    high.drained()  # by its progress it has earned a delay of 100 ms
    notice(strict, high)
    request = low.ask(FILLER)
    assert eventually(lambda: low.granted(request), 10.0)


def test_a_client_may_bound_its_longest_delay(strict: Dispatcher) -> None:
    high, low = meet(strict, max_slowdown=1.0, max_delay_ns=MS)
    time.sleep(0.2)
    high.launch(STEP, t_ns=now() - 100 * MS)
    high.drained()
    notice(strict, high)
    request = low.ask(FILLER)
    time.sleep(0.05)
    assert not low.granted(request), "its next launch may come at any moment, and would wait for 20 ms"
    request = low.ask(STEP)
    assert eventually(lambda: low.granted(request), 10.0)


@pytest.mark.parametrize("wrong", [{"max_slowdown": -0.1}, {"max_slowdown": 1.5}, {"max_delay_ns": -1}])
def test_protection_that_cannot_be_is_refused(strict: Dispatcher, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="max_"):
        FakeClient(strict, 1, 1, **wrong)
    with pytest.raises(ValueError, match="max_"):
        Dispatcher("budget", LONG_LEASE, 0, 0, 0, 0, **wrong)
