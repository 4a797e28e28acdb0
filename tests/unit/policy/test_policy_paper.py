"""The paper's rule, and what it leaves open, in manual time. Client 1 is the holder unless said otherwise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from test_policy_gates import MS, US, grants, wake, with_clients

EPSILON = 20 * US
RUN_AHEAD = 500 * US
IDLE_AFTER = 2 * MS
LEASE = 100 * MS


def test_a_kernel_that_fits_the_predicted_gap_is_granted_when_the_holder_ends() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=100 * US, gap_ns=MS)
    assert grants(policy.event("waiting", 2, 10 * US, request=1, duration_ns=900 * US)) == []
    assert grants(policy.event("tick", 0, 100 * US)) == [2]


def test_a_kernel_that_is_longer_than_the_rest_of_the_gap_is_not_granted() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=100 * US, gap_ns=MS)
    assert grants(policy.event("waiting", 2, 300 * US, request=1, duration_ns=900 * US)) == []


def test_the_rest_shrinks_by_each_filler() -> None:
    policy = with_clients("paper", 1, 8, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=MS)
    policy.event("waiting", 2, 10, request=1, duration_ns=600 * US)
    policy.event("waiting", 3, 20, request=1, duration_ns=500 * US)
    assert grants(policy.event("tick", 0, 1000)) == [2]
    assert grants(policy.event("waiting_ended", 3, 1000, request=1)) == []
    assert grants(policy.event("waiting", 3, 1000, request=2, duration_ns=400 * US)) == [3]


def test_the_longest_that_fits_goes_first_but_a_higher_queue_before_it() -> None:
    policy = with_clients("paper", 1, 8, 8, 5)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=MS)
    policy.event("waiting", 2, 10, request=1, duration_ns=100 * US)
    policy.event("waiting", 3, 20, request=1, duration_ns=200 * US)
    policy.event("waiting", 4, 30, request=1, duration_ns=50 * US)
    assert grants(policy.event("tick", 0, 1000)) == [4]  # while it runs, it holds the levels below
    policy.event("launched", 4, 1000, granted=True, request=1, duration_ns=50 * US, gap_ns=MS)
    assert grants(policy.event("tick", 0, 1000 + 50 * US)) == [3, 2]


def test_a_gap_within_min_gap_is_not_filled() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=EPSILON)
    assert grants(policy.event("waiting", 2, 1000, request=1, duration_ns=10)) == []


def test_a_kernel_of_unknown_length_never_fills_a_gap() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=50 * MS)
    assert grants(policy.event("waiting", 2, 1000, request=1)) == []


def test_the_holders_next_launch_stops_filling_early() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=50 * MS)
    policy.event("launched", 1, 2000, duration_ns=10 * MS, gap_ns=0)
    assert grants(policy.event("waiting", 2, 3000, request=1, duration_ns=1000)) == []


def test_the_holder_is_idle_once_its_gap_outlasts_prediction_and_patience() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=MS)
    decisions = policy.event("waiting", 2, 1000 + MS, request=1)
    assert grants(decisions) == []
    assert wake(decisions) == 1000 + MS + IDLE_AFTER
    assert grants(policy.event("tick", 0, 1000 + MS + IDLE_AFTER)) == [2]


def test_without_prediction_the_holder_is_idle_after_patience_alone() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0)
    policy.event("waiting", 2, 10, request=1, duration_ns=5 * MS)
    assert wake(policy.event("drained", 1, MS, duration_ns=0)) == MS + IDLE_AFTER
    assert grants(policy.event("tick", 0, MS + IDLE_AFTER)) == [2]


def test_however_long_the_predicted_gap_silence_holds_for_one_lease() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=3600 * 1000 * MS)
    assert wake(policy.event("waiting", 2, 2000, request=1)) == 1000 + LEASE
    assert grants(policy.event("tick", 0, 1000 + LEASE)) == [2]


def test_run_ahead_bounds_predicted_work_while_the_holder_is_idle() -> None:
    policy = with_clients("paper", 1, 8)
    now = 10 * MS  # nothing was ever launched by 1
    assert grants(policy.event("waiting", 2, now, request=1, duration_ns=300 * US)) == [2]
    assert grants(policy.event("waiting", 2, now, request=2, duration_ns=200 * US)) == [2]
    decisions = policy.event("waiting", 2, now, request=3, duration_ns=300 * US)
    assert grants(decisions) == []
    assert wake(decisions) == now + 300 * US  # 200 us of work left in flight by then
    assert grants(policy.event("tick", 0, now + 300 * US)) == [2]


def test_a_kernel_longer_than_the_run_ahead_runs_alone() -> None:
    policy = with_clients("paper", 1, 8, 8)
    now = 10 * MS
    assert grants(policy.event("waiting", 2, now, request=1, duration_ns=10 * RUN_AHEAD)) == [2]
    assert grants(policy.event("waiting", 3, now, request=1, duration_ns=1000)) == []


def test_one_kernel_of_unknown_length_at_a_time_and_nothing_beside_it() -> None:
    policy = with_clients("paper", 1, 8, 8)
    now = 10 * MS
    assert grants(policy.event("waiting", 2, now, request=1)) == [2]
    assert grants(policy.event("waiting", 3, now + 10, request=1, duration_ns=10)) == []
    assert grants(policy.event("grant_done", 2, now + 20, request=1)) == [3]


def test_equals_of_an_idle_holder_take_turns_whatever_their_lengths() -> None:
    policy = with_clients("paper", 1, 8, 8)
    policy.event("launched", 1, 10 * MS, duration_ns=1000, gap_ns=0)
    policy.event("waiting", 2, 11 * MS, request=1, duration_ns=10 * US)
    policy.event("waiting", 3, 12 * MS, request=1, duration_ns=400 * US)
    assert grants(policy.event("tick", 0, 20 * MS)) == [2, 3]


def test_a_waiting_middle_client_is_not_overtaken_while_the_first_is_idle() -> None:
    policy = with_clients("paper", 1, 5, 8)
    now = 10 * MS
    assert grants(policy.event("waiting", 3, now, request=1, duration_ns=400 * US)) == [3]
    assert grants(policy.event("waiting", 2, now, request=1, duration_ns=400 * US)) == []  # beyond the run-ahead
    assert grants(policy.event("waiting", 3, now, request=2, duration_ns=10 * US)) == []
    assert grants(policy.event("tick", 0, now + 300 * US)) == [2]


def test_the_last_level_fills_a_gap_that_the_middle_one_cannot_use() -> None:
    policy = with_clients("paper", 1, 5, 8)
    policy.event("launched", 1, 10 * MS, duration_ns=1000, gap_ns=MS)
    policy.event("waiting", 2, 10 * MS, request=1, duration_ns=5 * MS)
    policy.event("waiting", 3, 10 * MS, request=1, duration_ns=500 * US)
    assert grants(policy.event("tick", 0, 10 * MS + 1000)) == [3]


def test_a_middle_client_holds_the_last_one_while_it_runs_and_offers_its_gap_afterwards() -> None:
    policy = with_clients("paper", 1, 5, 8)
    now = 10 * MS
    policy.event("waiting", 2, now, request=1, duration_ns=400 * US)
    policy.event("launched", 2, now, granted=True, request=1, duration_ns=400 * US, gap_ns=MS)
    assert grants(policy.event("waiting", 3, now, request=1, duration_ns=900 * US)) == []
    assert grants(policy.event("tick", 0, now + 400 * US)) == [3]


def test_a_holder_behind_a_filler_counts_as_busy_for_that_much_longer() -> None:
    policy = with_clients("paper", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000, gap_ns=MS)
    assert grants(policy.event("waiting", 2, 1000, request=1, duration_ns=800 * US)) == [2]
    policy.event("launched", 1, 100 * US, duration_ns=100 * US, gap_ns=MS)  # early: waits for the filler
    assert wake(policy.event("waiting", 2, 200 * US, request=2, duration_ns=10 * US)) == 801 * US
    assert grants(policy.event("tick", 0, 850 * US)) == []
    assert grants(policy.event("tick", 0, 901 * US)) == [2]


def best_prio_fit(durations: dict[int, int], priorities: dict[int, int], rest: int) -> list[int]:
    """The paper's procedure, for clients with one waiting kernel each; holding by level as in paper.hpp."""
    order = []
    waiting = dict(durations)
    while rest > EPSILON:
        level = min(
            (priorities[c] for c in waiting if waiting[c] <= rest),
            default=None,
        )
        if level is None or any(priorities[c] < level for c in order):
            break
        best = max(
            (c for c in waiting if priorities[c] == level and waiting[c] <= rest), key=lambda c: (waiting[c], -c)
        )
        order.append(best)
        rest -= waiting.pop(best)
    return order


@given(
    st.lists(st.tuples(st.integers(2, 9), st.integers(1, 1500 * US)), min_size=1, max_size=12),
    st.integers(0, 3 * MS),
)
def test_filling_a_gap_is_best_prio_fit(lower: list[tuple[int, int]], gap: int) -> None:
    policy = with_clients("paper", 1, *(priority for priority, _ in lower))
    durations = {number: duration for number, (_, duration) in enumerate(lower, start=2)}
    priorities = {number: priority for number, (priority, _) in enumerate(lower, start=2)}
    policy.event("launched", 1, 1000, duration_ns=MS, gap_ns=gap)
    for number, duration in durations.items():
        policy.event("waiting", number, 1000 + number, request=1, duration_ns=duration)
    granted = grants(policy.event("tick", 0, 1000 + MS))
    assert granted == best_prio_fit(durations, priorities, gap)
    assert sum(durations[c] for c in granted) <= gap
