"""What a client reports changes decisions for clients above it only by device time that was granted to it, in every policy.

By reports alone it holds nobody of its own level longer than a lease. In manual time, on the policies' own interface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from decisions import Decisions, grants, wake
from fikitd._core import Policy
from fikitd.simulation.simulator import POLICIES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from examples import examples

US, MS, S = 1_000, 1_000_000, 1_000_000_000
LEASE = 100 * MS
HIGH, NORMAL, OTHER, LOW, LOWEST = 1, 2, 3, 4, 5
PRIORITIES = {HIGH: 1, NORMAL: 5, OTHER: 5, LOW: 8, LOWEST: 9}
BELOW = (LOW, LOWEST)
NAMES = sorted(set(POLICIES) - {"oracle", "weighted", "mps-priority"})
ENGINES = ["compute", "compute", "compute", "to_device", "to_host"]

TIMES = st.one_of(st.none(), st.sampled_from([0, 1, 10 * US, 100 * US, MS, 20 * MS, LEASE, 10 * S, 2**62]))
WORK = st.sampled_from([None, 10 * US, 100 * US, MS, 5 * MS])
PAUSE = st.sampled_from([0, US, 10 * US, 50 * US, 200 * US, MS, 5 * MS, 60 * MS])
REPORT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            [
                "launched",
                "launched",
                "launched",
                "running",
                "drained",
                "grant_done",
                "copied",
                "profiled",
                "exclusive_runs",
            ]
        ),
        "granted": st.booleans(),
        "exclusive": st.booleans(),
        "request": st.integers(0, 6),
        "duration_ns": TIMES,
        "gap_ns": TIMES,
        "since_ns": TIMES,
        "began_ns": TIMES,
        "engine": st.sampled_from(ENGINES[2:]),
        "in_line_ns": st.sampled_from([0, US, LEASE]),
        "run_launches": st.sampled_from([1, 5, 2**31]),
    }
)
WAIT = st.fixed_dictionaries(
    {
        "duration_ns": WORK,
        "exclusive": st.sampled_from([False, False, False, True]),
        "engine": st.sampled_from(ENGINES),
        "run_launches": st.sampled_from([1, 1, 8]),
    }
)
STEP = st.one_of(
    st.tuples(st.just("report"), st.sampled_from(BELOW), REPORT, PAUSE),
    st.tuples(st.just("report"), st.sampled_from(BELOW), REPORT, PAUSE),
    st.tuples(st.just("wait"), st.sampled_from([NORMAL, OTHER, LOW, LOWEST]), WAIT, PAUSE),
    st.tuples(st.just("wait"), st.sampled_from([NORMAL, OTHER]), WAIT, PAUSE),
    st.tuples(st.just("answer"), st.sampled_from([NORMAL, OTHER]), WORK, PAUSE),
    st.tuples(st.just("launch"), st.just(HIGH), WORK, PAUSE),
    st.tuples(st.just("drain"), st.just(HIGH), WORK, PAUSE),
    st.tuples(st.just("again"), st.sampled_from([NORMAL, LOW, LOWEST]), WORK, PAUSE),
    st.tuples(st.just("priority"), st.sampled_from([NORMAL, LOW]), WORK, PAUSE),
    st.tuples(st.just("tick"), st.just(HIGH), WORK, PAUSE),
)


@dataclass
class Run:
    """One run of a policy. Honest: clients below report nothing but that what they were granted is over."""

    name: str
    honest: bool
    now: int = 10 * MS
    requests: dict[int, int] = field(default_factory=dict)  # the newest of each
    standing: set[int] = field(default_factory=set)  # at the gate
    granted: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.policy = Policy(self.name, lease_ns=LEASE)
        self.priorities = dict(PRIORITIES)
        for client, priority in PRIORITIES.items():
            self.policy.event("client_added", client, 0, priority=priority)

    def event(self, kind: str, client: int, **fields: Any) -> tuple[Decisions, Decisions]:
        """What it decides about those above, and about those below."""
        return self.named(self.policy.event(kind, client, self.now, **fields))

    def named(self, decisions: Decisions) -> tuple[Decisions, Decisions]:
        assert self.policy.index_agrees()
        for decision in decisions:
            if decision[0] == "grant":
                self.standing.discard(decision[1])
                self.granted.add(decision[1:3])
        named = [decision for decision in decisions if decision[0] != "wake_at"]
        return [d for d in named if d[1] not in BELOW], [d for d in named if d[1] in BELOW]

    def step(self, action: str, client: int, what: Any, pause: int) -> tuple[Decisions, Decisions]:
        self.now += pause
        if action == "report":
            return self.report(client, **what)
        if action == "wait" and client not in self.standing:
            self.requests[client] = self.requests.get(client, 0) + 1
            self.standing.add(client)
            return self.event("waiting", client, request=self.requests[client], **what)
        if action == "answer" and client not in self.standing and self.requests.get(client):
            return self.answer(client, what)
        if action == "again":
            return self.again(client)
        if action == "priority":
            return self.change_priority(client)
        return self.high(action, what)

    def high(self, action: str, what: int | None) -> tuple[Decisions, Decisions]:
        outlook = {"slack_ns": [what or MS], "idle_ns": [what or 2 * MS]}
        if action == "launch":
            return self.event("launched", HIGH, duration_ns=what, gap_ns=2 * MS, **outlook)
        if action == "drain":
            return self.event("drained", HIGH, duration_ns=0, span_ns=MS, **outlook)
        return self.event("tick", 0)

    def answer(self, client: int, what: int | None) -> tuple[Decisions, Decisions]:
        """It launches what it was granted, and that is over."""
        request = self.requests[client]
        above, below = self.event("launched", client, granted=True, request=request, duration_ns=what)
        more = self.event("grant_done", client, request=request)
        return above + more[0], below + more[1]

    def again(self, client: int) -> tuple[Decisions, Decisions]:
        """It dies, and another one begins."""
        self.standing.discard(client)
        self.granted = {grant for grant in self.granted if grant[0] != client}
        above, below = self.event("client_removed", client)
        more = self.event("client_added", client, priority=self.priorities[client])
        return above + more[0], below + more[1]

    def change_priority(self, client: int) -> tuple[Decisions, Decisions]:
        """To the other one that keeps its place among those above and those below."""
        now = self.priorities[client]
        self.priorities[client] = {5: 4, 4: 5, 8: 7, 7: 8}[now]
        self.standing.discard(client)  # its gate was opened
        self.granted = {grant for grant in self.granted if grant[0] != client}
        return self.named(self.policy.change_priority(client, self.priorities[client], self.now))

    def report(self, client: int, kind: str, request: int, duration_ns: int | None, **fields: Any) -> Any:
        over = (kind == "grant_done" and (client, request) in self.granted) or (kind == "drained" and duration_ns == 0)
        if self.honest and not over:
            return self.event("tick", 0)
        return self.event(kind, client, request=request, duration_ns=duration_ns, **fields)


# While one above dies and another begins, the low one is granted what it waits for, unless it has reported work.
DEATH_OF_ONE_ABOVE = [
    ("again", NORMAL, None, 0),
    ("wait", LOW, {"duration_ns": None, "exclusive": False, "engine": "compute", "run_launches": 1}, 0),
    ("report", LOW, {"kind": "launched", "granted": False, "request": 0, "duration_ns": None}, 0),
    ("again", NORMAL, None, 0),
    ("wait", NORMAL, {"duration_ns": None, "exclusive": False, "engine": "compute", "run_launches": 1}, 0),
]

# Work of the high one stands behind work that the low one has reported, when the normal one goes to a level of its own.
A_LEVEL_ABOVE_ITS_EQUALS = [
    ("launch", HIGH, 10 * US, 0),
    ("wait", NORMAL, {"duration_ns": None, "exclusive": False, "engine": "compute", "run_launches": 1}, 0),
    ("report", LOW, {"kind": "launched", "granted": False, "request": 0, "duration_ns": 1}, 0),
    ("launch", HIGH, 100 * US, 0),
    ("priority", NORMAL, None, 50 * US),
    ("wait", NORMAL, {"duration_ns": 10 * US, "exclusive": False, "engine": "compute", "run_launches": 1}, 0),
    ("tick", HIGH, None, 60 * US),
]


@pytest.mark.takes_seconds
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=10, max_size=50))
@example(steps=DEATH_OF_ONE_ABOVE)
@example(steps=A_LEVEL_ABOVE_ITS_EQUALS)
def test_reports_of_a_lower_client_change_nothing_for_those_above_but_by_what_it_was_granted(
    name: str, steps: list[tuple[str, int, Any, int]]
) -> None:
    """Until they are granted something else than in the run in which they report only that."""
    lying, honest = Run(name, honest=False), Run(name, honest=True)
    for step in steps:
        above, below = lying.step(*step)
        expected, granted = honest.step(*step)
        if granted == below:
            assert above == expected
        else:
            return


def waits(name: str, liar: int, *, every: int, report: dict[str, Any], asked_at: int = 10 * MS) -> int:
    """How long a request of the normal client stands beside an idle high one, while another one reports that again and again."""
    policy = Policy(name, lease_ns=LEASE)
    for client in (HIGH, NORMAL, liar):
        policy.event("client_added", client, 0, priority=PRIORITIES[client])
    for now in range(every, asked_at, every):
        policy.event(time_ns=now, client=liar, **report)
    decisions = policy.event("waiting", NORMAL, asked_at, request=1, duration_ns=100 * US)
    now, due = asked_at, asked_at + every
    while NORMAL not in grants(decisions):
        assert now < asked_at + 10 * S, "it never goes"
        now = min(wake(decisions) or due, due)
        if now == due:
            due += every
            decisions = policy.event(time_ns=now, client=liar, **report)
        else:
            decisions = policy.event("tick", 0, now)
    return now - asked_at


LIES = {
    "an unnamed launch": {"kind": "launched"},
    "a long launch": {"kind": "launched", "duration_ns": 10 * S},
    "a launch on a grant": {"kind": "launched", "granted": True, "request": 1, "duration_ns": 10 * S},
    "work under way": {"kind": "running", "duration_ns": 10 * S},
    "nobody knows how far": {"kind": "drained"},
    "much is left": {"kind": "drained", "duration_ns": 10 * S},
}


@pytest.mark.parametrize(
    "name", sorted(set(NAMES) - {"exclusive", "tgs", "fifo"})
)  # that grant nobody, later, everybody
@pytest.mark.parametrize("lie", LIES)
def test_nothing_that_a_lower_client_says_holds_a_higher_one(name: str, lie: str) -> None:
    assert waits(name, LOWEST, every=50 * MS, report=LIES[lie]) == 0
    assert waits(name, LOWEST, every=MS, report=LIES[lie], asked_at=300 * MS) == 0


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ["budget", "paper", "prio", "tally", "excl"])
def test_reports_alone_hold_an_equal_no_longer_than_a_lease(name: str, lie: str) -> None:
    assert waits(name, OTHER, every=MS, report=LIES[lie]) <= LEASE
    assert waits(name, OTHER, every=MS, report=LIES[lie], asked_at=300 * MS) == 0


@pytest.mark.parametrize("name", ["budget", "paper", "prio"])
def test_a_grant_that_is_launched_again_and_again_holds_an_equal_no_longer_than_a_lease(name: str) -> None:
    policy = Policy(name, lease_ns=LEASE)
    for client in (HIGH, NORMAL, OTHER):
        policy.event("client_added", client, 0, priority=PRIORITIES[client])
    policy.event("launched", HIGH, 0, duration_ns=US, slack_ns=[S], idle_ns=[S])
    policy.event("drained", HIGH, US, duration_ns=0, slack_ns=[S], idle_ns=[S], span_ns=US)
    start = 10 * MS
    assert grants(policy.event("waiting", OTHER, start, request=1, duration_ns=50 * US)) == [OTHER]
    decisions = policy.event("waiting", NORMAL, start + 1, request=1, duration_ns=20 * MS)
    now = start + 1
    while NORMAL not in grants(decisions):
        now += 20 * US
        assert now < start + LEASE + MS
        decisions = policy.event("launched", OTHER, now, granted=True, request=1, duration_ns=10 * MS)


@pytest.mark.parametrize("name", ["budget", "paper", "prio"])
def test_who_comes_between_is_held_by_nothing_that_was_said_before(name: str) -> None:
    policy = Policy(name, lease_ns=LEASE)
    policy.event("client_added", HIGH, 0, priority=1)
    policy.event("client_added", LOWEST, 0, priority=9)
    for now in range(MS, 50 * MS, MS):
        policy.event("launched", LOWEST, now, duration_ns=10 * S)
        policy.event("launched", LOWEST, now)
    policy.event("client_added", NORMAL, 51 * MS, priority=5)
    assert grants(policy.event("waiting", NORMAL, 60 * MS, request=1, duration_ns=100 * US)) == [NORMAL]


@pytest.mark.parametrize("name", ["budget", "paper", "prio"])
def test_an_open_clients_claims_hold_its_equals_no_longer_than_a_lease_once_somebody_higher_comes(name: str) -> None:
    policy = Policy(name, lease_ns=LEASE)
    policy.event("client_added", NORMAL, 0, priority=5)
    policy.event("client_added", OTHER, 0, priority=5)
    policy.event("launched", OTHER, MS, duration_ns=10 * S)
    policy.event("launched", OTHER, MS)
    policy.event("client_added", HIGH, 2 * MS, priority=1)
    decisions, now = policy.event("waiting", NORMAL, 3 * MS, request=1, duration_ns=100 * US), 3 * MS
    while NORMAL not in grants(decisions):
        (now,) = (decision[1] for decision in decisions if decision[0] == "wake_at")
        assert now <= 2 * MS + LEASE
        decisions = policy.event("tick", 0, now)


def test_what_a_lower_client_was_granted_keeps_a_higher_one_until_it_is_over() -> None:
    """One kernel at a time: by its own time, if it says nothing; until it says so, if it says so before."""
    for says, until in ((False, 5 * MS), (True, 2 * MS)):
        policy = Policy("prio", lease_ns=LEASE)
        for client in (HIGH, NORMAL, LOW):
            policy.event("client_added", client, 0, priority=PRIORITIES[client])
        assert grants(policy.event("waiting", LOW, 0, request=1, duration_ns=5 * MS)) == [LOW]
        assert grants(policy.event("waiting", NORMAL, MS, request=1, duration_ns=US)) == []
        assert grants(policy.event("tick", 0, until - 1)) == []
        done = ("grant_done", LOW, until) if says else ("tick", 0, until)
        assert grants(policy.event(*done, request=1)) == [NORMAL]
