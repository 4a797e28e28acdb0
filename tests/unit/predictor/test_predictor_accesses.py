"""Which memory an iteration touches, put together from what was said of some of its launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fikitd._core import Accesses, merge_accesses
from fikitd.profiles import profile_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

MS = 1_000_000
LOAD, FORWARD, BACKWARD, STEP = 11, 12, 13, 14
ITERATION = ((LOAD,), (FORWARD, FORWARD, BACKWARD, STEP))  # two segments


class Program:
    """Goes through segments of kernels, a wait behind each; what launches say they touch is said by place in the iteration."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses, self.launches, self.t_ns = accesses, 0, 0

    def run(
        self, segments: Sequence[Sequence[int]] = ITERATION, says: dict[int, list[tuple[int, ...]]] | None = None
    ) -> None:
        place = 0
        for segment in segments:
            for kernel in segment:
                self.launches += 1
                self.accesses.launched(self.launches, kernel, MS)
                if says and place in says:
                    self.accesses.scanned(self.launches, kernel)
                    for touch in says[place]:
                        self.accesses.touched(self.launches, *touch)
                place += 1
                self.t_ns += MS
            self.t_ns += MS
            self.accesses.waited(self.t_ns)


@pytest.fixture
def accesses() -> Accesses:
    return Accesses()


@pytest.fixture
def program(accesses: Accesses) -> Program:
    return Program(accesses)


def places(learnt: dict[str, Any]) -> dict[int, list[tuple[int, ...]]]:
    """Of the first iteration, by place in it: (allocation, page, passes)."""
    (iteration,) = learnt["iterations"]
    found: dict[int, list[tuple[int, ...]]] = {}
    for step, *touch in iteration["touches"]:
        found.setdefault(step, []).append(tuple(touch))
    return found


def by_kernel(learnt: dict[str, Any]) -> list[int]:
    (iteration,) = learnt["iterations"]
    return [int(iteration["kernels"][kernel], 16) for kernel, _, _ in iteration["steps"]]


def test_what_passes_say_of_single_launches_becomes_one_iteration(program: Program, accesses: Accesses) -> None:
    for says in ({1: [(0, 0, 512)]}, {2: [(1, 7, 512), (0, 0, 512)]}, {2: [(1, 7, 512)]}, {0: []}):
        program.run(says=says)
    learnt = accesses.learnt()
    order = by_kernel(learnt)
    assert sorted(order) == sorted(kernel for segment in ITERATION for kernel in segment)
    at = {order.index(FORWARD): [(0, 0, 1)], order.index(FORWARD) + 1: [(0, 0, 1), (1, 7, 2)]}
    assert places(learnt) == at, "two launches of one kernel are two places"
    assert learnt["pages"] == [512, 512]
    (iteration,) = learnt["iterations"]
    assert iteration["length_ns"] == 7 * MS
    assert [scans for _, _, scans in iteration["steps"]][order.index(LOAD)] == 1
    assert profile_accesses.checked(learnt) == learnt


def test_an_iteration_begins_at_the_same_launch_wherever_a_run_began(accesses: Accesses) -> None:
    rows = ((1, 2), (3,), (4, 5, 6), (3,))
    learnt = []
    for begin in range(len(rows)):
        own = Accesses()
        program = Program(own)
        program.run(rows[begin:])
        for _ in range(4):
            program.run(rows, {place: [(place, 0, 300)] for place in range(7)})
        learnt.append(own.learnt())
    assert len({each["iterations"][0]["path"] for each in learnt}) == 1
    assert len({str(by_kernel(each)) for each in learnt}) == 1
    assert all(len(places(each)) == 7 for each in learnt)


def test_a_row_within_an_iteration_is_none(program: Program, accesses: Accesses) -> None:
    """Three segments of one kind and one of another are one iteration, not one of each."""
    rows = ((1,), (1,), (1,), (2, 2))
    for _ in range(6):
        program.run(rows, {0: [(0, 0, 300)], 3: [(1, 0, 300)]})
    longest = max(accesses.learnt()["iterations"], key=lambda each: len(each["steps"]))
    assert len(longest["steps"]) == 5
    assert {touch[1] for touch in longest["touches"]} == {0, 1}


def test_it_says_where_the_program_is(program: Program, accesses: Accesses) -> None:
    program.run()
    assert accesses.path == ""
    program.run(says={0: []})
    begin = accesses.step, accesses.waited_at
    assert accesses.path != ""
    program.run()
    assert (accesses.step, accesses.waited_at) == (begin[0], begin[1] + 5)
    assert accesses.latest_ns == 7 * MS
    program.run(((FORWARD, STEP),))
    assert accesses.path == "", "it does something else"


