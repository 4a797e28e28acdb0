"""Where the kernels of a low client's run stood among those of a high one: only the last of them has a mark. In manual time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[2] / "fikitd" / "core"
KEPT = 512  # launches


class Device:
    """One that serves two clients in the order of their launches."""

    def __init__(self, program: Path) -> None:
        self.program, self.said = program, list[str]()
        self.number = 0  # of the high one's newest launch
        self.free = 0  # when all is done
        self.run: list[tuple[int, int]] = []  # launched, takes; not known to be complete
        self.run_over = 0

    def high(self, t: int, takes: int, predicted: int | None = None) -> None:
        self.number += 1
        self.said.append(f"launched {self.number} {t} {takes if predicted is None else predicted}")
        self.free = max(self.free, t) + takes

    def low(self, t: int, takes: int) -> None:
        self.run.append((t, takes))
        self.run_over = self.free = max(self.free, t) + takes

    def complete(self) -> None:
        """The run's mark: its last kernel was over then, and each ran before the next."""
        begin = self.run_over - sum(takes for _, takes in self.run)
        for left, (t, takes) in zip(reversed(range(len(self.run))), self.run, strict=True):
            self.said.append(f"ran {t} {begin} {begin + takes} {int(left == 0)}")
            begin += takes
        self.run = []

    def stood(self) -> list[int]:
        """For how long high work stood beside each low kernel."""
        done = subprocess.run([self.program], input="\n".join(self.said), capture_output=True, text=True, check=True)
        return [int(line.split()[1]) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """interference_check, compiled."""
    program = tmp_path_factory.mktemp("interference") / "interference_check"
    subprocess.run(["c++", "-std=c++20", f"-I{CORE}", HERE / "interference_check.cpp", "-o", program], check=True)
    return program


@pytest.fixture
def device(program: Path) -> Device:
    return Device(program)


def test_each_kernel_of_a_run_delays_what_was_launched_behind_it(device: Device) -> None:
    device.low(0, 100)
    device.high(50, 100)
    device.low(60, 100)  # behind the high one
    device.low(240, 100)
    device.high(270, 10)
    device.low(280, 100)
    device.complete()
    assert device.stood() == [50, 30, 100, 0]


def test_a_run_without_high_kernels_between_its_own_is_one_piece(device: Device) -> None:
    for _ in range(5):
        device.low(0, 100)
    device.high(250, 100)
    device.complete()
    assert device.stood() == [0, 0, 50, 100, 100]


def test_time_that_a_run_does_not_explain_was_high_works(device: Device) -> None:
    device.high(0, 400, predicted=300)
    device.low(10, 100)
    device.complete()
    assert device.stood() == [0]


def test_a_device_that_serves_a_run_first_is_believed(device: Device) -> None:
    device.said.append("launched 1 0 1000")
    for begin in (20, 120, 220):
        device.said.append(f"ran 10 {begin} {begin + 100} {int(begin == 220)}")
    assert device.stood() == [100, 100, 100]


def test_a_device_that_serves_the_high_one_between_two_kernels_is_believed(device: Device) -> None:
    device.said.append("launched 1 110 50")
    for begin in (50, 150, 250, 350):  # so late at the latest, were all of the run launched at 0
        device.said.append(f"ran 0 {begin} {begin + 100} {int(begin == 350)}")
    assert device.stood() == [0, 90, 0, 0], "from 200 to 250 somebody else ran"


@pytest.mark.parametrize("predicted", [100, 90, 130])
def test_of_a_kernel_that_took_less_than_predicted_nothing_stands_there(device: Device, predicted: int) -> None:
    for begin in range(0, 2000, 200):
        device.high(begin, 100, predicted)
        device.low(begin + 10, 100)
        device.complete()
    assert device.stood() == [0] * 10


def test_a_kernel_that_is_not_complete_stands_there_whatever_was_predicted(device: Device) -> None:
    device.said += ["launched 1 0 10", "missing 1 250", "ran 5 100 200 1", "ran 205 210 310 1", "ran 320 320 400 1"]
    assert device.stood() == [100, 40, 0]


def test_a_kernel_that_is_complete_does_not(device: Device) -> None:
    device.said += ["launched 1 0 1000", "launched 2 10 50", "done 1 150", "ran 5 100 200 1", "ran 205 210 300 1"]
    assert device.stood() == [100, 90]  # the second is still there
    device.said += ["done 2 320", "ran 310 310 400 1"]
    assert device.stood()[2:] == [10]


def test_a_run_begins_when_what_came_before_it_is_complete(device: Device) -> None:
    device.said += ["launched 1 0 1000", "done 1 50", "launched 2 130 20", "ran 10 300 400 0", "ran 60 400 500 1"]
    assert device.stood() == [20, 0], "the first ran from 50 to 150"
    device.said = ["launched 1 0 10", "missing 1 200", "launched 2 230 20", "ran 10 300 400 0", "ran 60 400 500 1"]
    assert device.stood() == [70, 0], "from 200 to 300"


def test_of_more_launches_than_are_kept_the_work_is(device: Device) -> None:
    for _ in range(3 * KEPT):
        device.said.append(f"launched {device.number + 1} 0 1")
        device.number += 1
    device.said += ["ran 0 1000 1100 1", "ran 0 1600 1700 1", "ran 0 1800 1900 1"]
    assert device.stood() == [100, 100, 0]


def test_what_was_launched_long_ago_is_over(device: Device) -> None:
    for step in range(3 * KEPT):
        device.high(10 * step, 8)
    device.low(30 * KEPT, 100)
    device.complete()
    assert device.stood() == [0]


def test_after_lost_reports_nothing_is_known_to_stand_there(device: Device) -> None:
    device.said += ["launched 1 0 1000", "launched 5 10 20", "done 3 15", "missing 2 900", "ran 5 100 200 1"]
    assert device.stood() == [0]
