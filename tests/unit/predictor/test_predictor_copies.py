"""Copies: when a program copies next in one direction, by the sizes of its last copies, and how long a copy takes."""

from __future__ import annotations

import pytest
from fikitd._core import Copies
from hypothesis import given
from hypothesis import strategies as st

US, MS = 1_000, 1_000_000
PASS_NS = 10 * MS
PROGRAM = [(0, 800), (100 * US, 13_000), (200 * US, 64), (6 * MS, 13_000)]  # of one pass: when, and how many bytes
NEXT = [100 * US, 100 * US, 5_800 * US, 4 * MS]


def lived(passes: int, bytes_more: int = 0) -> tuple[Copies, list[list[int]]]:
    """What was expected after each copy of the last pass."""
    copies = Copies()
    expected: list[list[int]] = []
    for n in range(passes):
        expected = [copies.copied(n * PASS_NS + t_ns, size + n * bytes_more) for t_ns, size in PROGRAM]
    return copies, expected


def test_a_program_that_repeats_itself_is_known_from_its_third_pass_on() -> None:
    assert lived(1)[1][0] == [0] * 8
    assert [times[0] for times in lived(3)[1]] == NEXT
    assert [times[-1] for times in lived(3)[1]] == NEXT


def test_inputs_of_about_the_same_size_are_the_same() -> None:
    assert [times[0] for times in lived(6, bytes_more=1)[1]] == NEXT


def test_where_the_last_three_were_never_seen_the_last_one_says_what_follows() -> None:
    copies = Copies()
    for n in range(5):  # of another size each time, then always the same, and 5 ms without
        copies.copied(6 * n * MS, 1000 << n)
        times = copies.copied((6 * n + 1) * MS, 64)
    assert times == [5 * MS] * 8


def test_what_has_changed_is_forgotten_after_eight_copies() -> None:
    copies, _ = lived(8)
    later_ns = 8 * PASS_NS
    for n in range(8 * len(PROGRAM) + 3):
        times = copies.copied(later_ns + n * MS, PROGRAM[n % len(PROGRAM)][1])
    assert times == [MS] * 8


def test_how_long_a_copy_takes_is_learnt_from_those_that_did_not_wait() -> None:
    copies = Copies()
    assert copies.expected_ns(12_000_000) == MS  # nobody has seen one
    for extra_ns in (0, 9 * MS, 0, 5 * MS):
        copies.took(12_000_000, 2 * MS + extra_ns)
    assert copies.expected_ns(12_000_000) == pytest.approx(2 * MS, rel=1e-4)
    assert copies.expected_ns(24_000_000) == pytest.approx(4 * MS, rel=1e-4)


def test_short_copies_say_nothing_of_long_ones() -> None:
    copies = Copies()
    copies.took(4, 5 * US)
    assert copies.expected_ns(12_000_000) == MS


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)),
        max_size=50,
    )
)
def test_whatever_a_client_says_times_stay_in_bounds(said: list[tuple[int, int, int]]) -> None:
    copies = Copies()
    for t_ns, size, ns in said:
        times = copies.copied(t_ns % 2**62, size)
        copies.took(size, ns)
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] < 2**43
        assert 0 <= copies.expected_ns(size) < 2**43