def test_it_finds_back_to_an_iteration_that_it_knows(program: Program, accesses: Accesses) -> None:
    for _ in range(3):
        program.run(says={1: [(0, 0, 512)]})
    program.run(((FORWARD, STEP), (5, 6)))
    for _ in range(3):
        program.run(says={2: [(1, 0, 512)]})
    learnt = accesses.learnt()
    assert sorted(places(learnt).values()) == [[(0, 0, 3)], [(1, 0, 3)]]


def test_launches_that_were_not_seen_are_no_iteration(program: Program, accesses: Accesses) -> None:
    program.run(says={1: [(0, 0, 512)]})
    accesses.missed()
    program.launches += 3
    program.run(says={1: [(0, 0, 512)]})
    assert accesses.learnt() == {}
    program.run()
    assert accesses.learnt() == {}, "one whole pass is no repetition"
    program.run(says={1: [(0, 0, 512)]})
    assert places(accesses.learnt()) != {}


def unseen(kernels: Sequence[int]) -> int:
    """The kernel that behind these leaves the hash of a segment as it is (accesses.cpp, mixed)."""
    factor, most = 0x9E3779B97F4A7C15, 2**64 - 1
    segment = 0xCBF29CE484222325
    for kernel in kernels:
        segment = (segment ^ kernel) * factor & most
        segment ^= segment >> 29
    return ((segment ^ segment >> 29 ^ segment >> 58) * pow(factor, -1, 2**64) & most) ^ segment


def test_a_longer_segment_of_the_same_hash_is_another_one(program: Program, accesses: Accesses) -> None:
    """Who makes up names of kernels can make up hashes: fikitd wrote behind the end of the iteration's steps."""
    for _ in range(3):
        program.run(((LOAD,),), {0: [(0, 0, 512)]})
    assert accesses.path != ""
    longer = (LOAD, *[unseen([LOAD])] * 5)
    program.run((longer,))
    assert accesses.path == "", "it does something else"
    program.run((longer,))
    program.run(((LOAD,), (LOAD,)), {0: []})
    assert sorted(len(each["steps"]) for each in accesses.learnt()["iterations"]) == [1]


@pytest.mark.parametrize("touch", [(4096, 0, 1), (0, 1, 1), (2**32 - 1, 0, 1), (0, 2**32 - 1, 2**32 - 1), (0, 0, 0)])
def test_what_cannot_be_is_ignored(program: Program, accesses: Accesses, touch: tuple[int, int, int]) -> None:
    for _ in range(4):
        program.run(says={1: [touch]})
    assert accesses.learnt()["iterations"][0]["touches"] == []


def test_a_launch_of_another_kernel_or_number_has_no_place(program: Program, accesses: Accesses) -> None:
    for _ in range(4):
        program.run(says={0: []})
        accesses.scanned(program.launches + 1000, LOAD)
        accesses.touched(program.launches + 1000, 0, 0, 512)
        accesses.scanned(program.launches + 2, LOAD)  # that one will be another kernel
        accesses.touched(program.launches + 2, 0, 0, 512)
        accesses.touched(program.launches + 3, 0, 0, 512)  # not said to be looked at
    assert accesses.learnt()["iterations"][0]["touches"] == []


def test_memory_is_bounded_whatever_is_said(accesses: Accesses) -> None:
    program = Program(accesses)
    for number in range(40):  # more iterations than are kept
        for _ in range(3):
            program.run(((1000 + number, 2000 + number),), {0: [(n, n, 4096) for n in range(200)]})
    learnt = accesses.learnt()
    assert len(learnt["iterations"]) <= 4
    assert all(len(each["touches"]) <= 128 for each in learnt["iterations"])
    long = Accesses()
    for number in range(40_000):
        long.launched(number + 1, 7, MS)
        long.scanned(number + 1, 7)
    long.waited(1)
    assert long.learnt() == {}


def test_what_earlier_runs_have_learnt_is_known_and_not_learnt_again(program: Program, accesses: Accesses) -> None:
    for _ in range(3):
        program.run(says={1: [(0, 0, 512)]})
    before = accesses.learnt()
    again = Accesses()
    again.expect(before)
    later = Program(again)
    for _ in range(3):
        later.run(says={4: [(1, 3, 1024)]})
    assert len(places(again.learnt())) == 1
    assert len(places(again.known())) == 2
    assert again.known()["pages"] == [512, 1024]


