"""Runs: several short kernels that follow each other are one decision, which a higher client's next launch may end."""

from __future__ import annotations

from typing import Any

from fikitd._core import Policy, Runs
from fikitd.simulation.simulator import TUNING
from hypothesis import given
from hypothesis import strategies as st

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, OTHER = 1, 2, 3
FULL = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}
"""A client begins with all that it can save."""
LONGEST_LAUNCHES, LONGEST_NS = 32, 200 * US
LONG_LAUNCHES, LONG_NS = 256, 1 * MS  # of a long run
LONG_RUN = {"run_launches": 20, "run_ns": 100 * US, "long_run_launches": 90, "long_run_ns": 800 * US}


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def granted(decisions: list[tuple[Any, ...]]) -> list[int]:
    """Launches of each grant."""
    return [decision[3] for decision in decisions if decision[0] == "grant"]


def test_a_run_within_the_slack_is_granted_at_once() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[2 * MS])
    decisions = made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
    assert granted(decisions) == [20]


def at_rest(made: Policy, idle_ns: int, began: int = 1 * MS) -> int:
    """The high client has launched, and waited; it goes on after idle_ns. When that was."""
    made.event("launched", HIGH, began, duration_ns=10 * US)
    now = began + 10 * US
    made.event("drained", HIGH, now, duration_ns=0, idle_ns=[idle_ns])
    return now


def test_a_long_run_is_granted_while_everybody_above_is_at_rest_and_has_enough_budget() -> None:
    for tuning, idle, launches in ((FULL, 500 * US, 90), ({}, 500 * US, 20), ({}, 50 * US, 1)):
        made = policy(tuning=tuning)
        now = at_rest(made, idle)
        assert granted(made.event("waiting", LOW, now, request=1, duration_ns=5 * US, **LONG_RUN)) == [launches]


def test_while_somebody_is_at_work_no_long_run_is_granted() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[5 * MS])  # it would fit
    decisions = made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, **LONG_RUN)
    assert granted(decisions) == [20]


def test_a_run_becomes_a_long_one_when_those_above_come_to_rest() -> None:
    extended = []
    for rests in (False, True):
        made = policy(tuning=FULL)
        made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[9 * MS])
        made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, run_launches=4, run_ns=20 * US)
        if rests:
            made.event("drained", HIGH, 1 * MS + 5 * US, duration_ns=0, idle_ns=[9 * MS])
        decisions = made.event(
            "launched", LOW, 1 * MS + 10 * US, granted=True, request=1, duration_ns=5 * US, **LONG_RUN
        )  # fmt: skip
        extended += [decision[2] for decision in decisions if decision[0] == "extend_run"]
    assert extended == [
        16,
        86,
    ]  # three launches were left of four, and the newest one is the first of those that follow


def test_what_a_run_that_was_ended_has_not_launched_is_taken_back_when_its_client_asks_again() -> None:
    made = policy(tuning=FULL)
    now = at_rest(made, 5 * MS)
    made.event("waiting", LOW, now, request=1, duration_ns=5 * US, **LONG_RUN)
    made.event("launched", LOW, now + 5 * US, granted=True, request=1, duration_ns=5 * US)
    assert made.queue_free_ns >= now + 800 * US
    ended = made.event("launched", HIGH, now + 10 * US, duration_ns=10 * US, slack_ns=[1])
    assert ("end_run", LOW) in ended
    made.event("waiting", LOW, now + 12 * US, request=2, duration_ns=5 * US)
    assert made.queue_free_ns < now + 50 * US
    assert made.index_agrees()


def test_where_only_the_first_kernel_of_a_run_fits_it_goes_alone() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[50 * US])
    decisions = made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
    assert granted(decisions) == [1]


def test_a_run_ends_when_the_high_job_launches_what_cannot_wait() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[2 * MS])
    made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
    made.event("launched", LOW, 1 * MS, granted=True, request=1, duration_ns=5 * US)
    soft = made.event("launched", HIGH, 1 * MS + 10 * US, duration_ns=0, slack_ns=[2 * MS])
    hard = made.event("launched", HIGH, 1 * MS + 20 * US, duration_ns=0, slack_ns=[1])
    assert [("end_run", LOW) in decisions for decisions in (soft, hard)] == [False, True]


