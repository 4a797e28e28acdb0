"""How fast a GPU's link is: what is believed before anything moved, whose word counts for whom, and when a plan is made for another rate."""

from __future__ import annotations

import itertools

import pytest
from fikitd.gpus.link_rate import ASSUMED, STEADY_NS, LinkRate, is_off
from fikitd.gpus.residency import Link
from hypothesis import given
from hypothesis import strategies as st

S = 1_000_000_000


def test_a_shims_word_counts_in_its_own_plan_and_what_turns_moved_for_all_others() -> None:
    link = LinkRate()
    assert (link.link, link.of(1)) == (ASSUMED, ASSUMED)
    link.said(0, 1, 2 * S, 2 * S)
    link.said(0, 2, 0, 0)
    assert link.of(1) == Link(2e9)
    assert link.link == link.of(2) == ASSUMED, "nobody's word moves others"
    link.moved([5], 50 * S, S, inward=True)
    assert link.link == link.of(2) == Link(50e9, 24e9)
    link.moved([5], 10 * S, S, inward=True)
    assert link.link == Link(40e9, 24e9)
    assert link.of(1) == Link(2e9), "its own plan is made by its own word"


def test_what_is_measured_is_told_apart_from_what_is_assumed() -> None:
    link = LinkRate()
    assert link.measured(1) == (None, None)
    link.said(0, 1, 48 * S, 0)
    assert (link.measured(1), link.measured(2)) == ((48e9, None), (None, None))
    link.moved([5], 14 * S, S, inward=False)
    assert (link.measured(1), link.measured(2)) == ((48e9, 14e9), (None, 14e9))


def test_each_direction_is_learnt_by_itself() -> None:
    link = LinkRate()
    link.moved([5], 14 * S, S, inward=False)
    link.said(0, 1, 48 * S, 0)
    assert link.link == Link(24e9, 14e9)
    assert link.of(1) == Link(48e9, 14e9)
    link.said(0, 1, 48 * S, 9 * S)
    assert link.of(1) == Link(48e9, 9e9), "its first word of this direction"
    for second in range(12):
        link.said(second * S, 1, 48 * S, 4 * S)
    assert link.of(1) == Link(48e9, 4e9)


@pytest.mark.parametrize("inward", [True, False])
def test_of_turns_the_fastest_jobs_moves_count(inward: bool) -> None:
    link = LinkRate()

    def believed() -> float:
        return link.link.in_bytes_per_s if inward else link.link.out_bytes_per_s

    link.moved([5, 6], 20 * S, S, inward=inward)
    for _ in range(20):
        link.moved([6], 2 * S, S, inward=inward)
    assert believed() == 20e9, "one that reports late makes the link no slower"
    link.moved([5], 40 * S, S, inward=inward)
    assert believed() == 25e9
    link.keep_jobs({6})
    assert believed() == 25e9, "until something moves"
    link.moved([6], 2 * S, S, inward=inward)
    assert believed() < 3e9


def test_who_is_gone_has_no_word() -> None:
    link = LinkRate()
    for client, rate in ((1, 20 * S), (2, 21 * S)):
        link.said(0, client, rate, rate)
    link.keep({2})
    assert (link.of(1), link.of(2)) == (ASSUMED, Link(21e9))


def test_what_no_link_does_is_not_believed() -> None:
    link = LinkRate()
    link.said(0, 1, 1, 2**53)
    link.said(0, 2, 2**53, 1)
    assert (link.of(1), link.of(2)) == (Link(1e9, 200e9), Link(200e9, 1e9))
    link.moved([5], 2**40, 1, inward=True)
    assert link.link == Link(200e9, 24e9)


def counted(words: list[tuple[float, int]]) -> list[float]:
    """For plans, after each of these: (seconds since the word before, bytes per second out)."""
    link, now_ns, found = LinkRate(), 0, []
    for after_s, rate in words:
        now_ns += int(after_s * S)
        link.said(now_ns, 1, 0, rate)
        found.append(link.of(1).out_bytes_per_s)
    return found


def test_the_first_word_counts_at_once_and_another_one_when_its_shim_has_held_to_it() -> None:
    assert counted([(0, 4 * S), *[(1, 12 * S)] * 10]) == [4e9] * 11
    assert counted([(0, 4 * S), *[(1, 12 * S)] * 11]) == [*[4e9] * 11, 12e9]
    assert counted([(0, 12 * S), *[(1, 4 * S)] * 11])[-1] == 4e9
    assert set(counted([(0, 4 * S), *[(1, 5 * S)] * 30])) == {4e9}, "near enough"
    assert STEADY_NS == 10 * S


def test_moves_that_meet_those_of_another_process_now_and_then_change_no_plan() -> None:
    """Over a link of 4 GB/s, with moves of 2 of its GB/s while both move."""
    both_move_now_and_then = [(1, 4 * S), (3, 2 * S), (3, 2 * S), (2, 4 * S)] * 50
    assert set(counted(both_move_now_and_then)) == {4e9}
    assert set(counted([(1, 2 * S), *both_move_now_and_then])) == {2e9}


def test_a_word_that_wanders_does_not_count_before_it_stays_where_it_is() -> None:
    assert counted([(0, 4 * S), (6, 8 * S), (6, 16 * S), (6, 40 * S), (6, 90 * S)])[-1] == 4e9
    assert counted([(0, 4 * S), (6, 8 * S), (6, 16 * S), (6, 17 * S), (6, 18 * S)])[-1] == 18e9


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(S, 10 * S)), min_size=1, max_size=60))
def test_whatever_a_shim_says_plans_are_made_for_another_rate_once_in_so_long_at_most(
    words: list[tuple[float, int]],
) -> None:
    rates = counted(words)
    changes = sum(before != after for before, after in itertools.pairwise(rates))
    assert changes * STEADY_NS <= sum(after_s for after_s, _ in words) * S
    assert set(rates) <= {rate / 1.0 for _, rate in words}


@pytest.mark.parametrize(("now", "off"), [(24e9, False), (17e9, False), (35e9, False), (16e9, True), (36e9, True)])
def test_a_rate_is_off_by_a_factor_of_one_and_a_half_in_either_direction(now: float, off: bool) -> None:
    assert is_off(24e9, now) is off
