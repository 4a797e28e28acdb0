"""Reports whose writer was held up between claiming and finishing them: waited for, but not for ever, and in manual time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import core_fake_client as fake
import pytest
from core_fake_client import DONE, LONG_LEASE, MS, FakeClient, eventually, now

from scripts import native_program

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).resolve().parent
STALL_NS = 20 * MS  # kStallNs
BEGAN_NS = 10**15


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ring_check, compiled."""
    return native_program.build(tmp_path_factory.mktemp("ring") / "ring_check", [HERE / "ring_check.cpp"])


def read(program: Path, *steps: str) -> list[str]:
    """What each look found; `@NS` is a look so long after the first."""
    words = [f"read {BEGAN_NS + int(step[1:])}" if step.startswith("@") else step for step in steps]
    done = subprocess.run([program], input="\n".join(words), capture_output=True, text=True, timeout=60, check=True)
    return [line.strip() for line in done.stdout.splitlines()]


def test_a_report_that_is_finished_late_is_read_and_in_its_turn(program: Path) -> None:
    steps = ["claim 3", "finish 0", "finish 2", "@0", f"@{STALL_NS - 1}", "finish 1", f"@{STALL_NS - 1}"]
    assert read(program, *steps) == ["0", "", "1 2"]


def test_a_report_that_nobody_finishes_is_skipped_after_a_while(program: Path) -> None:
    steps = ["claim 2", "finish 1", "@0", f"@{STALL_NS - 1}", f"@{STALL_NS}", "finish 0", f"@{STALL_NS}"]
    assert read(program, *steps) == ["", "", "1 lost", ""]


def test_many_that_nobody_finishes_are_waited_for_together(program: Path) -> None:
    """Or a page that was filled with them would take as many waits."""
    steps = [f"claim {fake.RING_ENTRIES}", "finish 7", "@0", f"@{STALL_NS}"]
    assert read(program, *steps) == ["", "7 lost"]


def test_what_is_claimed_during_a_wait_has_its_own(program: Path) -> None:
    steps = ["claim 1", "@0", "claim 1", f"@{STALL_NS}", f"@{2 * STALL_NS - 1}", "finish 1", f"@{2 * STALL_NS - 1}"]
    assert read(program, *steps) == ["", "lost", "", "1"]
    steps = [*steps[:4], f"@{2 * STALL_NS}", "finish 1", f"@{3 * STALL_NS}"]
    assert read(program, *steps) == ["", "lost", "lost", ""]


def test_a_wait_that_is_over_says_nothing_of_the_next(program: Path) -> None:
    steps = ["claim 1", "@0", "finish 0", "@1", "claim 1", f"@{STALL_NS}", "finish 1", f"@{2 * STALL_NS - 1}"]
    assert read(program, *steps) == ["", "0", "", "1"]


def test_nothing_is_waited_for_once_the_writer_is_gone(program: Path) -> None:
    assert read(program, "claim 2", "finish 1", "@0", "gone", "@1") == ["", "1 lost"]


def test_a_thread_that_is_held_up_while_it_reports_the_end_of_its_work_does_not_hold_others_for_a_lease() -> None:
    attempts = 20
    for _ in range(attempts):
        with fake.dispatcher("prio", LONG_LEASE) as running:
            _, low, other = (FakeClient(running, number, priority) for number, priority in ((1, 1), (2, 8), (3, 8)))
            request = low.ask()
            assert eventually(lambda low=low, request=request: low.granted(request))
            low.take(request)
            claimed = now()
            entry = low.claim()
            following = other.ask()
            while now() < claimed + STALL_NS // 4:  # the dispatcher looks every 40 us
                assert not other.granted(following)
            low.finish(entry, DONE, value=request)
            if now() > claimed + STALL_NS:  # it was this thread that lost its core
                continue
            assert eventually(lambda other=other, following=following: other.granted(following), LONG_LEASE / 1e9 / 2)
            return
    pytest.fail(f"this machine never let a report be finished within 20 ms in {attempts} attempts")


def test_the_last_reports_of_a_client_that_was_killed_while_it_reported_are_read() -> None:
    with fake.dispatcher("prio", LONG_LEASE, trace_events=16) as running:
        killed = FakeClient(running, 1, 1)
        killed.describe(1, "step")
        killed.claim()
        killed.sample(1, MS)
        running.ended(1)
        assert [kernel["duration"]["count"] for kernel in running.export_profile(1)] == [1]
        with pytest.raises(IndexError):
            running.ended(2)
