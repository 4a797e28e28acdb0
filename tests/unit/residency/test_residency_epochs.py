"""Who is resident in the next epoch: against brute force, and over many epochs in manual time."""

from __future__ import annotations

import os
from itertools import combinations

import pytest
from fikitd.gpus.residency import Epoch, EpochRules, Link, Tenant, longest_wait_ns, next_epoch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

GIB = 1 << 30
S = 1_000_000_000
CASES = settings(max_examples=examples(int(os.environ.get("FIKIT_RESIDENCY_CASES", "200"))), deadline=None)
RULES = EpochRules()
rooms = st.integers(0, 64).map(lambda gib: gib * GIB)


@st.composite
def tenants(draw: st.DrawFn, room: int, most: int = 8) -> list[Tenant]:
    """Together no more on the GPU than there is room; none has waited for so long that it goes first."""
    found, free = [], room
    for _ in range(draw(st.integers(0, most))):
        size = draw(st.integers(0, 40)) * GIB
        resident = draw(st.integers(0, min(size, free)))
        free -= resident
        runs = resident == size and draw(st.booleans())
        waited = 0 if runs else draw(st.integers(0, 299)) * S
        found.append(Tenant(size, resident, draw(st.floats(0, 1)), waited, runs))
    return found


@st.composite
def situations(draw: st.DrawFn) -> tuple[int, list[Tenant]]:
    room = draw(rooms)
    return room, draw(tenants(room))


def worth(tenant: Tenant) -> float:
    aged = tenant.work * (1 + tenant.waited_ns / RULES.patience_ns)
    return aged if tenant.runs else aged * (1 - RULES.most_lost) / (1 + RULES.hysteresis)


def best_worth(room: int, them: list[Tenant]) -> float:
    sets = (each for count in range(len(them) + 1) for each in combinations(them, count))
    return max(sum(map(worth, each)) for each in sets if sum(tenant.bytes for tenant in each) <= room)


def after(them: list[Tenant], epoch: Epoch, room: int) -> list[int]:
    """Resident bytes of each once the moves are made, one by one: never more than the room, and nothing leaves that is not there."""
    resident = [tenant.resident_bytes for tenant in them]
    for move in epoch.moves:
        assert move.bytes > 0
        resident[move.tenant] += move.bytes if move.inward else -move.bytes
        assert min(resident) >= 0
        assert sum(resident) <= room
    return resident


@CASES
@given(situations())
def test_the_set_that_runs_is_worth_as_much_as_the_best_of_all(situation: tuple[int, list[Tenant]]) -> None:
    room, them = situation
    runs = next_epoch(RULES, room, them).runs
    assert sum(them[i].bytes for i in runs) <= room
    assert sum(worth(them[i]) for i in runs) == pytest.approx(best_worth(room, them))


@CASES
@given(situations())
def test_moves_bring_in_what_runs_and_never_more_than_there_is_room(situation: tuple[int, list[Tenant]]) -> None:
    room, them = situation
    epoch = next_epoch(RULES, room, them)
    resident = after(them, epoch, room)
    assert all(resident[i] == them[i].bytes for i in epoch.runs)


@CASES
@given(situations(), st.floats(0.01, 0.5))
def test_moves_take_no_more_of_the_time_than_the_site_lets_them(
    situation: tuple[int, list[Tenant]], most: float
) -> None:
    room, them = situation
    epoch = next_epoch(EpochRules(most_lost=most), room, them)
    moved = sum(move.bytes for move in epoch.moves if not move.ahead)
    assert epoch.swap_ns == pytest.approx(moved / 24e9 * 1e9, abs=1)
    assert epoch.swap_ns <= most * (epoch.swap_ns + epoch.length_ns) * (1 + 1e-9) + 1


