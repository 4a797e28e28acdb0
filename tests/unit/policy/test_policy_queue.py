"""When the device is done with all clients' work, in manual time: in whatever order it serves it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fikitd._core import Policy
from fikitd.simulation.simulator import TUNING
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, OTHER, LOW = 1, 2, 3
FULL = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}
"""A client begins with a full budget."""


def equals() -> Policy:
    """Two clients that nobody outranks."""
    made = Policy("budget")
    for client in (HIGH, OTHER):
        made.event("client_added", client, 0, priority=1)
    return made


def below() -> Policy:
    """A high client that has slack for everything, and a low one."""
    made = Policy("budget", run_ahead_ns=1 * S, tuning=FULL)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=2 * MS, slack_ns=[1 * S])
    return made


def grant(made: Policy, now: int, request: int, length: int) -> None:
    assert ("grant", LOW, request, 1) in made.event("waiting", LOW, now, request=request, duration_ns=length)
    made.event("launched", LOW, now, granted=True, request=request, duration_ns=length)


def test_works_of_all_clients_follow_each_other() -> None:
    made = equals()
    made.event("launched", HIGH, 1 * MS, duration_ns=4 * MS)
    made.event("launched", OTHER, 2 * MS, duration_ns=3 * MS)
    assert made.queue_free_ns == 8 * MS
    made.event("launched", HIGH, 9 * MS, duration_ns=1 * MS)
    assert made.queue_free_ns == 10 * MS


def test_who_waited_for_all_its_work_says_nothing_of_others_that_came_before() -> None:
    """Its kernel was the second, in another stream, and the first one went later."""
    made = equals()
    made.event("launched", OTHER, 0, duration_ns=6 * MS)
    made.event("launched", HIGH, 0, duration_ns=2 * MS)
    made.event("drained", HIGH, 2 * MS, duration_ns=0)
    assert made.queue_free_ns == 8 * MS


def test_what_is_known_to_be_complete_does_not_stand_in_line() -> None:
    made = equals()
    made.event("launched", HIGH, 0, duration_ns=6 * MS)
    made.event("launched", OTHER, 0, duration_ns=2 * MS)
    made.event("drained", HIGH, 3 * MS, duration_ns=0)  # sooner than was reckoned
    assert made.queue_free_ns == 5 * MS
    made.event("drained", OTHER, 4 * MS, duration_ns=0)
    assert made.queue_free_ns == 4 * MS


def test_a_mark_leaves_what_comes_behind_it_with_the_time_between_kernels() -> None:
    made = equals()
    for _ in range(10):
        made.event("launched", HIGH, 0, duration_ns=100 * US, in_line_ns=10 * US)
    assert made.queue_free_ns == 1100 * US
    made.event("drained", HIGH, 300 * US, duration_ns=500 * US)
    assert made.queue_free_ns == 850 * US


def test_a_grant_that_is_complete_takes_its_work_away_and_no_more() -> None:
    made = below()
    grant(made, 0, 1, 3 * MS)
    grant(made, 0, 2, 1 * MS)
    assert made.queue_free_ns == 6 * MS
    made.event("grant_done", LOW, 1 * MS, request=1)
    assert made.queue_free_ns == 4 * MS


def test_a_mark_does_not_make_forget_lower_work_that_stands_before_what_is_left() -> None:
    """3 ms of the low client and 4 ms of the high one are left, which has slack for 3.5 ms."""
    for length, expected in ((1 * MS, []), (400 * US, [("grant", LOW, 2, 1)])):
        made = Policy("budget", run_ahead_ns=1 * S, tuning=FULL)
        made.event("client_added", HIGH, 0, priority=1)
        made.event("client_added", LOW, 0, priority=8)
        made.event("launched", HIGH, 0, duration_ns=0, slack_ns=[1 * S])
        grant(made, 0, 1, 3 * MS)
        made.event("launched", HIGH, 0, duration_ns=4 * MS, slack_ns=[3500 * US])
        made.event("drained", HIGH, 100 * US, duration_ns=4 * MS)
        asked = made.event("waiting", LOW, 100 * US, request=2, duration_ns=length)
        assert [decision for decision in asked if decision[0] == "grant"] == expected


def test_work_of_a_client_that_is_gone_does_not_stand_in_line() -> None:
    made = below()
    grant(made, 0, 1, 3 * MS)
    made.event("client_removed", LOW, 1 * MS)
    assert made.queue_free_ns == 3 * MS


def test_what_a_run_launches_beyond_what_was_granted_is_in_line() -> None:
    made = below()
    made.event("waiting", LOW, 0, request=1, duration_ns=10 * US, run_launches=2, run_ns=20 * US)
    assert made.queue_free_ns == 2020 * US
    made.event("launched", LOW, 0, granted=True, request=1, duration_ns=50 * US)
    assert made.queue_free_ns == 2050 * US


def test_work_of_a_client_that_is_measured_is_not_in_line() -> None:
    made = Policy("budget")
    made.event("client_added", HIGH, 0, measuring=True)
    made.event("launched", HIGH, 0, duration_ns=5 * MS)
    assert made.queue_free_ns == 0


LAUNCHES = st.lists(
    st.tuples(st.sampled_from([HIGH, OTHER]), st.integers(0, 2 * MS), st.integers(1, 3 * MS)), min_size=1, max_size=40
)


def served(launches: Sequence[tuple[int, int, int]], first: int) -> dict[int, list[tuple[int, int]]]:
    """When each client has launched and was served, by a device that cuts the other's kernel off for those of `first`."""
    left = {HIGH: 0, OTHER: 0}
    waits: dict[int, list[tuple[int, int]]] = {HIGH: [], OTHER: []}
    for (_, now, _), (client, then, length) in pairwise([(0, 0, 0), *launches, (0, 10**15, 0)]):
        time = then - now
        for who in (first, HIGH + OTHER - first):
            done = min(time, left[who])
            if left[who] and done == left[who]:
                waits[who].append((now, now + (then - now - time) + done))
            left[who] -= done
            time -= done
        if client:
            left[client] += length
    return waits


@settings(max_examples=examples(150))
@given(LAUNCHES, st.sampled_from([HIGH, OTHER]))
def test_whoever_goes_first_the_device_is_done_when_its_work_is(gaps: list[tuple[int, int, int]], first: int) -> None:
    """With lengths that are what was predicted, and each client's waits told when they are over."""
    launches, now = [], 0
    for client, gap, length in gaps:
        now += gap
        launches.append((client, now, length))
    made, free = equals(), 0
    told = [(done, who) for who, waits in served(launches, first).items() for _, done in waits]
    happens = [(now, 1, client, length) for client, now, length in launches] + [(done, 0, who, 0) for done, who in told]
    for now, launched, client, length in sorted(happens):
        if launched:
            free = max(free, now) + length
            made.event("launched", client, now, duration_ns=length)
        else:
            made.event("drained", client, now, duration_ns=0)
        assert made.queue_free_ns == free
