"""What a decision of `budget` costs: how many clients, and groups of them in the index, it looks at."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
from fikitd._core import Policy
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policy_budget import outside, policy
from test_policy_gates import MS, US, grants

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "fikitd" / "core"

HIGH, LOW = 1, 2
CROWDS = (2, 8, 32, 64)
SLACK = [0, 10 * US, 20 * US, 30 * US, 50 * US, 100 * US, 200 * US, 400 * US]


@pytest.mark.parametrize("checked", [["tournament_check.cpp"], ["limits_check.cpp", CORE / "policy" / "times.cpp"]])
def test_trees_sets_and_lengths_answer_as_a_scan_would(tmp_path: Path, checked: list[str | Path]) -> None:
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", f"-I{CORE}"]
    subprocess.run(["c++", *flags, *(HERE / part for part in checked), "-o", tmp_path / "check"], check=True)
    done = subprocess.run([tmp_path / "check", "1", "400"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def looks_per_decision(idle: int, priority: int) -> float:
    """One high client at work, one low one whose kernels wait, are granted and complete; so many others do nothing."""
    made = Policy("budget")
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    for other in range(10, 10 + idle):
        made.event("client_added", other, 0, priority=priority)
    before, decisions, granted = made.looks, 0, 0
    now = 0

    def happens(kind: str, client: int, **fields: object) -> list[int]:
        nonlocal decisions
        decisions += 1
        return grants(made.event(kind, client, now, **fields))  # type: ignore[arg-type]

    for request in range(1, 60):
        now += 20 * US
        happens("launched", HIGH, duration_ns=20 * US, slack_ns=SLACK)
        went = happens("waiting", LOW, request=request, duration_ns=30 * US)
        now += 40 * US
        went += happens("drained", HIGH, duration_ns=0, slack_ns=SLACK, idle_ns=[200 * US], span_ns=0)
        if went:
            granted += 1
            now += 30 * US
            happens("launched", LOW, granted=True, request=request, duration_ns=30 * US)
            happens("grant_done", LOW, request=request)
        else:
            happens("waiting_ended", LOW, request=request)
    assert granted > 40
    return (made.looks - before) / decisions


@pytest.mark.parametrize("priority", [8, 9])
def test_a_decision_costs_no_more_than_a_logarithm_of_the_clients_that_do_nothing(priority: int) -> None:
    costs = {idle: looks_per_decision(idle, priority) for idle in (0, *CROWDS)}
    for idle in CROWDS:
        assert costs[idle] <= costs[0] + 8 * math.log2(idle + 2), costs


def looks_while_many_wait(lengths: list[int]) -> float:
    """Looks per decision while low clients want ever more, below a high one that leaves time for some kernels."""
    made = Policy("budget")
    made.event("client_added", HIGH, 0, priority=1)
    lows = dict(enumerate(lengths, start=10))
    for low in lows:
        made.event("client_added", low, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=20 * US, slack_ns=SLACK)
    requests = dict.fromkeys(lows, 0)
    now, decisions, went = 0, 0, 0

    def happens(kind: str, client: int, **fields: object) -> list[int]:
        nonlocal decisions
        decisions += 1
        return grants(made.event(kind, client, now, **fields))  # type: ignore[arg-type]

    def ask(low: int) -> list[int]:
        requests[low] += 1
        return happens("waiting", low, request=requests[low], duration_ns=lows[low])

    going = [granted for low in lows for granted in ask(low)]
    before, decisions = made.looks, 0
    for _ in range(100):
        going += happens("launched", HIGH, duration_ns=20 * US, slack_ns=SLACK)
        now += 40 * US
        going += happens("drained", HIGH, duration_ns=0, slack_ns=SLACK, idle_ns=[200 * US], span_ns=0)
        for low in going[:20]:
            going.remove(low)
            now += lows[low]
            going += happens("launched", low, granted=True, request=requests[low], duration_ns=lows[low])
            going += happens("grant_done", low, request=requests[low])
            going += ask(low)
            went += 1
        now += 50 * US
    assert went > 20
    return (made.looks - before) / decisions


@pytest.mark.parametrize("lengths", [[60 * US], [40 * US, 60 * US, 5 * MS]])
def test_a_decision_costs_no_more_than_a_logarithm_of_the_equals_that_wait(lengths: list[int]) -> None:
    costs = {many: looks_while_many_wait((lengths * many)[:many]) for many in (8, 16, 32, 64)}
    for many, cost in costs.items():
        assert cost <= costs[8] + 16 * math.log2(many / 8), costs


def looks_while_all_are_refused(busy: int, lengths: list[int]) -> tuple[int, Policy]:
    """Of one decision, while these wait: the high one is `busy` and leaves time for 62 us after that, and nothing may be cost."""
    made = Policy("budget", max_slowdown=0)
    made.event("client_added", HIGH, 0, priority=1)
    for low in range(10, 11 + len(lengths)):
        made.event("client_added", low, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=busy, slack_ns=[62 * US] * 8)
    for low, length in enumerate(lengths, start=10):
        assert grants(made.event("waiting", low, 5 * US, request=1, duration_ns=length)) == []
    before = made.looks
    made.event("tick", 0, 5 * US)
    return made.looks - before, made


def looks_while_equals_are_refused(many: int, length: int) -> int:
    """So many kernels of one length, which is a little more than the high one leaves time for."""
    looks, made = looks_while_all_are_refused(20 * US, [length] * many)
    # A shorter one of their eighth of a class would go: nothing is refused to the class as a whole.
    assert grants(made.event("waiting", 10 + many, 5 * US, request=1, duration_ns=61_500)) == [10 + many]
    return looks


def test_of_those_that_wait_for_exactly_as_long_one_is_asked() -> None:
    costs = {many: looks_while_equals_are_refused(many, 65 * US) for many in (8, 16, 32, 64)}
    for many, cost in costs.items():
        assert cost <= costs[8] + 8 * math.log2(many / 8), costs


def looks_while_different_kernels_are_refused(many: int) -> int:
    """The device is free, and so many kernels wait, all longer than what the high one leaves time for."""
    return looks_while_all_are_refused(1 * US, [65 * US + US * low for low in range(many)])[0]


def test_of_those_that_wait_for_different_kernels_few_are_asked_to_refuse_all() -> None:
    costs = {many: looks_while_different_kernels_are_refused(many) for many in (8, 16, 32, 64)}
    for many, cost in costs.items():
        assert cost <= costs[8] + 8 * math.log2(many / 8), costs


def looks_while_none_is_fair(many: int) -> int:
    """Below requests from outside with a full budget: so many kernels that would cost those more than they take, and they have
    stood at the gate for a moment."""
    made = policy()
    now = outside(made, 0.5)
    for low in range(10, 10 + many):
        made.event("client_added", low, now, priority=8)
        assert grants(made.event("waiting", low, now + 1, request=1, duration_ns=4 * MS + low * 100 * US)) == []
    before = made.looks
    assert grants(made.event("tick", 0, now + 20 * US)) == []
    assert {made.held(low)[0] for low in range(10, 10 + many)} == {"does_not_fit"}
    return made.looks - before


def test_of_those_that_are_no_fair_price_few_are_asked_to_refuse_all() -> None:
    costs = {many: looks_while_none_is_fair(many) for many in (8, 16, 32, 62)}
    for many, cost in costs.items():
        assert cost <= costs[8] + 8 * math.log2(many / 8), costs


def looks_while_different_kernels_wait(lengths: list[int], idle: int) -> float:
    """Per decision, while so many clients always want more, none as much as another, and the high one rests for `idle`."""
    made = Policy("budget")
    made.event("client_added", HIGH, 0, priority=1)
    lows = dict(enumerate(lengths, start=10))
    for low in lows:
        made.event("client_added", low, 0, priority=8)
    times = [idle * (number + 1) for number in range(8)]
    requests = dict.fromkeys(lows, 0)
    going: list[int] = []
    now, decisions, went = 0, 0, 0

    def happens(kind: str, client: int, **fields: object) -> None:
        nonlocal decisions
        decisions += 1
        going.extend(grants(made.event(kind, client, now, **fields)))  # type: ignore[arg-type]

    def ask(low: int) -> None:
        requests[low] += 1
        happens("waiting", low, request=requests[low], duration_ns=lows[low])

    for low in lows:
        ask(low)
    before, decisions = made.looks, 0
    for _ in range(100):
        happens("launched", HIGH, duration_ns=20 * US, slack_ns=times)
        now += 40 * US
        happens("drained", HIGH, duration_ns=0, slack_ns=times, idle_ns=times, span_ns=0)
        for low in going[:4]:
            going.remove(low)
            happens("launched", low, granted=True, request=requests[low], duration_ns=lows[low])
            now += lows[low]
            happens("grant_done", low, request=requests[low])
            ask(low)
            went += 1
    assert went > 100
    return (made.looks - before) / decisions


@pytest.mark.parametrize("idle", [100 * US, MS])
def test_a_decision_looks_at_few_of_those_that_wait_for_different_kernels(idle: int) -> None:
    lengths = {many: [60 * US + US * low for low in range(many)] for many in (8, 16, 32, 64)}
    costs = {many: looks_while_different_kernels_wait(lengths[many], idle) for many in lengths}
    for many, cost in costs.items():
        assert cost <= costs[8] + 20 * math.log2(many / 8), costs


@pytest.mark.parametrize("idle", [100 * US, MS])
def test_a_decision_asks_those_above_no_more_often_where_lengths_lie_far_apart(idle: int) -> None:
    """From 20 us to 20 ms: what one kernel would cost says for how many others the answer is the same."""
    lengths = {many: [int(20 * US * 1000 ** (low / many)) for low in range(many)] for many in (8, 16, 32, 64)}
    costs = {many: looks_while_different_kernels_wait(lengths[many], idle) for many in lengths}
    for many, cost in costs.items():
        assert cost <= costs[8] + 4 * math.log2(many / 8), costs


def looks_below_many(above: int) -> float:
    """Per decision, while 16 clients always want more and so many above them rest for long."""
    made = Policy("budget")
    for high in range(100, 100 + above):
        made.event("client_added", high, 0, priority=1)
    lows = {low: 50 * US + US * low for low in range(10, 26)}
    for low in lows:
        made.event("client_added", low, 0, priority=8)
    for high in range(100, 100 + above):
        made.event("launched", high, 0, duration_ns=20 * US, slack_ns=[MS])
        made.event("drained", high, 20 * US, duration_ns=0, slack_ns=[MS], idle_ns=[1000 * MS], span_ns=0)
    requests = dict.fromkeys(lows, 1)
    now, decisions, before = 20 * US, 0, made.looks
    running = [
        went for low in lows for went in grants(made.event("waiting", low, now, request=1, duration_ns=lows[low]))
    ]
    for _ in range(100):
        low = running.pop(0)
        made.event("launched", low, now, granted=True, request=requests[low], duration_ns=lows[low])
        now += lows[low]
        running += grants(made.event("grant_done", low, now, request=requests[low]))
        requests[low] += 1
        running += grants(made.event("waiting", low, now, request=requests[low], duration_ns=lows[low]))
        decisions += 3
    return (made.looks - before) / decisions


def test_each_of_many_above_costs_a_few_looks() -> None:
    costs = {above: looks_below_many(above) for above in (1, 8, 32)}
    for above, cost in costs.items():
        assert cost <= costs[1] + 2 * above, costs


MOMENTS = st.lists(st.integers(0, 400 * US), min_size=5, max_size=40)


@settings(max_examples=60)
@given(MOMENTS, st.sampled_from([0, 500 * US]), st.sampled_from([None, 5 * US, 90 * US, 3 * MS]))
def test_clients_that_do_nothing_cost_a_logarithm_whatever_the_others_do(
    pauses: list[int], run_ahead: int, length: int | None
) -> None:
    def play(idle: int) -> int:
        made = Policy("budget", run_ahead_ns=run_ahead)
        made.event("client_added", HIGH, 0, priority=1)
        for low in (2, 3):
            made.event("client_added", low, 0, priority=8)
        for other in range(10, 10 + idle):
            made.event("client_added", other, 0, priority=8)
        before, now = made.looks, 0
        flying: dict[int, int] = {}  # client: request
        for number, pause in enumerate(pauses):
            now += pause
            low = 2 + number % 2
            if number % 3 == 0:
                said = made.event("launched", HIGH, now, duration_ns=20 * US, slack_ns=SLACK)
            elif number % 3 == 1 and low not in flying:
                flying[low] = number
                said = made.event("waiting", low, now, request=number, duration_ns=length)
            else:
                said = made.event("drained", HIGH, now, duration_ns=0, slack_ns=SLACK, idle_ns=[300 * US], span_ns=0)
            for granted in grants(said):
                made.event("launched", granted, now, granted=True, request=flying[granted], duration_ns=length)
                made.event("grant_done", granted, now, request=flying.pop(granted))
        return made.looks - before

    alone, beside = play(2), play(64)
    assert beside <= alone + 8 * math.log2(66) * 3 * len(pauses)
