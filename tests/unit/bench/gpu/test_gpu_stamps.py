"""What bench/gpu makes of kernels' stamps, on stamps whose truth is known."""

from __future__ import annotations

import random

import pytest

from bench.gpu import stamps
from bench.gpu.stamps import Stamp

US = 1000


class Gpu:
    """Two processes' kernels on a GPU of known slice and switch, with noise and a clock that ticks."""

    def __init__(
        self, slice_us: float, switch_us: float, tick_ns: int = 32, noise: float = 0.01, seed: int = 1
    ) -> None:
        self.slice_ns, self.switch_ns, self.tick_ns, self.noise = slice_us * US, switch_us * US, tick_ns, noise
        self.random = random.Random(seed)

    def _tick(self, moment: float) -> int:
        return int(moment) // self.tick_ns * self.tick_ns + 10**9

    def _kernel(self, us: float) -> float:
        return us * US * (1 + self.random.uniform(0, self.noise))

    def alone(self, us: float, count: int = 500) -> stamps.Alone:
        found, now = [], 0.0
        for _ in range(count):
            end = now + self._kernel(us)
            found.append((self._tick(now), self._tick(end)))
            now = end + 1.2 * US
        return stamps.alone(found)

    def chains(self, lengths_us: tuple[float, float], total_ms: float) -> list[list[Stamp]]:
        """Both always have work: slices in turns, kernels cut by them."""
        found: list[list[Stamp]] = [[], []]
        left, begun = [0.0, 0.0], [0.0, 0.0]
        now, who = 0.0, 0
        while now < total_ms * 1e6:
            end = now + self.slice_ns * (1 + self.random.uniform(-0.02, 0.02))
            while now < end:
                if left[who] <= 0:
                    left[who], begun[who] = self._kernel(lengths_us[who]), now
                step = min(left[who], end - now)
                now, left[who] = now + step, left[who] - step
                if left[who] <= 0:
                    found[who].append((self._tick(begun[who]), self._tick(now)))
                    now += 1.2 * US
            now += self.switch_ns * self.random.uniform(0.9, 1.1)
            who = 1 - who
        return found


def test_slice_and_switch_are_those_of_the_gpu() -> None:
    for slice_us, switch_us, tick_ns in ((1024, 50, 32), (2000, 200, 1000), (512, 20, 1)):
        gpu = Gpu(slice_us, switch_us, tick_ns)
        a, b = gpu.chains((20, 20), 400)
        found = stamps.chains(a, b, gpu.alone(20), gpu.alone(20))
        assert found["slice_ns"]["p50"] == pytest.approx(slice_us * US, rel=0.03)
        assert found["switch_ns"]["p50"] == pytest.approx(switch_us * US, abs=6 * US)
        assert found["overlap"] < 0.01
        assert found["slowdown"] == pytest.approx([1, 1], abs=0.02)


def test_a_host_that_is_late_now_and_then_makes_no_switch() -> None:
    gpu = Gpu(1024, 50)
    a, b = gpu.chains((20, 20), 400)
    a = [stamp for i, stamp in enumerate(a) if i % 97 > 3]  # four kernels in a row that were not launched in time
    found = stamps.chains(a, b, gpu.alone(20), gpu.alone(20))
    assert found["switch_ns"]["p50"] == pytest.approx(50 * US, abs=6 * US)


def test_kernels_that_run_beside_each_other_overlap_and_have_no_turns() -> None:
    usual = stamps.Alone(20 * US, 1 * US, 32)
    a = [(10**9 + i * 21 * US, 10**9 + i * 21 * US + 20 * US) for i in range(500)]
    b = [(begin + 7 * US, end + 7 * US) for begin, end in a]
    found = stamps.chains(a, b, usual, usual)
    assert found["overlap"] > 0.9
    assert "switch_ns" not in found


