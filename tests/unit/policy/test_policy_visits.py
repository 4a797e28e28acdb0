"""The policy `budget` in slices: what a visit to the higher client's device costs once is charged once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from claims import protects_and_feeds
from decisions import grants
from fikitd._core import Policy
from fikitd.simulation.simulator import TUNING, Scenario, named, parse

from bench.scheduling.made_pairs import BATCH, DECODE, Program

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
SWITCH = 100 * US


@pytest.mark.parametrize(("switch_us", "harvest"), [(None, 0.12), (400, 0.05), (500, 0.05)])
def test_a_switch_that_is_longer_than_assumed_starves_nobody(switch_us: int | None, harvest: float) -> None:
    """A surcharge for each ns refused the second kernel of every visit: a harvest of .004 to .008 with this seed."""

    def recording(program: Program) -> Any:
        return parse(program.name, program.text().decode())

    h200 = named("h200")
    device = h200 if switch_us is None else replace(h200, switch_ns=switch_us * US)
    shared = Scenario(recording(DECODE), [recording(BATCH)], "open30", seed=1, device=device)
    protects_and_feeds("budget", shared, high_jct_ratio=1.05, harvest=harvest)


class Visited:
    """A high client with 5 %, whose segments are a kernel and a wait. It rests for 20 ms between them."""

    def __init__(self, **options: Any) -> None:
        self.policy = Policy("budget", **{"switch_ns": SWITCH, "starvation_timeout_ns": 1000 * S} | options)
        self.now = 0
        self.requests = 0
        for client, priority in ((HIGH, 1), (LOW, 8)):
            self.policy.event("client_added", client, 0, priority=priority)

    def segment(self, late: int = 0) -> None:
        """Its wait ends so much later than alone."""
        work = 5 * MS
        self.policy.event("launched", HIGH, self.now, duration_ns=work, slack_ns=[1])
        began, self.now = self.now, self.now + work + late
        self.policy.event(
            "drained", HIGH, self.now, began_ns=began, duration_ns=0, span_ns=work, slack_ns=[1], idle_ns=[20 * MS]
        )  # fmt: skip

    def asks(self, length: int, **run: Any) -> bool:
        """The low client: does its kernel go? If so, the kernel is over after its length."""
        self.requests += 1
        terms: dict[str, Any] = {"request": self.requests, "duration_ns": length}
        went = LOW in grants(self.policy.event("waiting", LOW, self.now, **terms, **run))
        if not went:
            self.policy.event("waiting_ended", LOW, self.now, request=self.requests)
            return False
        self.policy.event("launched", LOW, self.now, granted=True, **terms)
        self.now += length + SWITCH
        self.policy.event("grant_done", LOW, self.now, request=self.requests)
        return True


def visits(segments: int, unforeseen: int) -> tuple[int, int]:
    """How many visits a kernel of 100 us opened, and how many of these the next kernel continued. The high client is so late after each."""
    visited = Visited(max_slowdown=0.02)
    opened = continued = 0
    for _ in range(segments):
        visited.now += 2 * MS
        went = visited.asks(100 * US)
        opened += went
        continued += went and visited.asks(100 * US)
        visited.now += 17 * MS
        visited.segment(late=2 * SWITCH + unforeseen if went else 0)
    return opened, continued


def test_what_comes_unforeseen_of_each_visit_is_charged_to_what_opens_one_and_not_to_what_continues_it() -> None:
    foreseen, unforeseen = visits(60, unforeseen=0), visits(60, unforeseen=300 * US)
    assert foreseen == (60, 60)
    assert unforeseen[0] < 60
    assert unforeseen[1] > unforeseen[0] / 2


def test_a_memset_opens_a_visit_only_for_a_run_that_is_worth_one() -> None:
    """The high client rests for long; its budget covers two switches and half a millisecond."""

    def opens(length: int, run: int) -> bool:
        full = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}
        visited = Visited(max_slowdown=0.7 * MS / full["saved_ns"], tuning=full)
        visited.segment()
        visited.now += MS
        return visited.asks(length, run_launches=2, run_ns=length + run) if run else visited.asks(length)

    memset, kernel = 2 * US, 100 * US
    assert opens(memset, run=0), "alone it is all that its program has to do"
    assert opens(memset, run=400 * US)
    assert not opens(memset, run=600 * US)
    assert opens(kernel, run=600 * US), "a kernel is worth a visit by itself"


def granted_when_left(*, mps: bool, outside: bool) -> int:
    """A kernel of 200 us runs below a client that rests. How much of it is left (us, by tens) when the next one is granted?"""
    made = Policy("budget", switch_ns=SWITCH, tuning={"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]})
    for client, priority in ((HIGH, 1), (LOW, 8)):
        made.event("client_added", client, 0, priority=priority, overlaps=mps)
    rests: dict[str, Any] = {"slack_ns": [1], "idle_ns": [250 * US, *(n * 10 * MS for n in range(2, 9))]}
    for at in (0, 100 * MS):
        made.event("launched", HIGH, at, duration_ns=5 * MS, slack_ns=[1])
        end = at + 5 * MS
        made.event("drained", HIGH, end, began_ns=at, duration_ns=0, span_ns=5 * MS, open=outside, **rests)
    began = end + 100 * US
    length: dict[str, Any] = {"duration_ns": 200 * US}
    assert LOW in grants(made.event("waiting", LOW, began, request=1, **length))
    made.event("launched", LOW, began, granted=True, request=1, **length)
    end = made.queue_free_ns
    made.event("waiting", LOW, began + 10, request=2, **length)
    return next(us for us in range(190, 0, -10) if LOW in grants(made.event("tick", 0, end - us * US)))


def test_the_next_kernel_is_granted_later_where_kernels_overlap_or_requests_come_from_outside() -> None:
    left_us = {(mps, out): granted_when_left(mps=mps, outside=out) for mps in (False, True) for out in (False, True)}
    near, close = (TUNING[name] / US for name in ("near_ns", "close_ns"))
    assert left_us == {(False, False): near, (False, True): close, (True, False): close, (True, True): close}
