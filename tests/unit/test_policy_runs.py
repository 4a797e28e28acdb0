"""Runs: several short kernels that follow each other are one decision, which a higher client's next launch may end."""

from __future__ import annotations

from typing import Any

from fikitd._core import Policy, Runs
from hypothesis import given
from hypothesis import strategies as st

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
LONGEST_LAUNCHES, LONGEST_NS = 32, 200 * US


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
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[1 * S])
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
        runs.launched(identity, duration)
        if waits:
            runs.waited()
