"""The model behind `bench residency`: networks as published, a memory that costs what it should, rules that do what they say."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fikitd.gpus.residency import EpochRules

from bench.residency import times
from bench.residency.budgets import Case, case_of, row
from bench.residency.machine import BATCHES_OF_CHUNK, Link, Machine
from bench.residency.networks import NETWORKS, Network
from bench.residency.placed import CHUNK, LARGE, Pool, Program, Use, cached, known_lifetimes
from bench.residency.rules import NoRule, Oracle, Transfers, capuchin, fewest_bytes, vdnn
from bench.residency.turns import MS, Epochs, Gpu, Paging, S, Setting, Turns

RATES = times.Rates(times.ASSUMED, "assumed")
# Multiply-adds of an image forward, and parameters of convolutions and products, both in millions, as the papers and their implementations say.
PUBLISHED = {"VGG16": (15_470, 138.3), "InceptionV3": (5_710, 23.8), "InceptionV4": (12_250, 42.6), "ResNet50": (4_090, 25.5), "DenseNet121": (2_830, 7.9)}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_as_much_work_and_as_many_parameters_as_published(name: str) -> None:
    step = NETWORKS[name](2)
    forward = sum(kernel.flop for kernel in step.kernels if kernel.convolves) / 2 / 2e6
    weights = sum(kernel.reads[1].bytes for kernel in step.kernels if kernel.convolves) / 4e6
    assert forward == pytest.approx(PUBLISHED[name][0], rel=0.01)
    assert weights == pytest.approx(PUBLISHED[name][1], rel=0.03)
    backward = sum(kernel.flop for kernel in step.kernels if kernel.kind == "convolution" and not kernel.forward) / 2 / 2e6  # fmt: skip
    assert 1.9 * forward < backward <= 2 * forward  # all but the image's own gradient


def test_what_backward_needs_is_kept_until_then_and_every_parameter_is_changed() -> None:
    net = Network("small", 1)
    x = net.relu(net.conv(net.input(3, 8), 4, 3))
    step = net.step(net.linear(net.add(net.norm(net.conv(x, 4, 3)), x), 2))
    last = step.last_use()
    assert not step.kernels[last[x]].forward
    changed = [kernel for kernel in step.kernels if kernel.writes[0].parameter]
    assert len(changed) == 3
    assert step.kernels[-3:] == changed


def test_blocks_of_the_pool_never_lie_on_each_other_and_what_is_given_back_is_used_again() -> None:
    pool = Pool()
    sizes = [300, LARGE, 3 << 20, 15 << 20, 700_000, 5 << 20, 512, 2 << 20] * 3
    blocks = [pool.take(size) for size in sizes]
    spans = sorted((begin, begin + length) for begin, length in blocks)
    assert all(length >= size for (_, length), size in zip(blocks, sizes, strict=True))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    end = spans[-1][1]
    for block in blocks:
        pool.give(*block)
    again = [pool.take(size) for size in reversed(sizes)]
    assert max(begin + length for begin, length in again) <= end + (20 << 20)


def there_and_back(layers: int, duration_ns: int = 1_000_000) -> Program:
    order = [*range(layers), *reversed(range(layers))]
    return Program("layers", [Use(duration_ns, (layer,)) for layer in order])


def test_without_a_budget_nothing_costs_anything() -> None:
    program = there_and_back(6)
    outcome = Machine(program, 6, Link(), NoRule()).run(3)
    assert (outcome.total_ns, outcome.moved_bytes, outcome.missed_bytes) == (program.total_ns, 0, 0)


def test_a_miss_costs_its_batches_of_faults_and_both_copies() -> None:
    """Two layers in turn where one fits: each kernel misses."""
    link = Link(batch_ns=50_000)
    program = Program("two", [Use(1000, (0,)), Use(1000, (1,))])
    outcome = Machine(program, 1, link, NoRule()).run(3)
    assert outcome.missed_bytes == 2 * CHUNK
    assert outcome.moved_bytes == 4 * CHUNK
    assert outcome.total_ns == 2 * (1000 + BATCHES_OF_CHUNK * 50_000 + link.round_trip_ns)


def test_what_was_announced_costs_no_fault() -> None:
    link = Link(batch_ns=50_000)
    program = Program("two", [Use(1000, (0,)), Use(1000, (1,))])
    rule = Transfers([(0, 0, 0, False), (0, 0, 1, True), (1, 0, 1, False), (1, 0, 0, True)])
    outcome = Machine(program, 1, link, rule).run(3)
    assert outcome.missed_bytes == 0
    assert outcome.total_ns == pytest.approx(2 * (1000 + link.round_trip_ns), abs=2000)


@pytest.mark.parametrize("name", ["ResNet50", "VGG16"])
@pytest.mark.parametrize("manner", ["known lifetimes", "cached"])
@pytest.mark.parametrize("share", [0.8, 0.6])
def test_a_plan_takes_as_long_as_it_says_and_nothing_is_missing(name: str, manner: str, share: float) -> None:
    """Whoever plays a plan finds the wait that it foretold, and a peak within the budget."""
    case = case_of(name, 4, manner, RATES)
    capacity = max(int(case.peak * share), case.least)
    outcome, found = case.planned(capacity)
    assert found.fits
    assert outcome.missed_bytes == 0
    assert outcome.peak <= capacity
    assert outcome.total_ns == pytest.approx(case.program.total_ns * (1 + found.stretch), rel=0.01)
    assert outcome.moved_bytes == pytest.approx(found.moved_bytes, rel=0.02)


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_a_plan_is_as_good_as_the_oracle_and_far_better_than_faults(share: float) -> None:
    case = case_of("InceptionV3", 4, "known lifetimes", RATES)
    capacity = int(case.peak * share)
    mine, best, faults = case.planned(capacity)[0], case.by(Oracle(case.program), capacity), case.by(NoRule(), capacity)
    assert mine.total_ns <= 1.1 * best.total_ns
    assert mine.moved_bytes <= 1.1 * best.moved_bytes
    assert fewest_bytes(case.program, capacity) <= best.moved_bytes * 1.01
    assert case.figures(faults)[1] > 3 * case.figures(mine)[1]


def test_vdnn_and_capuchin_save_memory_and_cost_time() -> None:
    case = case_of("ResNet50", 4, "known lifetimes", RATES)
    for rule in (vdnn(case.program), capuchin(case.program, int(case.peak * 0.8), case.link.round_trip_ns // 2)):
        msr, eor = case.figures(case.by(rule))
        assert msr > 0.1
        assert eor > 0


def test_with_lifetimes_known_less_is_there_and_less_moves_than_in_a_cache() -> None:
    step = NETWORKS["ResNet50"](16)
    durations = times.durations_ns(step, RATES)
    known, kept = (Case(place(step, durations), Link()) for place in (known_lifetimes, cached))
    assert known.peak < kept.peak
    assert known.planned(int(known.peak * 0.7))[1].moved_bytes < kept.planned(int(kept.peak * 0.7))[1].moved_bytes


def test_recorded_seconds_are_summed_by_kind_and_steps_counted_by_their_copy() -> None:
    text = "\n".join([
        "#N 0 void cudnn::bn_fw_tr(float)", "#N 1 volta_sgemm_64x64_nt", "#N 2 Memcpy HtoD (Pageable -> Device)",
        "K,0,1,2,1000,7,1,1,1,1,1,1,0,0,0,0,1", "K,0,1,2,500,7,1,1,1,1,1,1,0,0,0,1,1", "K,0,1,2,250,7,1,1,1,1,1,1,0,0,0,1,1",
        "M,0,1,2,900,7,0,0,0,0,0,0,0,0,19267584,2,1", "M,0,1,2,900,7,0,0,0,0,0,0,0,0,4096,2,1",
    ])  # fmt: skip
    seconds, steps = times.recorded_seconds(text)
    assert dict(seconds) == {"norm": pytest.approx(1e-3), "convolution": pytest.approx(0.75e-3)}
    assert steps == 1


SMALL = Setting(gpu_bytes=4 << 30, length_ns=20 * S, step_ns=100 * MS)
SHORT = EpochRules(least_epoch_ns=2 * S, patience_ns=4 * S)


def test_epochs_lose_what_they_say_and_leave_the_high_job_alone() -> None:
    outcome = Gpu(SMALL, Epochs(SHORT)).run()
    assert outcome.misses == 0
    assert outcome.epochs >= 8
    assert outcome.jct <= 1.01
    assert 0.5 * outcome.bound < outcome.lost <= 1.2 * outcome.bound
    assert min(outcome.worked_ns) > 0.6 * max(outcome.worked_ns)


def test_epochs_work_more_than_turns_by_faults_and_those_more_than_paging() -> None:
    epochs, turns, paging = (sum(Gpu(SMALL, who).run().worked_ns) for who in (Epochs(SHORT), Turns(2 * S), Paging()))
    assert epochs > turns > 2 * paging


def test_never_are_more_bytes_there_than_room() -> None:
    for who in (Epochs(SHORT), Turns(2 * S), Paging()):
        gpu = Gpu(SMALL, who)
        gpu.run()
        assert 0 < gpu.resident() <= SMALL.room
        assert all(len(low.there) + len(low.away) == SMALL.chunks for low in gpu.lows)
    trail = Gpu(SMALL, Epochs(SHORT)).run().trail
    assert max(sum(counts) for _, counts in trail) <= SMALL.room


@pytest.mark.parametrize(
    ("value", "bar", "at_least", "holds"),
    [(1.0, 1.1, False, True), (1.2, 1.1, False, False), (3.0, 3.0, True, True), (2.9, 3.0, True, False), (1.0, None, False, None)],
)  # fmt: skip
def test_a_row_says_whether_its_bar_holds(value: float, bar: float | None, at_least: bool, holds: bool | None) -> None:
    assert row("case", "figure", value, bar, at_least=at_least)["holds"] is holds


def test_with_vdnn_the_second_kernel_waits_until_what_the_first_read_has_left() -> None:
    """Chunk 0 leaves while kernel 1 reads it, which is shorter than the copy."""
    program = Program("four", [Use(1000, (0,)), Use(1000, (0,)), Use(1000, (1,)), Use(1_000_000, (1,))])
    transfers = [(0, 0, 0, False), (2, 0, 0, True)]
    waits, goes_on = (Machine(program, 2, Link(), Transfers(transfers, waits=each)).run(3) for each in (True, False))
    assert goes_on.total_ns == program.total_ns
    assert waits.total_ns == program.total_ns + Link().chunk_ns(True) - 1000


def test_a_piece_of_a_move_ends_before_the_high_job_copies() -> None:
    """A link so slow that a whole piece takes longer than the high job is away from it."""
    slow = Setting(gpu_bytes=4 << 30, length_ns=20 * S, step_ns=100 * MS, link=Link(1e9, 1e9), jitter=0.0)
    assert Gpu(slow, Epochs(SHORT)).run().jct == pytest.approx(1, abs=1e-6)


def test_paging_works_for_the_part_of_the_idle_time_that_misses_leave() -> None:
    setting = Setting(gpu_bytes=4 << 30, length_ns=20 * S, step_ns=100 * MS, jitter=0.0)
    missed = setting.chunks / setting.kernels
    kernel_ns = setting.kernel_ns + missed * (BATCHES_OF_CHUNK * setting.batch_ns + setting.link.round_trip_ns)
    idle = setting.host_ns / (setting.copy_ns + setting.work_ns + setting.host_ns)
    worked = sum(Gpu(setting, Paging()).run().worked_ns)
    assert worked == pytest.approx(setting.length_ns * idle * setting.kernel_ns / kernel_ns, rel=0.15)


def test_a_cache_hides_which_memory_is_dead_and_nothing_else() -> None:
    step = NETWORKS["ResNet50"](1)
    durations = times.durations_ns(step, RATES)
    hidden, known = cached(step, durations), cached(step, durations, dead=True)
    assert [use.touched for use in known.uses] == [use.touched for use in hidden.uses]
    assert not any(use.freed for use in hidden.uses)
    freed = {chunk for use in known.uses for chunk in use.freed}
    weights = {chunk for k in step.kernels for t in k.touched if t.parameter for chunk in known.tensors[t.number]}
    assert freed
    assert not freed & weights, "what every iteration needs is never dead"
    assert all(set(use.freed) <= set(use.touched) for use in known.uses)
    link = Link()
    one, two = (Case(program, link).planned(int(Case(hidden, link).peak * 0.7))[0] for program in (hidden, known))
    assert two.moved_bytes < one.moved_bytes