def test_a_run_that_was_used_up_does_not_end_again() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[2 * MS])
    made.event("waiting", LOW, 1 * MS, request=1, duration_ns=5 * US, run_launches=2, run_ns=10 * US)
    for _ in range(2):
        made.event("launched", LOW, 1 * MS, granted=True, request=1, duration_ns=5 * US)
    assert ("end_run", LOW) not in made.event("launched", HIGH, 1 * MS + 20 * US, duration_ns=0, slack_ns=[1])


def test_work_of_a_run_in_flight_counts_against_the_bound() -> None:
    made = policy(run_ahead_ns=150 * US)
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[400 * US])
    counts = []
    for request in (1, 2, 3):
        now = 1 * MS + request
        decided = made.event("waiting", LOW, now, request=request, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
        counts += granted(decided)
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=5 * US)
    assert counts == [20, 20]  # 100 us in flight when the second was asked for, 200 us when the third was


def test_a_queue_that_is_half_full_leaves_no_slack() -> None:
    """What delays a host's queue so long that it fills makes the host wait, whatever the slack."""
    made = policy(run_ahead_ns=1 * S)
    now = 1 * MS
    for _ in range(600):  # faster than the device works
        now += 1 * US
        made.event("launched", HIGH, now, duration_ns=20 * US, slack_ns=[1 * S])
    assert granted(made.event("waiting", LOW, now, request=1, duration_ns=100 * US)) == []


def begin_run(made: Policy, request: int = 1) -> None:
    """A run of 20 launches of 5 us, of which the first has been made."""
    now = 1 * MS + request
    decisions = made.event("waiting", LOW, now, request=request, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
    assert granted(decisions) == [20]
    made.event(
        "launched", LOW, now, granted=True, request=request, duration_ns=5 * US, run_launches=20, run_ns=100 * US
    )


def go_on(made: Policy, launches: int, follow: int = 31, first: int = 1) -> list[int]:
    """So many launches more, each at the time at which the device can take it, of a program that makes `follow` after each of
    them. By how many launches the run became longer."""
    extended = []
    for i in range(first, first + launches):
        decisions = made.event(
            "launched", LOW, 1 * MS + i * 5 * US, granted=True, request=1, duration_ns=5 * US,
            run_launches=follow + 1, run_ns=(follow + 1) * 5 * US,
        )  # fmt: skip
        extended += [decision[2] for decision in decisions if decision[0] == "extend_run"]
    return extended


def test_a_run_becomes_longer_while_it_is_under_way() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[1 * S])
    begin_run(made)
    assert go_on(made, 3) == []  # 16 are left: more than half of 31
    assert go_on(made, 1, first=4) == [16]
    assert go_on(made, 15, first=5) == []  # 16 are left again
    assert go_on(made, 1, first=20) == [16]


def test_a_run_does_not_become_longer_where_that_costs_too_much() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[130 * US])
    begin_run(made)
    assert go_on(made, 15) == []


def test_a_run_that_was_ended_does_not_become_longer() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[1 * S])
    begin_run(made)
    assert ("end_run", LOW) in made.event("launched", HIGH, 1 * MS + 2, duration_ns=0, slack_ns=[1])
    made.event("drained", HIGH, 1 * MS + 3, duration_ns=0)
    made.event("launched", HIGH, 1 * MS + 4, duration_ns=0, slack_ns=[1 * S])
    assert go_on(made, 15) == []


def test_a_run_does_not_become_longer_while_one_waits_that_had_less() -> None:
    made = policy()
    made.event("client_added", OTHER, 0, priority=8)
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[20 * MS])
    begin_run(made)
    made.event("waiting", OTHER, 1 * MS + 2, request=1, duration_ns=30 * MS)  # can never go
    assert go_on(made, 15) == []


def test_a_program_has_to_ask_again_now_and_then() -> None:
    """What it has been granted is known by prediction only, until a mark says how far it is."""
    made = policy(run_ahead_ns=100 * US)
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[1 * S])
    begin_run(made)
    launches = 20 + sum(go_on(made, 400))
    assert 400 * US <= launches * 5 * US <= 400 * US + LONGEST_NS