def test_room_that_is_free_is_filled_while_the_others_still_run() -> None:
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 0, waited_ns=30 * S)]
    epoch = next_epoch(RULES, 12 * GIB, them)
    moves = [(move.tenant, move.bytes, move.inward, move.ahead) for move in epoch.moves]
    assert epoch.runs == [1]
    assert moves == [(1, 4 * GIB, True, True), (0, 4 * GIB, False, False), (1, 4 * GIB, True, False)]


def test_what_neither_the_old_set_nor_the_new_one_uses_makes_room_while_the_old_one_runs() -> None:
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 4 * GIB, waited_ns=30 * S), Tenant(8 * GIB, 0, waited_ns=60 * S)]  # fmt: skip
    epoch = next_epoch(RULES, 12 * GIB, them)
    assert epoch.runs == [2]
    assert [(move.tenant, move.bytes, move.inward, move.ahead) for move in epoch.moves] == [
        (1, 4 * GIB, False, True), (2, 4 * GIB, True, True), (0, 4 * GIB, False, False), (2, 4 * GIB, True, False),
    ]  # fmt: skip


@CASES
@given(situations())
def test_ahead_leaves_only_what_nobody_uses_and_no_more_than_comes(situation: tuple[int, list[Tenant]]) -> None:
    room, them = situation
    epoch = next_epoch(RULES, room, them)
    ahead = [move for move in epoch.moves if move.ahead]
    leaving = [move for move in ahead if not move.inward]
    assert all(not them[move.tenant].runs and move.tenant not in epoch.runs for move in leaving)
    assert sum(move.bytes for move in leaving) <= sum(move.bytes for move in ahead if move.inward)


def test_of_those_that_wait_who_ran_last_makes_room_first() -> None:
    """It waits longest for its next turn."""
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 4 * GIB, 0.2, 40 * S), Tenant(8 * GIB, 4 * GIB, 0.2, 30 * S), Tenant(4 * GIB, 0, waited_ns=90 * S)]  # fmt: skip
    epoch = next_epoch(RULES, 16 * GIB, them)
    assert epoch.runs == [0, 3]
    assert [(move.tenant, move.bytes) for move in epoch.moves if not move.inward] == [(2, 4 * GIB)]


def test_what_a_change_takes_beside_its_moves_makes_the_epoch_longer_and_without_moves_there_is_none() -> None:
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 0, waited_ns=60 * S)]
    epoch = next_epoch(EpochRules(beside_ns=9 * S), 8 * GIB, them)
    moves_ns = 16 * GIB / 24e9 * S
    assert epoch.swap_ns == pytest.approx(9 * S + moves_ns, abs=2)
    assert epoch.length_ns == pytest.approx(9 * epoch.swap_ns, rel=1e-9)
    assert next_epoch(EpochRules(beside_ns=9 * S), 16 * GIB, them).swap_ns == 0


@pytest.mark.parametrize("works", [(0.5, 0.5, 0.5), (0.5, 0.52, 0.49)], ids=["equal", "nearly equal"])
def test_of_three_about_equal_jobs_of_which_two_fit_each_runs_two_thirds_of_the_time(
    works: tuple[float, float, float],
) -> None:
    ran, came, waited, now = [0] * 3, [0, 0, 0], [0, 0, 0], 0
    runs = [True, True, False]
    for _ in range(60):
        them = [Tenant(4 * GIB, 4 * GIB * runs[i], works[i], waited[i], runs[i], now - came[i] if runs[i] else 0) for i in range(3)]  # fmt: skip
        epoch = next_epoch(RULES, 8 * GIB, them)
        for i in range(3):
            came[i] = now if i in epoch.runs and not runs[i] else came[i]
            runs[i] = i in epoch.runs
            ran[i] += 30 * S * runs[i]
            waited[i] = 0 if runs[i] else waited[i] + 30 * S
        now += 30 * S
    assert min(ran) >= 0.6 * now


