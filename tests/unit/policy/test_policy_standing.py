"""The policy `budget` in manual time: a client that stands still holds nobody, and its account does not feel the time."""

from __future__ import annotations

import pytest
from decisions import grants
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
LEASE = 100 * MS
LOW_NS = 5 * MS


def policy() -> Policy:
    made = Policy("budget", lease_ns=LEASE)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def works(made: Policy, now: int, until: int) -> int:
    """The high job works in segments of 2 ms, each with 3 ms of host after it; when the last one ended."""
    while now < until:
        made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[1])
        now += 2 * MS
        made.event(
            "drained", HIGH, now, began_ns=now - MS, duration_ns=0, span_ns=2 * MS, slack_ns=[1], idle_ns=[3 * MS]
        )
        now += 3 * MS
    return now


class Lower:
    """A low job that asks for a kernel as soon as the one before has ended."""

    def __init__(self, made: Policy, length: int) -> None:
        self.made, self.length, self.request, self.served = made, length, 0, 0

    def runs(self, now: int, until: int) -> int:
        """Until then at most; when its last kernel ended."""
        self.request += 1
        granted = grants(self.made.event("waiting", LOW, now, request=self.request, duration_ns=self.length))
        while now < until:
            if granted:
                self.served += self.length
                self.made.event("launched", LOW, now, granted=True, request=self.request, duration_ns=self.length)
                now += self.length
                self.made.event("grant_done", LOW, now, request=self.request)
                self.request += 1
                granted = grants(self.made.event("waiting", LOW, now, request=self.request, duration_ns=self.length))
            else:
                now += 100 * US
                granted = grants(self.made.event("tick", 0, now))
        if granted:
            self.made.event("launched", LOW, now, granted=True, request=self.request, duration_ns=self.length)
            now += self.length
            self.made.event("grant_done", LOW, now, request=self.request)
        else:
            self.made.event("waiting_ended", LOW, now, request=self.request)
        return now


def buys(made: Policy, now: int, length: int) -> bool:
    """Would the high job's budget pay a kernel of this length, which delays it by all of that?"""
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    bought = grants(made.event("waiting", LOW, now + 20 * US, request=99_999, duration_ns=length)) == [LOW]
    made.event("waiting_ended", LOW, now + 30 * US, request=99_999)
    return bought


@pytest.mark.parametrize("length", [200 * US, LOW_NS])
@pytest.mark.parametrize("at_work", [True, False])
def test_low_work_runs_beside_a_stopped_high_job_as_alone(length: int, *, at_work: bool) -> None:
    made = policy()
    now = works(made, 0, 800 * MS)
    if at_work:
        made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[1])
    made.event("host_stands", HIGH, now + LEASE, since_ns=now, stands=True)
    lower = Lower(made, length)
    lower.runs(now + LEASE, now + LEASE + 2 * S)
    assert lower.served >= 0.98 * 2 * S


def test_a_job_that_says_nothing_in_the_middle_of_its_work_holds_nobody_beyond_a_lease() -> None:
    """Nobody has seen it stopped: its host hangs, or fikitd may not read its state."""
    made = policy()
    now = works(made, 0, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[1])
    lower = Lower(made, LOW_NS)
    now = lower.runs(now, now + 2 * MS + LEASE)
    lower.served = 0
    lower.runs(now, now + 2 * S)
    assert lower.served >= 0.98 * 2 * S


@pytest.mark.parametrize("affordable", [12 * MS, 35 * MS])
@pytest.mark.parametrize("at_work", [True, False])
def test_a_stopped_job_is_protected_at_once_when_it_goes_on_and_pays_nothing_for_the_time(
    affordable: int, *, at_work: bool
) -> None:
    made, other = policy(), policy()
    now, end = works(made, 0, 800 * MS), works(other, 0, 800 * MS)
    if at_work:
        made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[1])
    made.event("host_stands", HIGH, now + LEASE, since_ns=now, stands=True)
    now = Lower(made, 200 * US).runs(now + LEASE, now + 10 * S)
    made.event("host_stands", HIGH, now, stands=False)
    assert not grants(made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[1]))
    assert not grants(made.event("waiting", LOW, now + 100 * US, request=77_777, duration_ns=40 * MS))
    made.event("waiting_ended", LOW, now + 110 * US, request=77_777)
    now += 2 * MS
    made.event("drained", HIGH, now, began_ns=now - MS, duration_ns=0, span_ns=2 * MS, slack_ns=[1], idle_ns=[3 * MS])
    end = works(other, end, end + MS)
    assert buys(made, now + 3 * MS, affordable) is buys(other, end, affordable) is (affordable == 12 * MS)
