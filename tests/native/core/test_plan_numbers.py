"""The numbers of plans from fikitd to fikitd, in manual time: 0 is none, and nobody gives one that a client may still have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import native_program

pytestmark = pytest.mark.starts_processes

MS = 1_000_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("plan_numbers.cpp")
    return native_program.build(tmp_path_factory.mktemp("plan") / "plan_numbers", [source])


def numbers(program: Path, now_ns: int, count: int) -> list[int]:
    done = subprocess.run([program, str(now_ns), str(count)], capture_output=True, text=True, timeout=60, check=True)
    return [int(line) for line in done.stdout.split()]


def test_a_later_fikitd_gives_other_numbers_whatever_was_taken_back(program: Path) -> None:
    first = numbers(program, 5000 * MS, 20)
    assert len(set(first)) == 20
    assert not set(first) & set(numbers(program, 5020 * MS, 20)), "no fikitd gives more than one in a millisecond"


@pytest.mark.parametrize("now_ms", [2**32 - 2, 3 * 2**32 - 2, 2**32 - 1])
def test_behind_the_last_number_comes_1(program: Path, now_ms: int) -> None:
    given = numbers(program, now_ms * MS, 3)
    assert 0 not in given
    assert 1 in given
    assert len(set(given)) == 3