@given(st.floats(0.1, 1), st.floats(0.1, 1), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_change_that_costs_more_than_it_gains_is_never_made(runs: float, comes: float, ran_s: int, waited_s: int) -> None:  # fmt: skip
    """Its share of the newcomer's time goes to moves, however long the other one has run."""
    them = [Tenant(8 * GIB, 8 * GIB, runs, 0, True, ran_s * S), Tenant(8 * GIB, 0, comes, waited_s * S)]
    aged = comes * (1 + waited_s * S / RULES.patience_ns)
    if waited_s * S < RULES.max_wait_ns and next_epoch(RULES, 8 * GIB, them).runs == [1]:
        assert aged * (1 - RULES.most_lost) >= runs * (1 - 1e-12)


def test_one_that_has_no_work_leaves_before_any_other_and_never_comes_in() -> None:
    them = [Tenant(8 * GIB, 0, waited_ns=30 * S), Tenant(8 * GIB, 4 * GIB, waited_ns=1 * S), Tenant(8 * GIB, 4 * GIB, work=0, waited_ns=500 * S)]  # fmt: skip
    epoch = next_epoch(RULES, 8 * GIB, them)
    assert epoch.runs == [0]
    assert [move.tenant for move in epoch.moves if not move.inward] == [2, 1]


@pytest.mark.parametrize(("waited_s", "runs"), [(10, [0]), (13, [0]), (14, [1]), (20, [1])])
def test_equals_change_only_where_the_wait_is_worth_more_than_move_and_hysteresis(
    waited_s: int, runs: list[int]
) -> None:
    """1 + wait / 60 s must be above 1.1 / 0.9."""
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 0, waited_ns=waited_s * S)]
    assert next_epoch(RULES, 12 * GIB, them).runs == runs


def test_little_work_per_byte_stays_outside() -> None:
    them = [Tenant(8 * GIB, 0, 0.9), Tenant(4 * GIB, 0, 0.8), Tenant(4 * GIB, 0, 0.7)]
    assert next_epoch(RULES, 8 * GIB, them).runs == [1, 2]


def test_what_is_there_beyond_the_room_leaves_whoever_comes() -> None:
    """The high job has taken more."""
    them = [Tenant(8 * GIB, 8 * GIB, runs=True), Tenant(8 * GIB, 4 * GIB, waited_ns=1 * S)]
    epoch = next_epoch(RULES, 9 * GIB, them)
    assert epoch.runs == [0]
    assert [(move.tenant, move.bytes, move.inward) for move in epoch.moves] == [(1, 3 * GIB, False)]
    assert epoch.swap_ns == 0, "nobody waits for it"


sizes = st.lists(st.tuples(st.integers(1, 48), st.floats(0.01, 1)), min_size=1, max_size=7)


@settings(CASES, max_examples=examples(60))
@given(sizes, st.integers(5, 200), st.integers(1, 400))
def test_nobody_with_work_waits_longer_than_the_bound(
    sizes: list[tuple[int, float]], least_s: int, max_wait_s: int
) -> None:
    """Over as many epochs as show it; every tenant fits alone."""
    rules = EpochRules(least_epoch_ns=least_s * S, max_wait_ns=max_wait_s * S)
    room, count = 48 * GIB, len(sizes)
    bound = longest_wait_ns(rules, room, count)
    resident, waited, runs = [0] * count, [0] * count, [False] * count
    for _ in range(60 * count):
        them = [Tenant(gib * GIB, resident[i], work, waited[i], runs[i]) for i, (gib, work) in enumerate(sizes)]
        epoch = next_epoch(rules, room, them)
        resident = after(them, epoch, room)
        runs = [i in epoch.runs for i in range(count)]
        for i in range(count):
            assert waited[i] + (epoch.swap_ns if runs[i] else 0) <= bound
            waited[i] = 0 if runs[i] else waited[i] + epoch.swap_ns + epoch.length_ns


