"""What reports say of moved memory, beside the emulated device's own record of the same processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, Runner, eventually
from emulator_tools import stats

from fikitd import paths

MIB = 2**20
SUPPORT = Path(__file__).resolve().parents[1] / "support"  # what the programs import
GPU = """
[device]
memory = "192MiB"
context_memory = 0
[default]
base_us = 2000
"""
CHUNK, HELD = 2 * MIB, 128 * MIB  # what the device moves at a time; what each job holds


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, "budget")
    daemon.config.write_text(daemon.config.read_text() + '[oversubscribe]\nallow = "lower"\nepoch_s = 1\n')
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def runner(daemon: Fikitd, emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> Runner:
    config = tmp_path / "small.toml"
    config.write_text(GPU)
    env = emulator_env(PYTHONPATH=str(SUPPORT), EMUCUDA_CONFIG=str(config))
    return Runner(daemon, Path(sys.executable), paths.shim(), env)


PROGRAM = """
import select, sys
import rotating_child
from memory_child import pause, say
buffers = rotating_child.Buffers(8, 16)
say("ready")
while not select.select([sys.stdin], [], [], 0)[0]: buffers.go_round()
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


def heard(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def told(daemon: Fikitd, job: str) -> dict[str, Any]:
    moved: dict[str, Any] = daemon.control.job(job)["memory"]["moved"]
    return moved


def test_what_reports_say_of_moves_is_what_the_device_moved(daemon: Fikitd, runner: Runner, native: Path) -> None:
    """A piece that the device had taken away by itself counts as moved where the preload library cannot know it, and no more than that."""
    started = [runner.start("-c", PROGRAM, mem_bytes=64 * MIB, mem_host_bytes=64 * MIB, priority=8) for _ in range(2)]
    for _, process in started:
        heard(process, "ready")
    eventually(lambda: all(told(daemon, job)["turns"] >= 2 for job, _ in started), 60)
    for _, process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for _, process in started:
        heard(process, "quiet")
    for job, process in started:
        said, device = told(daemon, job), recorded(native, runner.env, process.pid)
        assert device.ahead_in <= said["in_bytes"] <= device.ahead_in + device.by_itself_in
        assert device.ahead_out <= said["out_bytes"] <= device.ahead_out + device.by_itself_out
        assert said["in_bytes"] + said["out_bytes"] > 0
        assert said["missed_bytes"] <= device.by_itself_in
        assert said["failures"] == 0
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
