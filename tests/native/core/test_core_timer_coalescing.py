"""When dispatchers wake that have nothing to do: those of a node at the same moments, and nobody later than it is due."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[2] / "fikitd" / "core"
MS = 1_000_000
DISPATCHERS = 8


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """timer_coalescing_check, compiled."""
    program = tmp_path_factory.mktemp("coalescing") / "timer_coalescing_check"
    subprocess.run(["c++", "-std=c++20", f"-I{CORE}", HERE / "timer_coalescing_check.cpp", "-o", program], check=True)
    return program


def wakes(program: Path, waits: list[tuple[int, int]]) -> list[int]:
    """When each of them wakes; waits: (from, for so long)."""
    words = [str(word) for wait in waits for word in wait]
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=True)
    return [int(line) for line in done.stdout.split()]


def test_dispatchers_that_wait_for_long_wake_together(program: Path) -> None:
    dice = random.Random(1)
    began = 10**15 + 50 * MS  # and each of them some ms later
    waits = [(began + dice.randrange(40 * MS), 700 * MS) for _ in range(DISPATCHERS)]
    moments = wakes(program, waits)
    assert len(set(moments)) == 1
    # So do those that began at other moments, as far as they wake within the same tenth of a second, and in turn all do.
    spread = wakes(program, [(began + dice.randrange(10**9), 700 * MS) for _ in range(100)])
    assert len(set(spread)) <= 11


@pytest.mark.parametrize("after_ns", [0, 40_000, 5 * MS, 399 * MS, 400 * MS, 700 * MS, 3_600_000 * MS])
def test_nobody_wakes_later_than_it_is_due_and_after_a_short_wait_not_earlier(program: Path, after_ns: int) -> None:
    dice = random.Random(after_ns)
    begins = [dice.randrange(10**15) for _ in range(200)]
    early = [
        start + after_ns - moment
        for start, moment in zip(begins, wakes(program, [(b, after_ns) for b in begins]), strict=True)
    ]
    assert min(early) >= 0
    assert max(early) < 100 * MS
    assert after_ns >= 400 * MS or max(early) == 0
