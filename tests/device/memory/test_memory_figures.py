"""What reports say of moved memory, beside the emulated device's own record of the same processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, Runner, eventually, heard, tell
from emulator_tools import stats
from oversubscribed import CHUNK, MIB, oversubscribing_daemon, runner_on, small_gpu

GPU = small_gpu(192, 2000)
HELD = 128 * MIB  # by each job


daemon = pytest.fixture(oversubscribing_daemon)
runner = runner_on(GPU)


PROGRAM = """
import select, sys
import rotating_child
from memory_child import pause, say
buffers = rotating_child.Buffers(8, 16)
say("ready")
while not select.select([sys.stdin], [], [], 0)[0]: buffers.go_about()
pause()
say("quiet")
pause()
say(buffers.right())
"""


@dataclass(frozen=True)
class Moved:
    """By the device's record: bytes that a prefetch moved, and those that the device moved by itself; what nobody had used yet is in none of them."""

    ahead_in: int
    ahead_out: int
    by_itself_in: int
    by_itself_out: int


def recorded(native: Path, env: dict[str, str], pid: int) -> Moved:
    (found,) = [p for device in stats(native, env) for p in device["processes"] if p["pid"] == pid]
    missed = found["missed_chunks"] * CHUNK - HELD  # each chunk was used for the first time once
    evicted = found["evicted_chunks"] * CHUNK
    return Moved(found["moved_in_bytes"] - missed, found["moved_out_bytes"] - evicted, missed, evicted)


def told(daemon: Fikitd, job: str) -> dict[str, Any]:
    moved: dict[str, Any] = daemon.control.job(job)["memory"]["moved"]
    return moved


def test_what_reports_say_of_moves_is_what_the_device_moved(daemon: Fikitd, runner: Runner, native: Path) -> None:
    """A piece that the device had taken away by itself counts as moved where the shim cannot know it, and no more than that."""
    started = [runner.start("-c", PROGRAM, mem_bytes=64 * MIB, mem_host_bytes=64 * MIB, priority=8) for _ in range(2)]
    for _, process in started:
        assert heard(process) == "ready"
    eventually(lambda: all(told(daemon, job)["turns"] >= 2 for job, _ in started), 60)
    for _, process in started:
        tell(process)
    for _, process in started:
        assert heard(process) == "quiet"
    for job, process in started:
        said, device = told(daemon, job), recorded(native, runner.env, process.pid)
        assert device.ahead_in <= said["in_bytes"] <= device.ahead_in + device.by_itself_in
        assert device.ahead_out <= said["out_bytes"] <= device.ahead_out + device.by_itself_out
        assert said["in_bytes"] + said["out_bytes"] > 0
        assert said["missed_bytes"] <= device.by_itself_in
        assert said["failures"] == 0
        began = daemon.log.read_text().count(f"it is the turn of the memory of job {job} for")
        assert began - 1 <= said["turns"] <= began, (
            "the newest one may have come while its program said that it is quiet"
        )
        assert 0 < said["moving_s"] < daemon.control.job(job)["elapsed_s"]
        last = eventually(lambda job=job: looked(daemon, job))
        assert last["turns"] == said["turns"]
        assert 0 < said["resident_peak_bytes"] <= HELD
    for job, process in started:
        out, err = process.communicate("\n", timeout=60)
        assert (out, process.returncode) == ("True\n", 0), err
        runner.end(job)
        stored = daemon.report(job)["memory"]["moved"]
        assert stored["turns"] >= 1


def looked(daemon: Fikitd, job: str) -> dict[str, Any] | None:
    """The newest look, once it has all that was moved."""
    moved = told(daemon, job)
    last: dict[str, Any] = moved["history"][-1]
    return last if last["moved_bytes"] == moved["in_bytes"] + moved["out_bytes"] else None
