"""The policy `budget` in the dispatcher: what the high client's waits teach, and what a client itself may ask for.

With a budget of nothing only what costs nothing may run, so a grant says what is known of the high client: without
knowledge it would take 40 s until its silence is believed to last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher, Rhythm

STEP, FILLER = 1, 2
SEGMENT_NS = 100 * MS  # of the high client's host, from its launch to the end of its wait
LESSONS = 8


@pytest.fixture
def strict() -> Iterator[Dispatcher]:
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=0.0, ageing_ns=None) as running:
        yield running


def meet(running: Dispatcher, **protection: float) -> tuple[FakeClient, FakeClient]:
    """A high client whose steps take 0.1 ms, and a low one whose kernels take 20 ms."""
    high, low = FakeClient(running, 1, 1, **protection), FakeClient(running, 2, 8)
    for client in (high, low):
        client.describe(STEP, "step")
        client.describe(FILLER, "filler")
    running.set_profile(1, [profile_entry("step", MS // 10, 0)])
    running.set_profile(2, [profile_entry("step", MS // 10, 0), profile_entry("filler", 20 * MS, 0)])
    return high, low


def notice(running: Dispatcher, high: FakeClient) -> None:
    """Until the dispatcher has read all that the client reported."""
    running.stats(high.number)  # has the same lock: it is not in the middle of a round
    high.ring()
    assert eventually(lambda: high.read)


def live_through_segments(
    running: Dispatcher, high: FakeClient, among: FakeClient | None = None, lose: bool = False, waited_ns: int = 0
) -> None:
    """Segments of the high client in the last second, one after the other; a kernel of another one in each."""
    time.sleep((LESSONS + 1) * SEGMENT_NS / 1e9)
    began = now() - LESSONS * SEGMENT_NS
    for number in range(LESSONS):
        if among is not None:
            among.launch(STEP, fake.EXPIRED)
            notice(running, among)
        high.launch(STEP, t_ns=began + number * SEGMENT_NS + 1)
        if lose:
            high.page.ring_head += 1  # claimed, and never finished
            high.page.launch_seq += 1
        high.put(fake.DRAINED, waited_ns, high.page.launch_seq, began + (number + 1) * SEGMENT_NS)
        notice(running, high)


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
