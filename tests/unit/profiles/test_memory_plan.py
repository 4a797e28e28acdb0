"""From what is said of single launches to a plan that keeps a budget: on a manual clock, with a program of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from core_fake_client import FakeClient, dispatcher
from fikitd._core import Accesses
from fikitd.base.protocol import COPY_IN, COPY_NONE, COPY_OUT, PLAN_MOVE
from fikitd.gpus.residency import Link, plan
from fikitd.profiles import memory_plan
from fikitd.profiles.memory_plan import (
    CHUNK_BYTES,
    Iteration,
    Range,
    WireMove,
    coarse,
    first_uses,
    iteration,
    outlined,
    planned,
    points,
    wire,
)
from hypothesis import assume, given
from hypothesis import strategies as st

MS = 1_000_000
PAGES = CHUNK_BYTES // 4096
LAYERS = 10
LINK = Link(8 * CHUNK_BYTES / (MS / 1e9))  # eight chunks in the time of a kernel


class Net:
    """Trains: forwards, each layer makes what its counterpart on the way back needs. Allocation 0 is a framework's: all are within it."""

    def __init__(self, layers: int = LAYERS, chunks: int = 4, every: int = 1, kernel_ns: int = MS) -> None:
        self.layers, self.chunks, self.every, self.kernel_ns = layers, chunks, every, kernel_ns
        self.accesses, self.launches, self.t_ns, self.passes = Accesses(), 0, 0, 0

    def touches(self, step: int) -> list[int]:
        """Pages where what a launch names begins."""
        layer = step if step < self.layers else 2 * self.layers - 1 - step
        own = layer * self.chunks * PAGES
        return [own] if step in (0, 2 * self.layers - 1) else [own, own - self.chunks * PAGES]

    def run(self, passes: int) -> dict[str, Any]:
        pages = self.layers * self.chunks * PAGES
        for _ in range(passes):
            for step in range(2 * self.layers):
                self.launches += 1
                self.accesses.launched(self.launches, 100 + step, self.kernel_ns)
                if (step + self.passes) % self.every == 0:
                    self.accesses.scanned(self.launches, 100 + step)
                    for page in self.touches(step):
                        self.accesses.touched(self.launches, 0, page, pages)
                self.t_ns += self.kernel_ns
            self.t_ns += 2 * self.kernel_ns
            self.accesses.waited(self.t_ns)
            self.passes += 1
        return self.accesses.learnt()

    def learnt(self, passes: int = 12) -> Iteration:
        found = iteration(self.run(passes))
        assert found is not None
        return found


def test_a_place_reaches_to_the_next_one_that_any_launch_names() -> None:
    found = Net().learnt()
    assert found.launches == 2 * LAYERS
    assert found.peak_bytes == LAYERS * 4 * CHUNK_BYTES
    assert found.least_bytes == 8 * CHUNK_BYTES, "a layer and the one before it"
    assert found.length_ns == (2 * LAYERS + 2) * MS
    assert found.pause_ns == 2 * MS
    assert found.looked_at == 1
    assert sorted(found.ranges) == [Range(0, i * CHUNK_BYTES, CHUNK_BYTES) for i in range(LAYERS * 4)]


def test_samples_of_many_passes_say_what_one_measured_pass_does() -> None:
    sampled, measured = Net(every=7).learnt(passes=30), Net().learnt()
    assert (sampled.path, sampled.looked_at) == (measured.path, 1)
    assert sorted(sampled.ranges) == sorted(measured.ranges)
    assert sampled.least_bytes == measured.least_bytes
    assert Net(every=7).learnt(passes=3).looked_at < 1


def test_what_single_passes_named_does_not_count() -> None:
    net = Net()
    net.run(12)
    net.touches = lambda step: [0, 7 * PAGES] if step == 5 else Net.touches(net, step)  # type: ignore[method-assign]
    net.run(1)
    found = iteration(net.accesses.learnt())
    assert found is not None
    assert found.least_bytes == 8 * CHUNK_BYTES


def test_the_last_chunk_of_an_allocation_is_as_long_as_it_is() -> None:
    accesses = {
        "version": 1, "pages": [PAGES + 3], "iterations": [{
            "path": "00000000000000aa", "length_ns": MS, "passes": 2, "kernels": ["0000000000000001"], "steps": [[0, 0, 1]],
            "touches": [[0, 0, PAGES - 1, 1]],
        }],
    }  # fmt: skip
    found = iteration(accesses)
    assert found is not None
    assert found.ranges == [Range(0, 0, CHUNK_BYTES), Range(0, CHUNK_BYTES, 3 * 4096)]