def test_after_a_delay_that_nobody_expected_little_is_in_flight() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[1 * S])
    made.event("waiting", LOW, 1 * MS, request=1, duration_ns=20 * MS)
    made.event("launched", LOW, 1 * MS, granted=True, request=1, duration_ns=20 * MS)
    made.event("drained", HIGH, 5 * MS, duration_ns=0, span_ns=1 * MS)  # its host had waited within, and not said so
    made.event("grant_done", LOW, 21 * MS, request=1)
    made.event("launched", HIGH, 30 * MS, duration_ns=0, slack_ns=[1 * S])
    requests = 0
    while granted(made.event("waiting", LOW, 30 * MS, request=2 + requests, duration_ns=200 * US)):
        made.event("launched", LOW, 30 * MS, granted=True, request=2 + requests, duration_ns=200 * US)
        requests += 1
    assert requests == 3  # with the third there are more than 500 us


def test_a_launch_that_was_not_foreseen_ends_the_run_and_is_reckoned_with() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[400 * US])
    begin_run(made)
    now = 1 * MS + 10 * US
    assert ("end_run", LOW) in made.event("launched", LOW, now, granted=True, request=1, duration_ns=350 * US)
    assert granted(made.event("waiting", LOW, now, request=2, duration_ns=100 * US)) == []


A, B, C, D = 1, 2, 3, 4


def taught(*launches: tuple[int, int], times: int = 3) -> Runs:
    """A client that did this, and waited, and did it again."""
    runs = Runs()
    for _ in range(times):
        for identity, duration in launches:
            runs.launched(identity, duration)
        runs.waited()
    return runs


def test_a_run_goes_to_the_next_wait() -> None:
    runs = taught((A, 5 * US), (B, 10 * US), (C, 20 * US))
    assert runs.starting(A, 5 * US) == (3, 35 * US)


def test_a_run_ends_before_a_long_kernel_and_before_one_of_unknown_length() -> None:
    long = taught((A, 5 * US), (B, 10 * US), (C, 500 * US))
    unknown = taught((A, 5 * US), (B, 10 * US), (C, -1))
    assert long.starting(A, 5 * US) == unknown.starting(A, 5 * US) == (2, 15 * US)


def test_a_long_run_goes_on_behind_a_run() -> None:
    runs = taught((A, 5 * US), (B, 10 * US), (C, 500 * US), (D, 5 * US))
    assert runs.starting(A, 5 * US) == (2, 15 * US)
    assert runs.starting_long(A, 5 * US) == (4, 520 * US)
    assert taught((A, 5 * US), (B, LONG_NS)).starting_long(A, 5 * US) == (1, 5 * US)


def test_a_kernel_longer_than_a_run_may_begin_a_long_one() -> None:
    runs = taught((A, 300 * US), (B, 10 * US))
    assert runs.starting(A, 300 * US) == (1, 300 * US)
    assert runs.starting_long(A, 300 * US) == (2, 310 * US)


def test_long_runs_are_in_no_profile() -> None:
    learnt = taught((A, 300 * US), (B, 10 * US)).learnt()
    later = Runs()
    later.expect(learnt)
    assert later.starting_long(A, 300 * US) == (1, 300 * US)


def test_a_kernel_never_seen_is_a_run_of_itself() -> None:
    assert taught((A, 5 * US), (B, 5 * US)).starting(D, 7 * US) == (1, 7 * US)
    assert Runs().starting(A, -1)[0] == 1


def test_where_programs_went_different_ways_the_shorter_run_counts() -> None:
    runs = Runs()
    for rest in ([B, C, D], [B]):
        for identity in (D, D, D, A, *rest):
            runs.launched(identity, 5 * US)
        runs.waited()
    for _ in range(3):
        runs.launched(D, 5 * US)
    assert runs.starting(A, 5 * US) == (2, 15 * US)  # longer than the last one's 10 us, as it once was


STEP = st.tuples(st.integers(1, 3), st.one_of(st.just(-1), st.integers(0, 400 * US)), st.booleans())


@given(st.lists(STEP, max_size=200))
def test_no_run_exceeds_its_limits(steps: list[tuple[int, int, bool]]) -> None:
    runs = Runs()
    for identity, duration, waits in steps:
        launches, work = runs.starting(identity, duration)
        assert 1 <= launches <= LONGEST_LAUNCHES
        assert duration < 0 or duration <= work <= max(duration, LONGEST_NS)
        long_launches, long_work = runs.starting_long(identity, duration)
        assert launches <= long_launches <= LONG_LAUNCHES
        assert duration < 0 or work <= long_work <= max(duration, LONG_NS)
        runs.launched(identity, duration)
        if waits:
            runs.waited()
