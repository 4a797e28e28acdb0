"""fikit-replay in manual time on recordings of hosts and devices of many kinds, made up at random: each takes as long
again as it took."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from emulator_tools import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fikitd import paths

sys.path.insert(0, str(ROOT))
from bench.recordings import Made


@dataclass
class Life(Made):
    """Streams that wait for each other, and synchronisations that wait for one of them."""

    one_at_a_time: bool = False  # a device that runs one kernel at a time, whatever its stream

    def kernel(self, us: float, stream: int, call: float) -> None:
        if self.one_at_a_time:
            self.wait(stream, *self.ends)
        self.work("gemm<float>", us, stream=stream, call=call)

    def wait(self, stream: int, *others: int) -> None:
        """What comes next in the stream begins after all that the others have now."""
        self.ends[stream] = max(self.ends.get(other, 0.0) for other in (stream, *others))

    def synchronize_stream(self, stream: int) -> None:
        begin = self.host
        self.host = max(self.host, self.ends.get(stream, 0.0)) + self.random.uniform(2.0, 6.0)
        fields = f"{begin:.3f},{self.host - begin:.3f},,0.0,,,,,,,,,,"
        self.lines.append(f"S,{fields},{self._name('cudaStreamSynchronize')},{self.thread}")


def replay(made: Made, *where: str, env: dict[str, str] | None = None) -> tuple[float, float]:
    """(recorded, replayed) span in ms."""
    command = [paths.native_dir() / "bin/fikit-replay", *(where or ("model",))]
    done = subprocess.run(command, input=made.text(), env=env, capture_output=True, check=True, timeout=100)
    answer = json.loads(done.stdout)
    return float(answer["recorded_ms"]), float(answer["replayed_ms"])


def ping_pong(life: Life) -> None:
    """Two streams, each of which waits for the other: nothing overlaps, though everything was launched long before."""
    for _ in range(150):
        life.kernel(100, 1, 5)
        life.wait(2, 1)
        life.kernel(60, 2, 5)
        life.wait(1, 2)


def one_buffer(life: Life) -> None:
    """Upload, kernel, download, each in a stream of its own, with one buffer: a frame begins when the last one has ended."""
    for _ in range(100):
        life.wait(1, 3)
        life.work("Memcpy HtoD (Pinned -> Device)", 200, stream=1, size=4_000_000)
        life.wait(2, 1)
        life.kernel(150, 2, 5)
        life.wait(3, 2)
        life.work("Memcpy DtoH (Device -> Pinned)", 100, stream=3, size=2_000_000)


def one_kernel_at_a_time(life: Life) -> None:
    """Eight streams on a device with room for one kernel."""
    life.one_at_a_time = True
    for i in range(500):
        life.kernel(life.random.choice([20, 80, 300]), 1 + i % 8, 5)


def answers_beside_training(life: Life) -> None:
    """Short work whose stream the host waits for, beside long work that it never waits for."""
    for _ in range(80):
        life.kernel(3000, 1, 5)
        for _ in range(6):
            life.kernel(25, 2, 5)
            life.synchronize_stream(2)
            life.think(120)


def copies_beside_kernels(life: Life) -> None:
    for _ in range(200):
        life.kernel(120, 7, 5)
        life.work("Memcpy HtoD (Pinned -> Device)", 100, stream=20, size=2_000_000)
        life.work("Memcpy DtoH (Device -> Pinned)", 80, stream=21, size=2_000_000)
        life.think(20)


def kernels_of_one_us(life: Life) -> None:
    for _ in range(10_000):
        life.kernel(1, 7, 2)


def kernels_of_a_tenth_of_a_second(life: Life) -> None:
    for _ in range(60):
        life.kernel(100_000, 7, 5)


def synchronised_each_time(life: Life) -> None:
    for _ in range(400):
        life.kernel(life.random.choice([3, 30, 200]), 7, 5)
        life.synchronize()
        life.think(life.random.choice([1, 10, 500]))


def bursts_and_hours(life: Life) -> None:
    """A few kernels, then an hour of nothing."""
    for _ in range(20):
        for _ in range(life.random.randint(1, 200)):
            life.kernel(life.random.lognormvariate(2.5, 1.2), 7, life.random.uniform(2, 15))
        life.think(3.6e9)


KINDS = (
    ping_pong,
    one_buffer,
    one_kernel_at_a_time,
    answers_beside_training,
    copies_beside_kernels,
    kernels_of_one_us,
    kernels_of_a_tenth_of_a_second,
    synchronised_each_time,
    bursts_and_hours,
)


@pytest.mark.parametrize("live", KINDS)
def test_recording_of_a_kind_takes_as_long_again(live: Callable[[Life], None]) -> None:
    for seed in (1, 2):
        life = Life(random.Random(seed))
        live(life)
        recorded_ms, replayed_ms = replay(life)
        assert replayed_ms == pytest.approx(recorded_ms, rel=0.03)


def test_order_between_streams_reaches_the_driver(emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    config = tmp_path / "device.toml"
    # Room for all kernels at a time: only what the player does keeps them apart.
    config.write_text('[device]\nconcurrent_kernels = 8\n[[kernel]]\nmatch = "*"\nduration = "param0_ns"\n')
    life = Life(random.Random(1))
    ping_pong(life)
    recorded_ms, replayed_ms = replay(life, "driver", env=emulator_env(EMUCUDA_CONFIG=str(config)))
    assert replayed_ms > 0.95 * recorded_ms  # a busy machine is late


DURATIONS = st.sampled_from([20.0, 120.0, 900.0, 9_000.0])
STREAMS = st.integers(1, 5)
ACTIONS = st.one_of(
    st.tuples(st.just("kernel"), DURATIONS, STREAMS, st.floats(3.0, 9.0)),
    st.tuples(st.just("kernel"), DURATIONS, STREAMS, st.floats(3.0, 9.0)),
    st.tuples(st.just("upload"), DURATIONS, STREAMS),
    st.tuples(st.just("download"), DURATIONS, STREAMS),
    st.tuples(st.just("read"), DURATIONS, STREAMS),
    st.tuples(st.just("wait"), STREAMS, STREAMS),
    st.tuples(st.just("synchronize_stream"), STREAMS),
    st.tuples(st.just("synchronize")),
    st.tuples(st.just("think"), st.sampled_from([1.0, 15.0, 200.0, 5_000.0])),
)


def act(life: Life, action: tuple[object, ...]) -> None:
    name, *given = action
    if name == "upload":
        life.work("Memcpy HtoD (Pinned -> Device)", given[0], stream=given[1], size=1_000)  # type: ignore[arg-type]
    elif name == "download":
        life.work("Memcpy DtoH (Device -> Pinned)", given[0], stream=given[1], size=1_000)  # type: ignore[arg-type]
    elif name == "read":
        life.work("Memcpy DtoH (Device -> Pageable)", given[0], stream=given[1], size=1_000, waits=True)  # type: ignore[arg-type]
    else:
        getattr(life, str(name))(*given)


@settings(max_examples=80, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    program=st.lists(ACTIONS, min_size=2, max_size=12),
    rounds=st.integers(30, 80),
    seed=st.integers(1, 1000),
    one_at_a_time=st.booleans(),
)
def test_recording_of_any_program_takes_as_long_again(
    program: list[tuple[object, ...]], rounds: int, seed: int, one_at_a_time: bool
) -> None:
    life = Life(random.Random(seed), one_at_a_time=one_at_a_time)
    life.kernel(20, 1, 5)
    for _ in range(rounds):
        for action in program:
            act(life, action)
    recorded_ms, replayed_ms = replay(life)
    assert replayed_ms == pytest.approx(recorded_ms, rel=0.05)
