"""The machine is suspended for hours while jobs share a GPU, as its clocks show it: nobody is late, idle or forgotten by it."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner, eventually
from stops import sleeps_on_a_futex

from fikitd import paths

HOURS_S = 8 * 3600


class Machine:
    """Of all that is started with `env`."""

    def __init__(self, cc: Callable[..., Path], file: Path) -> None:
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._slept_s = mmap.mmap(opened.fileno(), 8)
        library = cc("tests/device/programs/daemon/suspended_clock.c", "-shared", "-fPIC", "-D_GNU_SOURCE")
        self.env = {"SUSPENDED_CLOCK": str(file), "LD_PRELOAD": str(library)}

    def sleeps(self, seconds: int) -> None:
        before = struct.unpack("q", self._slept_s[:8])[0]
        self._slept_s[:8] = struct.pack("q", before + seconds)


@pytest.fixture
def machine(cc: Callable[..., Path], tmp_path: Path) -> Machine:
    return Machine(cc, tmp_path / "slept")


@pytest.fixture
def daemon(tmp_path: Path, machine: Machine) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, "budget")
    text = daemon.config.read_text()
    daemon.config.write_text(text.replace("[daemon]\n", "[daemon]\nidle_exit_s = 3600\norphan_timeout_s = 60\n"))
    with daemon.started(machine.env):
        yield daemon


@pytest.fixture
def runner(
    daemon: Fikitd, machine: Machine, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> Runner:
    runner = Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())
    runner.env |= machine.env | {"LD_PRELOAD": f"{runner.env['LD_PRELOAD']}:{machine.env['LD_PRELOAD']}"}
    return runner


def test_jobs_that_shared_before_go_on_and_nothing_of_it_counts_as_waiting_or_computing(
    daemon: Fikitd, runner: Runner, machine: Machine
) -> None:
    begin = time.monotonic()
    jobs = [runner.start(100, 100_000, "hold", priority=priority, batch=priority == 8) for priority in (1, 8)]
    for _, process in jobs:
        assert process.stdout is not None
        assert process.stdout.readline() == "done 100\n"
    machine.sleeps(HOURS_S)
    runner.run(20, 100_000)  # one that comes afterwards, of the same fikitd
    for _, process in jobs:
        assert process.communicate("x", timeout=60) == ("done 100\n", "")
    took_s = time.monotonic() - begin
    for job, _ in jobs:
        eventually(lambda job=job: daemon.control.job(job)["state"] == "ended")
        runner.end(job)
        report = daemon.report(job)
        assert (report["kernels"], report["warnings"], report["processes"]) == (200, [], 1)
        assert 0 < report["span_s"] <= took_s
        assert report["wait"]["total_s"] <= took_s
        started, ended = (datetime.fromisoformat(report[key]) for key in ("started", "ended"))
        assert HOURS_S - 5 <= (ended - started).total_seconds() <= HOURS_S + took_s + 5  # as people's clocks went


def test_a_launch_at_the_gate_waits_on_and_its_lease_has_not_run_out(
    daemon: Fikitd, runner: Runner, machine: Machine
) -> None:
    runner.run(40, 10_000_000, measure=True, profile="known")
    _, high = runner.start(40, 10_000_000, "quiet", priority=1, profile="known")
    assert high.stdout is not None
    assert high.stdout.readline() == "done 40\n"
    job, low = runner.start(20, 200_000, priority=8)
    eventually(lambda: sleeps_on_a_futex(low.pid))
    machine.sleeps(HOURS_S)
    assert low.communicate(timeout=60) == ("done 20\n", "")
    assert high.communicate("x", timeout=60)[1] == ""
    eventually(lambda: daemon.control.job(job)["state"] == "ended")
    report = daemon.control.job(job)
    assert (report["kernels"], report["expired"]) == (20, 0)
