"""From what is said of single launches to a plan that keeps a budget: on a manual clock, with a program of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from fikitd._core import Accesses
from fikitd.gpus.residency import Again, Link, plan
from fikitd.profiles import memory_plan
from fikitd.profiles.memory_plan import CHUNK_BYTES, Budgets, Iteration, Range, iteration, orders, points

MS = 1_000_000
PAGES = CHUNK_BYTES // 4096
LAYERS = 10
LINK = Link(bytes_per_s=8 * CHUNK_BYTES / (MS / 1e9))  # eight chunks in the time of a kernel


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


def play(net: Net, of: Iteration, moves: Iterable[Any], passes: int = 6, stretch: float = 1.0) -> tuple[int, int]:
    """(most chunks there while a kernel runs, chunks that were missing, but for the first two passes) of a program that runs as `net`
    does, `stretch` times as slow, on a manual clock; moves of one pass are made in every pass, one at a time on a link as LINK."""
    chunk_ns = int(CHUNK_BYTES / LINK.bytes_per_s * 1e9)
    kernel_ns = int(net.kernel_ns * stretch)
    length_ns = (2 * net.layers + 2) * kernel_ns
    begins: list[tuple[int, bool, Range]] = []
    for number in range(passes):
        for order in moves:
            at_ns = (
                number * length_ns + (order.launch * kernel_ns if order.launch > 0 else -2 * kernel_ns) + order.delay_ns
            )
            begins.append((at_ns, order.inward, order.range))
    begins.sort(key=lambda each: each[0])
    there = set(of.ranges)
    most = missing = 0
    for number in range(passes):
        for step in range(2 * net.layers):
            start_ns = number * length_ns + step * kernel_ns
            while begins and begins[0][0] + chunk_ns <= start_ns + kernel_ns:
                at_ns, inward, moved = begins.pop(0)
                if inward and at_ns + chunk_ns <= start_ns:
                    there.add(moved)
                elif inward:  # it counts from its begin on, and is there with its end
                    begins.insert(0, (at_ns, inward, moved))
                    break
                else:
                    there.discard(moved)
            needed = {
                Range(0, (page // PAGES + i) * CHUNK_BYTES, CHUNK_BYTES)
                for page in net.touches(step)
                for i in range(net.chunks)
            }
            if number >= 2:
                missing += len(needed - there)
                most = max(most, len(there))
            there |= needed
    return most, missing


@pytest.mark.parametrize("share", [0.6, 0.8])
@pytest.mark.parametrize("slower", [1.0, 1.2])
def test_orders_keep_the_budget_without_a_miss_also_where_the_program_is_slower(share: float, slower: float) -> None:
    net = Net()
    of = net.learnt()
    budget = int(share * of.peak_bytes)
    made = plan(of.sequence, LINK, CHUNK_BYTES, budget)
    assert made.fits
    assert made.stretch == 0
    moves = list(orders(of, made, 1))
    assert {move.range for move in moves} <= set(of.ranges)
    assert len(moves) == len(made.transfers) > 0
    most, missing = play(net, of, moves, stretch=slower)
    assert missing == 0
    assert most * CHUNK_BYTES <= budget + CHUNK_BYTES, "one may be on its way"


def test_orders_of_the_next_pass_follow_its_launches() -> None:
    of = Net().learnt()
    made = plan(of.sequence, LINK, CHUNK_BYTES, of.peak_bytes // 2)
    one, two = list(orders(of, made, 1)), list(orders(of, made, 1 + of.launches))
    assert [move._replace(launch=move.launch + of.launches) for move in one] == two
    assert all(0 <= move.launch <= of.launches for move in one)
    assert all(move.delay_ns >= 0 for move in one)


def test_points_say_what_each_budget_costs() -> None:
    of = Net().learnt()
    found = points(of, LINK)
    assert [point.budget_bytes for point in found] == sorted(point.budget_bytes for point in found)
    assert found[-1] == (of.peak_bytes, 0.0, 0)
    assert all(point.moved_bytes > 0 for point in found[:-1])
    slow = points(of, Link(bytes_per_s=LINK.bytes_per_s / 50))
    assert slow[0].stretch > found[0].stretch


def test_jobs_that_run_together_share_the_room_so_that_least_is_lost() -> None:
    patient, hurried = Net(kernel_ns=20 * MS), Net()
    budgets = Budgets(LINK)
    one, two = patient.learnt(), hurried.learnt()
    budgets.learnt("patient", one)
    budgets.learnt("hurried", two)
    room = one.peak_bytes + two.peak_bytes - 14 * CHUNK_BYTES
    assert budgets.share(room) == ["hurried", "patient"]
    given = budgets.budget_bytes("patient"), budgets.budget_bytes("hurried")
    assert sum(given) <= room
    assert budgets.share(room) == [], "nothing has changed"
    budgets.left("hurried")
    assert budgets.share(room) == ["patient"]
    assert budgets.budget_bytes("patient") == one.peak_bytes
    found = budgets.plan("patient")
    assert found is not None
    assert found[1].transfers == []


def test_where_the_smallest_budgets_do_not_fit_nobody_has_one() -> None:
    budgets = Budgets(LINK)
    of = Net().learnt()
    budgets.learnt("job", of)
    budgets.share(of.peak_bytes)
    assert budgets.share(of.least_bytes - CHUNK_BYTES) == ["job"]
    assert budgets.budget_bytes("job") == 0
    assert budgets.plan("job") is None


@pytest.mark.parametrize(
    ("longer", "missed", "again"),
    [
        (1.0, 0.0, Again.NO),
        (1.29, 0.04, Again.NO),
        (1.31, 0.0, Again.DRIFT),
        (0.69, 0.0, Again.DRIFT),
        (1.0, 0.06, Again.MISSES),
    ],
)
def test_a_plan_is_made_anew_by_drift_and_misses(longer: float, missed: float, again: Again) -> None:
    budgets = Budgets(LINK)
    of = Net().learnt()
    budgets.learnt("job", of)
    budgets.share(of.peak_bytes)
    assert budgets.observed("job", of, int(longer * of.length_ns), int(missed * of.peak_bytes)) is again
    assert budgets.share(of.peak_bytes) == ([] if again is Again.NO else ["job"])


def test_a_program_that_does_something_else_has_another_plan() -> None:
    budgets = Budgets(LINK)
    one, other = Net().learnt(), Net(layers=6).learnt()
    budgets.learnt("job", one)
    assert budgets.share(one.peak_bytes) == ["job"]
    budgets.learnt("job", one)
    assert budgets.share(one.peak_bytes) == []
    budgets.learnt("job", other)
    assert budgets.share(one.peak_bytes) == ["job"]
    assert budgets.budget_bytes("job") == other.peak_bytes


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