def test_kernels_that_slow_each_other_down_overlap_all_the_same() -> None:
    usual = stamps.Alone(20 * US, 1 * US, 32)
    a = [(10**9 + i * 41 * US, 10**9 + i * 41 * US + 40 * US) for i in range(500)]
    b = [(begin + 7 * US, end + 7 * US) for begin, end in a]
    found = stamps.chains(a, b, usual, usual)
    assert found["overlap"] > 0.9
    assert found["slowdown"] == [2, 2]


def test_the_switch_beside_kernels_that_outlast_a_slice() -> None:
    gpu = Gpu(1024, 120, noise=0.002)
    short, long = gpu.chains((20, 5000), 600)
    found = stamps.long_kernels(short, long, gpu.alone(20), gpu.alone(5000))
    assert found["switch_ns"] == pytest.approx(120 * US, rel=0.15)
    assert found["slice_ns"]["p50"] == pytest.approx(1024 * US, rel=0.03)


def now_and_then(gpu: Gpu, hold_us: float) -> tuple[list[Stamp], list[Stamp]]:
    """A kernel of 20 us now and then beside a chain; its process keeps the GPU for hold_us after it."""
    short: list[Stamp] = []
    chain: list[Stamp] = []
    now = 10.0 * US
    for i in range(300):
        until = now + (10, 50, 200, 2000)[i % 4] * US
        while now < until:
            end = now + gpu._kernel(20)
            chain.append((gpu._tick(now), gpu._tick(end)))
            now = end + 1.2 * US
        now += gpu.switch_ns
        end = now + gpu._kernel(20)
        short.append((gpu._tick(now), gpu._tick(end)))
        now = end + hold_us * US + gpu.switch_ns
    return short, chain


@pytest.mark.parametrize(("hold_us", "yields"), [(0, True), (1000, False)])
def test_whether_an_idle_process_yields(hold_us: float, yields: bool) -> None:
    gpu = Gpu(1024, 50)
    short, chain = now_and_then(gpu, hold_us)
    found = stamps.gaps(short, chain, gpu.alone(20), gpu.alone(20), 1024 * US)
    assert found["idle_yields"] is yields
    assert found["enter_ns"]["p50"] == pytest.approx(50 * US, abs=6 * US)
    assert found["leave_ns"]["p50"] == pytest.approx((50 + hold_us) * US, abs=6 * US)


def test_a_kernel_beside_others_entered_nothing() -> None:
    usual = stamps.Alone(20 * US, 1 * US, 32)
    chain = [(10**9 + i * 21 * US, 10**9 + i * 21 * US + 20 * US) for i in range(2000)]
    short = [(10**9 + i * 500 * US, 10**9 + i * 500 * US + 20 * US) for i in range(1, 80)]
    found = stamps.gaps(short, chain, usual, usual, None)
    assert found["enter_ns"] is None
    assert "idle_yields" not in found


def test_stamps_that_cannot_be_are_left_out() -> None:
    assert stamps.pairs([5, 9, 0, 0, 3, 1, 1, 4, 7]) == [(1, 4), (5, 9)]


@pytest.mark.parametrize("few", [[], [(1, 2)]])
def test_too_few_kernels_are_said_and_not_guessed_from(few: list[Stamp]) -> None:
    usual = stamps.Alone(20 * US, 1 * US, 32)
    with pytest.raises(ValueError, match="only"):
        stamps.alone(few)
    with pytest.raises(ValueError, match="same time"):
        stamps.chains(few, few, usual, usual)
    with pytest.raises(ValueError, match="long kernels"):
        stamps.long_kernels(few, few, usual, usual)


def test_latencies_are_told_by_the_pause_before() -> None:
    found = stamps.latencies([10] * 10 + [50] * 10, [1000] * 10 + [2000] * 10)
    assert found["by_gap_ns"]["1000"]["p50"] == 10
    assert found["by_gap_ns"]["2000"]["p50"] == 50
    assert found["all"]["count"] == 20
