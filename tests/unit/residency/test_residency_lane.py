"""The timetable of the link, against one that knows every nanosecond."""

from __future__ import annotations

import os

from fikitd._residency import Lane
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

PERIOD = 24
CASES = settings(max_examples=examples(int(os.environ.get("FIKIT_RESIDENCY_CASES", "300"))), deadline=None)
asked = st.tuples(st.booleans(), st.integers(0, 2 * PERIOD), st.integers(0, PERIOD), st.integers(1, 6), st.booleans())


@CASES
@given(st.lists(asked, max_size=14))
def test_the_earliest_and_the_latest_free_time_are_those_of_brute_force(
    asked: list[tuple[bool, int, int, int, bool]],
) -> None:
    lane, busy = Lane(PERIOD), [False] * PERIOD
    taken: list[tuple[int, int]] = []
    for early, begin, window, length, give_back in asked:
        free = [
            at for at in range(begin, begin + window - length + 1)
            if not any(busy[ns % PERIOD] for ns in range(at, at + length))
        ]  # fmt: skip
        found = (lane.earliest if early else lane.latest)(begin, begin + window, length)
        assert found == ((free[0] if early else free[-1]) if free else None)
        if found is not None:
            lane.take(found, length)
            taken.append((found, length))
            mark(busy, found, length, True)
        elif give_back and taken:
            lane.give_back(*taken[0])
            mark(busy, *taken.pop(0), False)


def mark(busy: list[bool], begin: int, length: int, value: bool) -> None:
    for ns in range(begin, begin + length):
        busy[ns % PERIOD] = value
