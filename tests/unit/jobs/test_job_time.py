"""A job's time over its processes: an instant counts for those that are there in equal parts, and the parts sum to the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fikitd.api import elapsed
from fikitd.api.elapsed import About
from fikitd.api.held import Cost
from fikitd.api.job_time import FIELDS, Edges, JobTime, Sums
from hypothesis import given
from hypothesis import strategies as st

S = 1_000_000_000


class Process:
    """What its dispatcher says of a client."""

    def __init__(self) -> None:
        self.spent = {f"{name}_ns": 0 for name in FIELDS}

    def passes(self, seconds: float, **parts: float) -> None:
        self.spent["elapsed_ns"] += round(seconds * S)
        for name, length in parts.items():
            self.spent[f"{name}_ns"] += round(length * S)

    def now(self) -> dict[str, int]:
        return dict(self.spent)


def about(**facts: Any) -> About:
    return About(
        **{"priority": 5, "measured": False, "kernels": 9, "max_slowdown": 0.05, "beside_others": False, **facts}
    )


def test_processes_one_after_the_other_and_side_by_side() -> None:
    time, one, two = JobTime(0, measured=False), Process(), Process()
    time.came(1, one.now, 2 * S)
    time.knows(1, Edges(2 * S, S, 0))
    one.passes(4, start=1, waited=2)
    time.came(2, two.now, 6 * S)
    time.knows(2, Edges(0, 0, 0))
    one.passes(4, waited=4)
    two.passes(4, delayed=1)
    time.went(1, one.now(), 10 * S)
    two.passes(2)
    time.went(2, two.now(), 12 * S)
    sums = time.sums()
    assert sums.elapsed == 12 * S, "the job's start to its end"
    assert (sums.waited, sums.delayed, sums.start, sums.edges) == (4 * S, 0.5 * S, 0, 0)


def test_a_start_is_as_alone_as_far_as_a_profile_knows_it() -> None:
    for known, start, edges in ((Edges(S, S, S), 2 * S, 0), (Edges(0, S, S), 0, 3 * S), (None, 0, 5 * S)):
        time, one = JobTime(0, measured=False), Process()
        time.came(1, one.now, 3 * S)
        time.knows(1, known)
        one.passes(5, start=1, end=1)
        assert time.sums().end == 0, "the next launch may end it as a gap"
        assert time.went(1, one.now(), 8 * S) == Edges(3 * S, S, S), "for its own profile"
        assert (time.sums().start, time.sums().edges) == (start, edges)


def test_a_measured_job_spends_all_its_time_alone_but_its_waits() -> None:
    time, one = JobTime(0, measured=True), Process()
    time.came(1, one.now, S)
    one.passes(5, start=1, end=1, waited=1)
    time.went(1, one.now(), 6 * S)
    found = elapsed.fields(time.sums(), [], about(measured=True))
    assert (found["elapsed_s"], found["alone_s"], found["waited_s"], found["host_s"]) == (6.0, 5.0, 1.0, 0.0)
    assert (found["slowdown"], found["no_slowdown"], found["kept"]) == (None, "measured", None)


def test_another_fikitd_goes_on_and_what_nobody_saw_is_unexplained() -> None:
    time, one = JobTime(0, measured=False), Process()
    time.came(1, one.now, 0)
    time.knows(1, Edges(0, S, S))
    one.passes(10, start=1, waited=2)
    after = JobTime(0, measured=False)
    after.go_on_from(json.loads(json.dumps(time.rows(10 * S))))
    again = Process()
    after.came(1, again.now, 11 * S)
    again.passes(4, waited=1, end=1)
    assert after.went(1, again.now(), 15 * S) == Edges(0, S, S)
    assert after.sums() == Sums(elapsed=15 * S, waited=3 * S, unexplained=S)


def test_what_a_client_did_that_never_comes_back_stays() -> None:
    time, one = JobTime(0, measured=False), Process()
    time.came(1, one.now, 0)
    one.passes(10, waited=2)
    after = JobTime(0, measured=False)
    after.go_on_from(time.rows(10 * S))
    after.give_up()
    assert (after.sums().elapsed, after.sums().waited) == (10 * S, 2 * S)


@pytest.mark.parametrize("rows", [{"noted_ns": 1}, {"noted_ns": "x", "quiet_ns": 0, "sums": [], "clients": {}}])
def test_rows_that_are_none_are_refused(rows: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        JobTime(0, measured=False).go_on_from(rows)


STEP = st.tuples(st.integers(0, 3), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1))


@given(st.lists(STEP, max_size=20))
def test_the_parts_sum_to_the_whole_whoever_comes_and_goes(steps: list[tuple[int, float, float, float]]) -> None:
    time, there, now_ns = JobTime(0, measured=False), {}, 0
    for number, seconds, first, second in steps:
        if number in there:
            time.went(number, there.pop(number).now(), now_ns)
        else:
            there[number] = Process()
            time.came(number, there[number].now, now_ns)
        for process in there.values():
            process.passes(seconds, waited=seconds * first, late=seconds * (1 - first) * second)
        now_ns += round(seconds * S)
    sums = time.sums()
    quiet_ns = 0 if there else now_ns - time.rows(0)["quiet_ns"]
    assert sums.elapsed == pytest.approx(now_ns - quiet_ns, abs=len(steps) * 8)
    found = elapsed.fields(sums, [], about())
    parts = ("alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
    assert sum(found[part] for part in parts) == pytest.approx(found["elapsed_s"], abs=1e-6)


@pytest.mark.parametrize(
    ("sums", "why"),
    [
        (Sums(elapsed=100 * S, unexplained=6 * S), "unexplained"),
        (Sums(elapsed=100 * S, edges=6 * S), "start_or_end_unknown"),
        (Sums(elapsed=100 * S, edges=4 * S, unexplained=4 * S), ""),
        (Sums(), "nothing_launched"),
    ],
)
def test_a_ratio_is_said_where_the_sum_supports_it(sums: Sums, why: str) -> None:
    found = elapsed.fields(sums, [], about())
    assert (found["no_slowdown"], found["slowdown"] is None) == (why, why != "")


def lower(ns: int) -> Cost:
    return Cost("behind", "7", 8, ns)


@pytest.mark.parametrize(
    ("sums", "costs", "facts", "kept", "why"),
    [
        (Sums(elapsed=104 * S, delayed=4 * S), [], {}, True, ""),
        (Sums(elapsed=106 * S, delayed=6 * S), [], {}, False, ""),
        (Sums(elapsed=106 * S, delayed=6 * S), [], {"beside_others": True}, None, "beside_others"),
        (Sums(elapsed=106 * S, delayed=6 * S), [Cost("lower_work", "7", 8, 7 * S)], {"beside_others": True}, False, ""),
        (Sums(elapsed=150 * S, waited=50 * S), [Cost("behind", "7", 1, 50 * S)], {"beside_others": True}, True, ""),
        (Sums(elapsed=110 * S, waited=10 * S), [lower(10 * S)], {}, False, ""),
        (Sums(elapsed=106 * S, delayed=2 * S, unexplained=4 * S), [], {}, None, "too_close"),
        (Sums(elapsed=120 * S, unexplained=20 * S), [], {}, None, "unexplained"),
        (Sums(elapsed=104 * S, delayed=4 * S), [], {"max_slowdown": None}, None, "no_promise"),
        (Sums(elapsed=104 * S), [], {"kernels": 0}, None, "nothing_launched"),
    ],
)
def test_a_promise_is_kept_broken_or_nobody_knows(
    sums: Sums, costs: list[Cost], facts: dict[str, Any], kept: bool | None, why: str
) -> None:
    found = elapsed.fields(sums, costs, about(**facts))
    assert (found["kept"], found["kept_unknown"]) == (kept, why)


def test_beside_a_program_around_fikit_nothing_is_compared_and_nothing_was_kept() -> None:
    sums = Sums(elapsed=31 * S)
    told = elapsed.fields(sums, [], about(beside_around=True))
    assert (told["kept"], told["kept_unknown"], told["slowdown"], told["no_slowdown"]) == (
        None, elapsed.AROUND, None, elapsed.AROUND,
    )  # fmt: skip
    assert elapsed.fields(sums, [], about())["kept"] is True


def test_time_in_which_a_job_was_suspended_is_no_slowdown() -> None:
    told = elapsed.fields(Sums(elapsed=30 * S, suspended=20 * S), [], about())
    assert (told["suspended_s"], told["alone_s"], told["slowdown"], told["kept"]) == (20.0, 10.0, 1.0, True)
