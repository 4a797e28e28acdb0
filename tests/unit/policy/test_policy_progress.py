"""Dead reckoning corrected by marks, in manual time: when is the holder believed to be dry?"""

from __future__ import annotations

import pytest
from fikitd._core import Policy
from test_policy_gates import MS, US, grants, wake, with_clients

LEASE = 100 * MS
REPORT = 30 * US  # a mark may be seen so long after the end of the work before it


def believed_dry(policy: Policy, now_ns: int) -> int | None:
    """When the holder's work ends as far as the policy believes at now_ns, while a lower client waits."""
    return wake(policy.event("waiting", 2, now_ns, request=1, duration_ns=1000))


def holder(duration_ns: int | None = 10 * MS) -> Policy:
    policy = with_clients("prio", 1, 8)
    policy.event("launched", 1, 0, duration_ns=duration_ns)
    return policy


def test_a_mark_that_was_reached_in_time_confirms_the_reckoning() -> None:
    policy = holder()
    policy.event("drained", 1, 5 * MS, since_ns=3 * MS, duration_ns=6 * MS)  # reckoned: at 4 ms
    assert believed_dry(policy, 5 * MS) == 10 * MS


@pytest.mark.parametrize(
    ("since", "seen", "end"),
    [(1 * MS, 2 * MS, 8 * MS), (5 * MS, 6 * MS, 11 * MS - REPORT)],
    ids=["faster than reckoned", "slower than reckoned"],
)
def test_a_mark_moves_the_end_no_further_than_it_proves(since: int, seen: int, end: int) -> None:
    policy = holder()
    policy.event("drained", 1, seen, since_ns=since, duration_ns=6 * MS)
    assert believed_dry(policy, seen) == end


def test_a_report_that_is_later_than_kernels_vary_is_a_late_report() -> None:
    policy = holder()
    policy.event("drained", 1, 6 * MS, since_ns=5 * MS, duration_ns=6 * MS, spread_ns=900 * US)  # reckoned: at 4 ms
    assert believed_dry(policy, 6 * MS) == 10 * MS
    policy = holder()
    policy.event("drained", 1, 6 * MS, since_ns=5 * MS, duration_ns=6 * MS, spread_ns=1100 * US)
    assert believed_dry(policy, 6 * MS) == 11 * MS - REPORT


def test_what_was_overdue_is_no_reckoning() -> None:
    policy = holder()
    policy.event("running", 1, 12 * MS, duration_ns=0)
    policy.event("launched", 1, 12 * MS, duration_ns=5 * MS)
    policy.event("drained", 1, 12 * MS + US, since_ns=12 * MS, duration_ns=5 * MS, spread_ns=100 * US)
    assert believed_dry(policy, 12 * MS + US) == 15 * MS  # as reckoned at first: 10 ms, and 5 ms more


def test_a_mark_ends_the_doubt_about_unknown_work() -> None:
    policy = holder(None)
    assert believed_dry(policy, MS) == LEASE
    assert grants(policy.event("drained", 1, 2 * MS, since_ns=MS, duration_ns=0)) == [2]


def test_overdue_work_is_expected_later_and_then_less_and_less_often() -> None:
    policy = holder()
    now, looks = 10 * MS, []
    for _ in range(8):
        policy.event("running", 1, now + 30 * US, duration_ns=0)
        expected = believed_dry(policy, now + 30 * US)
        assert expected is not None
        looks.append(expected - now)
        now = expected
    assert looks == sorted(looks)
    assert looks[0] == 40 * US
    assert looks[-1] > 2 * looks[0]


def test_work_that_is_not_late_moves_nothing() -> None:
    policy = holder()
    policy.event("running", 1, 3 * MS, duration_ns=2 * MS)
    assert believed_dry(policy, 3 * MS) == 10 * MS


def test_a_mark_that_never_comes_holds_for_a_lease_at_most() -> None:
    policy = holder()
    now = 10 * MS
    for _ in range(3000):
        now += 100 * US
        policy.event("running", 1, now, duration_ns=0)
    assert grants(policy.event("waiting", 2, now, request=1, duration_ns=1000)) == [2]
    policy.event("drained", 1, now, since_ns=now - US, duration_ns=0)
    policy.event("launched", 1, now, duration_ns=10 * MS)
    policy.event("running", 1, now + 11 * MS, duration_ns=0)  # the patience is new after each mark
    assert (believed_dry(policy, now + 11 * MS) or 0) > now + 11 * MS
