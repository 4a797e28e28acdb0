"""Kernels of several streams: their events also time what they wait for each other on the device; what is reported does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import GAP, SAMPLE, Daemon
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
Times = list[tuple[str, float, float]]  # of each launch: its stream, and when its two events were reached, in ms

LAUNCHES = """
context()
streams = {{"one": stream(), "two": stream()}}
times = (ctypes.c_float * {count})({times})
fake.fake_event_times(times, {count})
fake.fake_hold(1)
for number, name in enumerate({names}):
    check(launch(function(str(number)), streams[name]))
fake.fake_hold(0)
check(cu.cuCtxSynchronize())
"""


def reported(program: Start, daemon: StartDaemon, launches: Times) -> tuple[list[float], list[float]]:
    """Durations and gaps in ms, in the order of the launches."""
    fikitd = daemon(measure=True)
    times = ", ".join(f"{start}, {end}" for _, start, end in launches)
    code = LAUNCHES.format(count=2 * len(launches), times=times, names=[name for name, _, _ in launches])
    program(code, fikitd).finish()
    page = fikitd.page()
    return [entry.value / 1e6 for entry in page.of_kind(SAMPLE)], [entry.value / 1e6 for entry in page.of_kind(GAP)]


@pytest.mark.parametrize(
    ("launches", "durations", "gaps"),
    [
        pytest.param(
            [("one", 0, 10), ("two", 10, 70), ("one", 10, 70.25)], [10, 60, 0.25], [0, 0], id="behind the other stream's"
        ),
        pytest.param(
            [("one", 0, 10), ("two", 10, 70.25), ("one", 10, 10.25)], [10, 60, 0.25], [0, 0], id="before one launched earlier"
        ),
        pytest.param(
            [("one", 0, 1), ("two", 0, 3), ("one", 1, 4), ("two", 3, 6)], [1, 2, 1, 2], [0, 0, 0], id="in turn"
        ),
        pytest.param([("one", 0, 1), ("two", 3, 4), ("one", 3.5, 5)], [1, 1, 1], [2, 0], id="idle before both"),
        pytest.param([("one", 0, 4), ("two", 1, 2)], [3, 1], [0], id="at the same time"),
        pytest.param([("one", 0, 1), ("two", 0, 1), ("one", 4, 5)], [1, 0, 1], [0, 3], id="idle after both"),
        pytest.param([("one", 0, 1), ("one", 2, 4), ("one", 4, 5)], [1, 2, 1], [1, 0], id="one stream"),
    ],
)  # fmt: skip
def test_what_a_kernel_takes_of_the_device_is_its_own(
    program: Start, daemon: StartDaemon, launches: Times, durations: list[float], gaps: list[float]
) -> None:
    assert reported(program, daemon, launches) == (pytest.approx(durations, abs=1e-4), pytest.approx(gaps, abs=1e-4))


def test_launches_together_take_as_long_as_the_device_is_at_work(program: Start, daemon: StartDaemon) -> None:
    launches = [("one", 0, 4), ("two", 1, 6), ("one", 4, 5), ("two", 6, 7), ("one", 9, 12), ("two", 10, 11)]
    durations, _ = reported(program, daemon, launches)
    assert sum(durations) == pytest.approx(7 + 3, abs=1e-3)


def test_a_launch_after_a_wait_stands_behind_what_was_harvested_before(program: Start, daemon: StartDaemon) -> None:
    """The host waited for one stream only: the other one's kernel was under way."""
    fikitd = daemon(measure=True)
    code = """
context()
one, two = stream(), stream()
times = (ctypes.c_float * 6)(0, 10, 1, 12, 11, 13)
fake.fake_event_times(times, 6)
fake.fake_fail(b"cuMemHostAlloc", 2)  # no calibration, which records events too
fake.fake_hold(1)
check(launch(function("a"), one))
check(launch(function("b"), two))
fake.fake_hold(0)
check(cu.cuStreamSynchronize(one))
fake.fake_hold(1)
check(launch(function("c"), one))
fake.fake_hold(0)
check(cu.cuCtxSynchronize())
"""
    program(code, fikitd).finish()
    assert [entry.value / 1e6 for entry in fikitd.page().of_kind(SAMPLE)] == pytest.approx([10, 2, 1], abs=1e-4)


LOOKS = """
context()
streams = {{"one": stream(), "two": stream()}}
times = (ctypes.c_float * {count})({times})
fake.fake_event_times(times, {count})
fake.fake_reach(ctypes.c_float(-1))
for number, name in enumerate({names}):
    check(launch(function(str(number)), streams[name]))
for ms in {looks}:
    fake.fake_reach(ctypes.c_float(ms))
    cu.cuStreamQuery(streams["one"])
"""


@pytest.mark.parametrize(
    ("launches", "looks", "expected"),
    [
        pytest.param(
            [("one", 0, 10), ("one", 10, 70.25), ("one", 70.25, 71), ("two", 10, 70)], [70.5, 80],
            ([10, 0.25, 0.75, 60], [0, 0, 0]), id="behind one launched later, beside one that still runs",
        ),
        pytest.param(
            [("one", 0, 2), ("one", 2, 5), ("two", 0, 20), ("one", 20, 21)], [6, 30],
            ([2, 3, 15, 1], [0, 0, 0]), id="in front of what was harvested earlier",
        ),
        pytest.param(
            [("one", 0, 2), ("two", 0, 5), ("one", 5, 7), ("two", 5, 9)], [2, 5, 7, 9],
            ([2, 3, 2, 2], [0, 0, 0]), id="one by one",
        ),
        pytest.param(
            [("one", 0, 2), ("two", 0, 4), ("one", 6, 7), ("two", 6, 9), ("one", 12, 13)], [3, 5, 8, 20],
            ([2, 2, 1, 2, 1], [0, 2, 0, 3]), id="idle between two looks",
        ),
    ],
)  # fmt: skip
def test_it_does_not_matter_when_one_looks(
    program: Start, daemon: StartDaemon, launches: Times, looks: list[float], expected: tuple[list[float], list[float]]
) -> None:
    fikitd = daemon(measure=True)
    times = ", ".join(f"{start}, {end}" for _, start, end in launches)
    code = LOOKS.format(count=2 * len(launches), times=times, names=[name for name, _, _ in launches], looks=looks)
    program(code, fikitd).finish()
    page = fikitd.page()
    durations, gaps = ([entry.value / 1e6 for entry in page.of_kind(kind)] for kind in (SAMPLE, GAP))
    assert (durations, gaps) == (pytest.approx(expected[0], abs=1e-4), pytest.approx(expected[1], abs=1e-4))