@pytest.mark.parametrize(
    ("touches", "chunks", "most"),
    [
        ([[0, 0, 0, 1, 3 * PAGES], [1, 0, PAGES, 1, 1]], [0, 1, 2], 3),
        ([[0, 0, 0, 1, 3 * PAGES], [1, 0, PAGES, 1], [2, 0, 5 * PAGES, 1, 10]], [0, 1, 2, 3, 4, 5], 4),
        ([[0, 0, 0, 1], [0, 0, 0, 1, 10], [1, 0, 2 * PAGES, 1, 10]], [0, 1, 2], 2),
    ],
)
def test_a_place_whose_length_is_known_is_as_long_as_that(
    touches: list[list[int]], chunks: list[int], most: int
) -> None:
    """Neither as far as to the next place, nor cut by one within it; one without a length reaches to the next place all the same."""
    accesses = {
        "version": 1, "pages": [8 * PAGES], "iterations": [{
            "path": "00000000000000aa", "length_ns": MS, "passes": 2, "kernels": ["0000000000000001"], "steps": [[0, MS, 1]] * 3,
            "touches": touches,
        }],
    }  # fmt: skip
    found = iteration(accesses)
    assert found is not None
    assert sorted(each.begin // CHUNK_BYTES for each in found.ranges) == chunks
    assert found.least_bytes == most * CHUNK_BYTES


def test_nothing_that_is_touched_is_no_plan_and_too_much_is_said() -> None:
    empty = {
        "path": "00000000000000aa",
        "length_ns": 0,
        "passes": 2,
        "kernels": ["0000000000000001"],
        "steps": [[0, 0, 1]],
        "touches": [],
    }
    assert iteration({"version": 1, "pages": [], "iterations": [empty]}) is None
    much = {**empty, "touches": [[0, 0, 0, 1]]}
    with pytest.raises(ValueError, match="more memory than can be planned"):
        iteration({"version": 1, "pages": [2**32 - 1], "iterations": [much]})


def chunks_of(move: WireMove) -> list[tuple[int, int]]:
    return [(move.allocation, move.chunk + i) for i in range(move.chunks)]


def uses_of(of: Iteration) -> list[set[tuple[int, int]]]:
    """Of each launch the chunks of 2 MiB that it touches."""
    found = []
    for own in of.touched:
        ranges = [of.ranges[piece] for piece in own]
        found.append(
            {
                (r.allocation, c)
                for r in ranges
                for c in range(r.begin // CHUNK_BYTES, -(-(r.begin + r.size) // CHUNK_BYTES))
            }
        )
    return found


def replay(of: Iteration, moves: list[WireMove], budget: int, choose: Callable[[], bool], passes: int = 4) -> None:
    """As a shim carries moves out: one after the other, each behind the end of its launch; a launch waits for those before which it stands. Which
    of the two goes on, where both can, is `choose`'s: times do not matter. After the moves of the first pass nothing is beyond the budget."""
    uses = uses_of(of)
    there = set().union(*uses)
    row = []
    for number in range(passes):
        for move in moves:
            after = number * of.launches + move.after
            before = (number + (move.before <= move.after)) * of.launches + move.before
            row.append((after, before if move.copy == COPY_IN else None, move))
    launched = moved = 0
    while launched < passes * of.launches:
        launch_can = all(before != launched for _, before, _ in row[moved:] if before is not None)
        move_can = moved < len(row) and row[moved][0] < launched
        assert launch_can or move_can, "nobody can go on"
        if move_can and (not launch_can or choose()):
            own = chunks_of(row[moved][2])
            if row[moved][1] is None:
                there.difference_update(own)
            else:
                there.update(own)
            moved += 1
            assert moved < len(moves) or len(there) * CHUNK_BYTES <= budget
        else:
            assert uses[launched % of.launches] <= there, "it would be a page fault"
            launched += 1


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[str, Any], float, float]:
    """(accesses, share of the memory that is the budget, bytes per second of the link)."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    places = [(allocation, chunk) for allocation, size in enumerate(sizes) for chunk in range(size)]
    touched = draw(st.lists(st.sets(st.sampled_from(places), max_size=6), min_size=2, max_size=20))
    lengths_ns = st.one_of(st.integers(MS // 500, MS // 10), st.integers(MS // 10, 5 * MS))
    steps = [[0, draw(lengths_ns), 1] for _ in touched]
    accesses = {
        "version": 1, "pages": [size * PAGES for size in sizes], "iterations": [{
            "path": "00000000000000aa", "length_ns": sum(ns for _, ns, _ in steps) + draw(st.integers(0, 20 * MS)), "passes": 2,
            "kernels": ["0000000000000001"], "steps": steps,
            "touches": sorted([step, allocation, chunk * PAGES, 1] for step, own in enumerate(touched) for allocation, chunk in own),
        }],
    }  # fmt: skip
    return accesses, draw(st.floats(0.3, 1.0)), draw(st.floats(0.2, 40)) * CHUNK_BYTES * 1000


@given(programs(), st.randoms(use_true_random=False), st.sampled_from([1, 2, 4]))
def test_moves_one_after_the_other_keep_the_budget_and_nobody_waits_for_ever(
    made: tuple[dict[str, Any], float, float], chance: Random, pieces: int
) -> None:
    accesses, share, rate = made
    of = iteration(accesses, 0, pieces)
    assume(of is not None)
    assert of is not None
    budget = max(int(share * of.peak_bytes), of.least_bytes)
    found = plan(of.sequence, Link(rate), of.piece_bytes, budget)
    assume(found.fits and found.steady)
    moves = wire(of, found)
    assert [move.after for move in moves] == sorted(move.after for move in moves)
    replay(of, moves, budget, choose=lambda: chance.random() < 0.5)
    replay(of, moves, budget, choose=lambda: True)
    replay(of, moves, budget, choose=lambda: False)


@given(programs(), st.sampled_from([0.4, 0.7, 1.0]))
def test_what_is_sent_is_what_the_core_takes(made: tuple[dict[str, Any], float, float], share: float) -> None:
    accesses, _, rate = made
    of = iteration(accesses)
    assume(of is not None)
    assert of is not None
    found = planned(accesses, Link(rate), max(int(share * of.peak_bytes), of.least_bytes))
    assume(found is not None)
    assert found is not None
    said, moves = found
    assert len(moves) == 16 * said.moves
    with dispatcher("fifo") as running:
        FakeClient(running, 1, 5)
        assert running.set_plan(1, 1, said.launches, moves, 0) != 0


@pytest.mark.parametrize(
    ("durations_us", "needed_by", "behind"),
    [
        (
            [5, 50, 5, 900],
            3,
            [1, 1, 2, 3],
        ),  # behind the second, which the device needs longer for than the host for the calls
        ([5, 5, 50, 900], 3, [2, 2, 2, 3]),
        ([5, 50, 5, 900], 1, [0, 1, 2, 3]),  # the second needs what comes
        ([5, 900, 5, 900], 3, [0, 1, 2, 3]),  # it would begin too late
        ([5, 5, 5, 5], 3, [0, 1, 2, 3]),
        ([50, 50, 50, 50], 3, [0, 1, 2, 3]),
    ],
)
def test_moves_stand_behind_a_launch_that_still_runs_when_the_driver_is_asked(
    durations_us: list[int], needed_by: int, behind: list[int]
) -> None:
    steps = [[0, 1000 * each, 1] for each in durations_us]
    accesses = {
        "version": 1, "pages": [PAGES, PAGES], "iterations": [{
            "path": "00000000000000aa", "length_ns": MS, "passes": 2, "kernels": ["0000000000000001"], "steps": steps,
            "touches": [[0, 0, 0, 1], [needed_by, 1, 0, 1]],
        }],
    }  # fmt: skip
    of = iteration(accesses)
    assert of is not None
    row = [SimpleNamespace(kernel=0, chunk=1, inward=True)]
    row += [SimpleNamespace(kernel=launch, chunk=0, inward=False) for launch in range(4)]
    made: Any = SimpleNamespace(transfers=row)
    moves = wire(of, made)
    assert sorted({move.after for move in moves if move.copy == COPY_OUT}) == sorted(set(behind))
    assert [move.after for move in moves if move.copy == COPY_IN] == [behind[0]]


def in_a_row(launches: int = 12, chunks: int = 8) -> dict[str, Any]:
    """Accesses of a program that goes through its memory launch by launch."""
    return {
        "version": 1, "pages": [chunks * PAGES] * launches, "iterations": [{
            "path": "00000000000000aa", "length_ns": launches * 4 * MS + MS, "passes": 2, "kernels": ["0000000000000001"],
            "steps": [[0, 4 * MS, 1]] * launches, "touches": [[step, step, 0, 1] for step in range(launches)],
        }],
    }  # fmt: skip


def test_over_a_link_so_slow_that_no_pass_is_like_the_next_the_row_for_a_faster_one_is_sent_and_waited_for() -> None:
    accesses, budget = in_a_row(), 63 * CHUNK_BYTES
    slow = Link(2e9)
    of = iteration(accesses)
    assert of is not None
    assert not plan(of.sequence, slow, CHUNK_BYTES, budget).steady
    found = planned(accesses, slow, budget)
    assert found is not None
    said, moves = found
    takes_s = said.moved_bytes / slow.both_bytes_per_s
    assert said.stretch == pytest.approx(takes_s / (said.length_ns / 1e9) - 1), "the link is all that it waits for"
    assert said.stretch > 0.3
    replay(of, [WireMove(*move) for move in PLAN_MOVE.iter_unpack(moves)], budget, choose=lambda: True)
    (point,) = [each for each in points(of, slow, (), budget) if each.budget_bytes == budget]
    assert (point.stretch, point.moved_bytes) == (said.stretch, said.moved_bytes)
    assert [each.budget_bytes for each in points(of, slow, (), budget, lambda: False)] == [of.peak_bytes], "no time"


def test_neighbours_that_go_behind_the_same_launch_go_as_one() -> None:
    of = Net(chunks=40).learnt()
    found = plan(of.sequence, LINK, CHUNK_BYTES, int(0.7 * of.peak_bytes))
    moves = wire(of, found)
    assert sum(move.chunks for move in moves) == len(found.transfers)
    assert len(moves) < len(found.transfers) / 8
    assert max(move.chunks for move in moves) <= 32


def test_what_no_launch_touches_leaves_behind_the_first_one() -> None:
    accesses = Net().run(12)
    accesses["pages"] = [accesses["pages"][0], 70 * PAGES + 1, 0, 1]
    of = iteration(accesses)
    assert of is not None
    assert of.idle == [Range(1, 0, 70 * CHUNK_BYTES + 4096), Range(3, 0, 4096)]
    moves = wire(of, plan(of.sequence, LINK, CHUNK_BYTES, of.peak_bytes))
    assert moves == [
        (0, 0, 0, 1, 32, COPY_OUT), (0, 0, 32, 1, 32, COPY_OUT), (0, 0, 64, 1, 7, COPY_OUT), (0, 0, 0, 3, 1, COPY_OUT),
    ]  # fmt: skip


def test_memory_between_touched_places_is_not_idle() -> None:
    accesses = Net(layers=3, chunks=2).run(12)
    steps = accesses["iterations"][0]["touches"]
    accesses["iterations"][0]["touches"] = [each for each in steps if each[2] != 0]  # nobody touches the first layer's
    of = iteration(accesses)
    assert of is not None
    assert of.idle == [Range(0, 0, 2 * CHUNK_BYTES)]


def test_a_plan_of_too_many_moves_is_one_of_larger_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    accesses = Net(layers=16, chunks=4).run(12)
    budget = int(0.7 * 64) * CHUNK_BYTES
    fine = planned(accesses, LINK, budget)
    assert fine is not None
    monkeypatch.setattr(memory_plan, "_WINDOW", 1)
    many = planned(accesses, LINK, budget)
    assert many is not None
    assert many[0].moves > fine[0].moves
    monkeypatch.setattr(memory_plan, "PLAN_MOVES", many[0].moves - 1)
    coarser = planned(accesses, LINK, budget)
    assert coarser is not None
    assert coarser[0].moves < many[0].moves
    monkeypatch.setattr(memory_plan, "PLAN_MOVES", 1)
    assert planned(accesses, LINK, budget) is None


def test_much_memory_is_planned_in_larger_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    accesses = Net().run(12)
    monkeypatch.setattr(memory_plan, "MOST_PIECES", 10)
    of = coarse(accesses)
    assert of is not None
    assert (of.piece_bytes, len(of.ranges)) == (4 * CHUNK_BYTES, 10)
    monkeypatch.setattr(memory_plan, "MOST_WORK", 100)
    of = coarse(accesses)
    assert of is not None
    assert of.piece_bytes == 8 * CHUNK_BYTES
    outline = outlined(accesses, LINK, 0)
    assert outline is not None
    assert outline.peak_bytes == of.peak_bytes


def test_what_comes_back_is_there_for_a_slower_link_too(monkeypatch: pytest.MonkeyPatch) -> None:
    accesses, fast, budget = Net(chunks=16).run(12), LINK.times(4), 144 * CHUNK_BYTES
    early = planned(accesses, fast, budget)
    monkeypatch.setattr(memory_plan, "SLOWER", ())
    late = planned(accesses, fast, budget)
    assert early is not None
    assert late is not None
    assert (early[0].stretch, late[0].stretch) == (0, 0)
    assert early[0].moved_bytes <= 1.1 * late[0].moved_bytes

    def ahead(moves: bytes) -> float:
        """Launches between the one behind which a move in begins and the one that needs it, on the mean."""
        own = [move for move in map(WireMove._make, PLAN_MOVE.iter_unpack(moves)) if move.copy == COPY_IN]
        return sum((move.before - move.after) % early[0].launches for move in own) / len(own)

    assert ahead(early[1]) > 1.2 * ahead(late[1])


def test_an_outline_says_what_the_room_would_cost() -> None:
    accesses = Net().run(12)
    room = 23 * CHUNK_BYTES
    outline = outlined(accesses, LINK, room + 5)
    assert outline is not None
    assert room in [point.budget_bytes for point in outline.points]
    assert outline.looked_at == 1
    assert outline.points[-1] == (40 * CHUNK_BYTES, 0.0, 0)
    found = planned(accesses, LINK, room)
    assert found is not None
    assert found[0].budget_bytes == room
    assert planned(accesses, LINK, CHUNK_BYTES) is None, "less than one launch touches"


def test_points_say_what_each_budget_costs() -> None:
    of = Net().learnt()
    found = points(of, LINK)
    assert [point.budget_bytes for point in found] == sorted(point.budget_bytes for point in found)
    assert found[-1] == (of.peak_bytes, 0.0, 0)
    assert all(point.moved_bytes > 0 for point in found[:-1])
    slow = points(of, LINK.times(1 / 50))
    assert slow[0].stretch > found[0].stretch


def test_it_is_of_the_same_pages_as_the_shim() -> None:
    assert memory_plan.PAGE_BYTES * PAGES == CHUNK_BYTES


def test_allocations_say_for_how_long_they_are_not_needed() -> None:
    step = [0, MS, 1]
    found = {
        "path": "00000000000000aa", "length_ns": 6 * MS, "passes": 2, "kernels": ["0000000000000001"], "steps": [step] * 4,
        "touches": [[0, 0, 0, 1], [3, 0, 0, 1], [1, 1, 0, 1]],
    }  # fmt: skip
    accesses = {"version": 1, "pages": [PAGES, 2 * PAGES, 5], "iterations": [found]}
    assert memory_plan.allocations(accesses) == [
        (1, 2 * CHUNK_BYTES, 1, 5 * MS),
        (0, CHUNK_BYTES, 2, 2 * MS),
    ], "around the iteration, whose last 2 ms are pauses"


def test_memory_that_is_given_back_is_away_without_a_move() -> None:
    """Two buffers that are never there together: known, they need the room of one; else of both."""
    steps = [[0, MS, 4]] * 4
    touches = [[0, 0, 0, 4], [1, 0, 0, 4], [2, 1, 0, 4], [3, 1, 0, 4]]
    one = {"path": "00000000000000aa", "length_ns": 5 * MS, "passes": 4, "kernels": ["0000000000000001"], "steps": steps, "touches": touches}  # fmt: skip
    for frees, peak in (([], 2), ([[1, 0, 4], [3, 1, 4]], 1), ([[1, 0, 1], [3, 1, 1]], 2)):
        found = iteration({"version": 1, "pages": [PAGES, PAGES], "iterations": [{**one, "frees": frees}]})
        assert found is not None
        assert found.peak_bytes == peak * CHUNK_BYTES, frees


def takes_anew(frees: list[list[int]]) -> dict[str, Any]:
    """Two buffers in turn, of which the second is large; a third is there all the time."""
    touches = [[0, 0, 0, 4], [1, 0, 0, 4], [2, 1, 0, 4], [3, 1, 0, 4], [3, 2, 0, 4]]
    one = {"path": "00000000000000aa", "length_ns": 5 * MS, "passes": 4, "kernels": ["0000000000000001"], "steps": [[0, MS, 4]] * 4, "touches": touches, "frees": frees}  # fmt: skip
    return {"version": 1, "pages": [PAGES, 40 * PAGES, PAGES], "iterations": [one]}


@pytest.mark.parametrize(
    ("frees", "uses"),
    [
        ([], []),
        ([[1, 0, 4]], [(0, 0, 0, 0, 1, COPY_NONE)]),
        ([[1, 0, 4], [2, 0, 4]], [(0, 0, 0, 0, 1, COPY_NONE)]),
        ([[0, 0, 4]], [(0, 1, 0, 0, 1, COPY_NONE)]),
        ([[1, 0, 1]], []),
        ([[1, 0, 4], [3, 1, 4]], [(0, 0, 0, 0, 1, COPY_NONE), (0, 2, 0, 1, 32, COPY_NONE), (0, 2, 32, 1, 8, COPY_NONE)]),
    ],
    ids=["kept", "given back", "twice", "within", "once in four passes", "both, in the order of the launches"],
)  # fmt: skip
def test_a_first_use_is_of_the_next_launch_that_touches_what_was_given_back(
    frees: list[list[int]], uses: list[tuple[int, ...]]
) -> None:
    found = iteration(takes_anew(frees))
    assert found is not None
    assert first_uses(found) == uses


def test_first_uses_have_the_room_that_moves_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    accesses = takes_anew([[1, 0, 4], [3, 1, 4]])
    found = planned(accesses, LINK, 42 * CHUNK_BYTES)
    assert found is not None
    assert (found[0].moves, len(found[1]) // PLAN_MOVE.size) == (0, 3)
    monkeypatch.setattr(memory_plan, "PLAN_MOVES", 2)
    assert planned(accesses, LINK, 42 * CHUNK_BYTES) == (found[0], found[1][: 2 * PLAN_MOVE.size])
    of = iteration(accesses)
    assert of is not None
    monkeypatch.setattr(memory_plan, "MOST_TOUCHES", 40)
    assert first_uses(of) == [], "a profile may say anything"


def play(of: Iteration, entries: list[WireMove], budget: int, passes: int = 4) -> None:
    """As a shim goes by a plan over a link that takes no time: moves behind their launches, first uses before theirs. From the second pass on nothing is beyond the
    budget, each launch finds what it touches, and what is brought was not there. What is given back counts as gone behind its last use, as it does for a greedy plan."""
    last = [list(own) for own in of.freed]
    for launch, own in enumerate(of.freed):
        for piece in own:
            users = [each for each, touched in enumerate(of.touched) if piece in touched]
            last[max((each for each in users if each <= launch), default=users[-1])].append(piece)
    uses, freed = uses_of(of), uses_of(replace(of, touched=last))
    there: set[tuple[int, int]] = set()
    for number in range(passes):
        for launch, touched in enumerate(uses):
            firsts = (each for each in entries if each.copy == COPY_NONE and each.before == launch)
            coming = {chunk for each in firsts for chunk in chunks_of(each)}
            if number == 0:
                there |= touched
            assert number == 0 or not coming & there
            there |= coming
            assert touched <= there, "it would be a page fault"
            assert number == 0 or len(there) * CHUNK_BYTES <= budget
            there -= freed[launch]
            for move in entries:
                if move.after == launch and move.copy == COPY_OUT:
                    there.difference_update(chunks_of(move))
                elif move.after == launch and move.copy == COPY_IN:
                    there.update(chunks_of(move))


@given(programs(), st.data())
def test_first_uses_are_within_the_budget_and_leave_nothing_to_faults(
    made: tuple[dict[str, Any], float, float], data: st.DataObject
) -> None:
    accesses, share, rate = made
    found = accesses["iterations"][0]
    given_back = st.tuples(st.sampled_from(range(len(found["steps"]))), st.sampled_from(range(len(accesses["pages"]))))
    found["frees"] = [[*each, found["passes"]] for each in sorted(data.draw(st.sets(given_back, max_size=8)))]
    of = iteration(accesses)
    assume(of is not None)
    assert of is not None
    budget = max(int(share * of.peak_bytes), of.least_bytes)
    row = plan(of.sequence, Link(rate), of.piece_bytes, budget)
    assume(row.fits and row.steady)
    play(of, [*wire(of, row), *first_uses(of)], budget)