def test_without_the_rule_for_long_waits_one_with_little_work_would_wait_beyond_the_bound() -> None:
    """The bound says something: age alone does not keep it."""
    sizes = [(48, 1.0), (48, 0.01)]
    bound = longest_wait_ns(EpochRules(max_wait_ns=60 * S), 48 * GIB, 2)
    waits = {}
    for max_wait_s in (60, 10**6):
        waited, runs, longest = [0, 0], [True, False], 0
        for _ in range(200):
            them = [Tenant(gib * GIB, gib * GIB if runs[i] else 0, work, waited[i], runs[i]) for i, (gib, work) in enumerate(sizes)]  # fmt: skip
            epoch = next_epoch(EpochRules(max_wait_ns=max_wait_s * S), 48 * GIB, them)
            runs = [i in epoch.runs for i in range(2)]
            waited = [0 if runs[i] else waited[i] + epoch.swap_ns + epoch.length_ns for i in range(2)]
            longest = max(longest, *waited)
        waits[max_wait_s] = longest
    assert waits[60] <= bound < waits[10**6]


def test_many_tenants_are_chosen_from_in_bounded_work() -> None:
    them = [Tenant((1 + i * 7 % 31) * GIB, 0, (1 + i * 13 % 97) / 100) for i in range(2000)]
    runs = next_epoch(RULES, 64 * GIB, them).runs
    densest = sorted(them, key=lambda tenant: -tenant.work / tenant.bytes)
    free, greedy = 64 * GIB, 0.0
    for tenant in densest:
        if tenant.bytes <= free:
            free -= tenant.bytes
            greedy += worth(tenant)
    assert sum(worth(them[i]) for i in runs) >= greedy * (1 - 1e-9)


@pytest.mark.parametrize("tenant", [Tenant(-1), Tenant(1, -1), Tenant(1, work=1.5), Tenant(1, work=float("nan")), Tenant(1, waited_ns=-1), Tenant(1, runs=True, ran_ns=-1)])  # fmt: skip
def test_a_tenant_that_cannot_be_is_refused(tenant: Tenant) -> None:
    with pytest.raises(ValueError, match="tenant"):
        next_epoch(RULES, GIB, [tenant])


def test_a_change_takes_what_its_bytes_need_in_their_own_direction() -> None:
    rules = EpochRules(link=Link(48e9, 12e9))
    tenants = [Tenant(8 * GIB, 8 * GIB, runs=True, ran_ns=10**12), Tenant(8 * GIB, waited_ns=10**12)]
    epoch = next_epoch(rules, 10 * GIB, tenants)
    assert epoch.runs == [1]
    out, inward = (
        sum(move.bytes for move in epoch.moves if move.inward is way and not move.ahead) for way in (False, True)
    )
    assert out == inward == 6 * GIB
    assert epoch.swap_ns == pytest.approx(out / 12 + inward / 48, abs=1)
    longest = longest_wait_ns(rules, 10 * GIB, 2)
    assert (
        longest_wait_ns(EpochRules(link=Link(12e9, 48e9)), 10 * GIB, 2)
        == longest
        < longest_wait_ns(EpochRules(link=Link(12e9)), 10 * GIB, 2)
    )


@pytest.mark.parametrize(
    "rules",
    [
        EpochRules(link=Link(0)), EpochRules(link=Link(24e9, 0)), EpochRules(link=Link(float("inf"))), EpochRules(most_lost=0), EpochRules(most_lost=1),
        EpochRules(hysteresis=-1), EpochRules(least_epoch_ns=0), EpochRules(patience_ns=0), EpochRules(max_wait_ns=0), EpochRules(beside_ns=-1),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_are_refused(rules: EpochRules) -> None:
    with pytest.raises(ValueError, match=r"link|share|hysteresis|times"):
        next_epoch(rules, GIB, [])


def test_numbers_as_large_as_they_get_are_no_overflow() -> None:
    most = 2**63 - 1
    epoch = next_epoch(EpochRules(link=Link(1e-3)), most, [Tenant(most, most, runs=True), Tenant(most, most, waited_ns=most)])  # fmt: skip
    assert epoch.runs == [1]
    assert epoch.swap_ns > 0
    assert epoch.length_ns > 0