def test_what_is_known_is_read_in_parts(program: Program, accesses: Accesses) -> None:
    """By who must not hold up its dispatcher."""
    for _ in range(4):
        program.run(says={place: [(place, 0, 512)] for place in range(5)})
    parts: list[int] = []
    assert accesses.known(2, lambda: parts.append(accesses.step)) == accesses.known() == accesses.learnt()
    assert len(parts) == 2, "of 2, 2 and 1 launches"


def test_memory_that_is_named_between_two_parts_has_its_size(program: Program, accesses: Accesses) -> None:
    for _ in range(4):
        program.run(says={0: [(0, 0, 512)]})
    last = {0: [(9, 600, 1024)], 4: [(9, 600, 1024)]}  # wherever the iteration begins
    known = accesses.known(1, lambda: program.run(says=last))
    assert any(touch[1:3] == [9, 600] for touch in known["iterations"][0]["touches"])
    assert known["pages"][9] == 1024
    assert profile_accesses.checked(known) == known


def test_a_program_that_is_in_another_iteration_before_the_last_part_is_read_from_the_beginning(
    program: Program, accesses: Accesses
) -> None:
    other = ((BACKWARD, LOAD, LOAD),)
    for segments in (other, ITERATION):
        for _ in range(4):
            program.run(segments, {0: [(0, 0, 512)], 2: [(1, 0, 512)]})
    turns = iter([other])

    def between() -> None:
        for segments in turns:
            program.run(segments)
            program.run(segments)

    before = accesses.path
    assert accesses.known(2, between) == accesses.known()
    assert len(by_kernel(accesses.known())) == 3
    assert accesses.path != before


def test_of_a_program_that_leaves_its_iteration_before_the_last_part_nothing_is_known(
    program: Program, accesses: Accesses
) -> None:
    for _ in range(4):
        program.run(says={0: [(0, 0, 512)]})
    assert accesses.known(2) != {}
    assert accesses.known(2, lambda: program.run(((FORWARD, STEP),))) == {}


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("launched"), st.integers(0, 40), st.integers(1, 3), st.integers(-5, 5)),
            st.tuples(st.just("scanned"), st.integers(0, 40), st.integers(1, 3)),
            st.tuples(
                st.just("touched"), st.integers(0, 40), st.integers(0, 5000), st.integers(0, 9), st.integers(0, 9)
            ),
            st.tuples(st.just("waited"), st.integers(-(2**62), 2**62)),
            st.tuples(st.just("missed")),
        ),
        max_size=120,
    )
)
def test_no_row_of_reports_makes_what_a_profile_may_not_say(reports: list[tuple[Any, ...]]) -> None:
    accesses = Accesses()
    for what, *numbers in reports:
        getattr(accesses, what)(*numbers)
    learnt = accesses.learnt()
    assert profile_accesses.checked(learnt or None) == (learnt or None)


def freeing(program: Program, accesses: Accesses, *, behind: int, late: bool = False) -> None:
    """A pass that gives memory 7 back behind the launch with this place, or once the host's wait is over, and is looked at."""
    for place, kernel in enumerate((LOAD, FORWARD, BACKWARD)):
        program.launches += 1
        accesses.launched(program.launches, kernel, MS)
        accesses.scanned(program.launches, kernel)
        if place == 0:
            accesses.touched(program.launches, 7, 0, 512)
        if place == behind and not late:
            accesses.freed(program.launches, 7)
    program.t_ns += MS
    accesses.waited(program.t_ns)
    if late:
        accesses.freed(program.launches, 7)


@pytest.mark.parametrize(
    ("behind", "late"), [(0, False), (1, False), (2, True)], ids=["first", "within", "after the wait"]
)
def test_memory_is_given_back_behind_its_launch_in_each_pass(behind: int, late: bool, program: Program, accesses: Accesses) -> None:  # fmt: skip
    for _ in range(8):
        freeing(program, accesses, behind=behind, late=late)
    (iteration,) = accesses.learnt()["iterations"]
    ((step, allocation, count),) = iteration["frees"]
    assert (step, allocation) == (behind, 7)
    assert iteration["passes"] <= count <= 8


def test_what_is_given_back_is_merged_and_kept_within_bounds(program: Program, accesses: Accesses) -> None:
    for _ in range(4):
        freeing(program, accesses, behind=1)
        accesses.freed(program.launches, 8)
    accesses.freed(program.launches, 4096)
    one = accesses.learnt()
    both = merge_accesses(one, one)["iterations"][0]["frees"]
    assert both == [[step, allocation, 2 * count] for step, allocation, count in one["iterations"][0]["frees"]]
    assert profile_accesses.checked(one) == one
