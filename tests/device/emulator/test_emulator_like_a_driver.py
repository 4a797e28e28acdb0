"""The emulated driver with [driver] times does to a program what real drivers do: tests/device/programs/emulator/emu_model.cpp in manual time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[[str, str], list[float]]

SUPPORT = Path(__file__).resolve().parents[1] / "support"  # what the programs import
# Stretched, so that the emulator's own time for a call is small beside a driver's.
MODEL = """
[device]
dilation = 200
[driver]
{driver}
[[kernel]]
match = "fikit_spin*"
duration = "param0_ns"
"""


@pytest.fixture
def run(emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> Run:
    """Runs code of driver_child's words on a driver with these times; returns the numbers that it prints."""

    def start(driver: str, code: str) -> list[float]:
        (tmp_path / "like.toml").write_text(MODEL.format(driver=driver))
        env = emulator_env(EMUCUDA_CONFIG=str(tmp_path / "like.toml"), PYTHONPATH=str(SUPPORT))
        command = [sys.executable, "-c", f"from driver_child import *\ncontext()\n{code}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return [float(word) for word in done.stdout.split()]

    return start


PAIR = """
f, a, b = function(), event(), event()
{before}
record(a); spin(f, 5); record(b)
synchronize()
print(elapsed_us(a, b))
"""


def test_two_events_around_a_kernel_time_its_way_to_an_idle_device(run: Run) -> None:
    times = "submission_us = 40\nevent_us = 20"
    assert run(times, PAIR.format(before=""))[0] == pytest.approx(60, abs=10)  # submission and the event behind it
    assert run(times, PAIR.format(before="spin(f, 1000)"))[0] == pytest.approx(5, abs=0.5)


def test_the_first_launch_of_a_function_loads_it_inside_the_call(run: Run) -> None:
    code = "f = function()\nfor _ in range(2):\n at = now_us(); spin(f, 1); print(now_us() - at)"
    first, second = run("first_launch_us = 500", code)
    assert first >= 100_000
    assert second < 50_000


def test_loading_may_wait_for_the_contexts_work(run: Run) -> None:
    code = (
        "f, g = function(), function('fikit_spin_too')\nspin(f, {us}); at = now_us(); spin(g, 1); print(now_us() - at)"
    )
    assert run("first_launch_us = 1", code.format(us=1000))[0] < 100_000
    assert run("first_launch_us = 1\nfirst_launch_waits = true", code.format(us=1000))[0] >= 190_000


DEPENDENT = """
f, a, b, c = function(), event(), event(), event()
spin(f, 1000); record(a); spin(f, 100)
{between}
spin(f, 100, dependent={dependent}); record(b)
synchronize()
print(elapsed_us(a, b))
"""


@pytest.mark.parametrize(("dependent", "between", "us"), [(False, "", 200), (True, "", 160), (True, "record(c)", 200)])
def test_what_stands_between_two_kernels_takes_a_dependent_launch_its_overlap(
    run: Run, dependent: bool, between: str, us: float
) -> None:
    code = DEPENDENT.format(dependent=dependent, between=between)
    assert run("dependent_overlap_us = 40", code)[0] == pytest.approx(us, abs=2)
