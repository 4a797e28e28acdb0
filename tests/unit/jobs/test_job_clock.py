"""Somebody sets the wall clock while a job runs: its report says how long it took, and its memory's picture goes on, as if nobody had."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from daemon_fakes import NOTHING
from fikitd.api.held import Owners
from fikitd.base.protocol import Device
from fikitd.jobs import job as job_module
from fikitd.jobs.job import Job
from fikitd.jobs.ledger import Entry
from fikitd.store.records import JobRecord

GIB = 2**30
S = 1_000_000_000
HOUR_S = 3600
DEVICE = Device("Emulated GPU", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 16 * GIB)


class Clocks:
    """Both, in manual time."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = time.time_ns(), 50 * S

    def pass_(self, seconds: float) -> None:
        self.wall_ns += int(seconds * S)
        self.steady_ns += int(seconds * S)

    def set(self, seconds: float) -> None:
        """The wall clock, by so much."""
        self.wall_ns += int(seconds * S)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(job_module.time, "time_ns", lambda: made.wall_ns)
    monkeypatch.setattr(job_module.time, "monotonic_ns", lambda: made.steady_ns)
    return made


def begun(clocks: Clocks, *, before_s: float = 2.0) -> Job:
    """A job with memory on the host whose prolog ran a while before."""
    started_ns = clocks.wall_ns - int(before_s * S)
    return Job(
        JobRecord("12", 0, 0, 8, started_ns=started_ns, mem_bytes=GIB, mem_host_bytes=GIB),
        DEVICE,
        "paper",
        Owners(),
        GIB,
    )


def elapsed_s(job: Job) -> float:
    return float(job.report()["elapsed_s"])


def spends(seconds: float) -> dict[str, Any]:
    """The last word of a client that was there for so long."""
    return {**NOTHING, "spent": {**NOTHING["spent"], "elapsed_ns": int(seconds * S)}}


@pytest.mark.parametrize("set_s", [HOUR_S, -HOUR_S])
def test_the_time_between_two_processes_is_what_passed(set_s: float, clocks: Clocks) -> None:
    job = begun(clocks)
    job.client_came(1, 77, lambda: spends(0))
    clocks.pass_(10)
    clocks.set(set_s)
    job.client_went(1, 77, spends(10))
    clocks.pass_(3)
    clocks.set(set_s)
    job.client_came(2, 78, lambda: spends(0))
    assert elapsed_s(job) == pytest.approx(2 + 10 + 3)


@pytest.mark.parametrize("set_s", [HOUR_S, -HOUR_S])
def test_looks_at_its_memory_are_as_far_apart_as_they_were(set_s: float, clocks: Clocks) -> None:
    job = begun(clocks)
    job.memory(DEVICE.uuid)
    moves = {**NOTHING["moves"], "movable_bytes": GIB}
    job.client_came(1, 77, lambda: {**NOTHING, "moves": moves})
    for resident in range(4):
        moves["resident_bytes"] = resident
        job.look_at_memory(0)
        clocks.pass_(5)
        clocks.set(set_s)
    history = job.report()["memory"]["moved"]["history"]
    assert [point["t_s"] for point in history] == pytest.approx([2, 7, 12, 17])
    assert [point["resident_bytes"] for point in history] == [0, 1, 2, 3]


@pytest.mark.parametrize("set_s", [HOUR_S, -HOUR_S])
def test_the_next_fikitd_goes_on_from_when_the_job_began(set_s: float, clocks: Clocks) -> None:
    first = begun(clocks)
    first.client_came(1, 77, lambda: spends(10))
    clocks.pass_(10)
    clocks.set(set_s)
    entry = first.entry()
    clocks.pass_(3)
    second = _after(first, entry)
    second.client_came(1, 77, lambda: spends(0))
    assert elapsed_s(second) == pytest.approx(2 + 10 + 3)
    second.memory(DEVICE.uuid)
    second._moves[1] = lambda: {**NOTHING["moves"], "movable_bytes": GIB}
    second.look_at_memory(0)
    assert second.report()["memory"]["moved"]["history"][-1]["t_s"] == pytest.approx(15)


@pytest.mark.parametrize("began_ns", [None, 2**62, "x"])
def test_notes_that_do_not_say_when_it_began_are_used_all_the_same(began_ns: Any, clocks: Clocks) -> None:
    first = begun(clocks)
    first.client_came(1, 77, lambda: spends(10))
    clocks.pass_(10)
    second = _after(first, replace(first.entry(), began_ns=began_ns))
    second.client_came(1, 77, lambda: spends(0))
    assert elapsed_s(second) == pytest.approx(12)


def _after(first: Job, entry: Entry) -> Job:
    """The job as the next fikitd has it."""
    job = Job(first.record, DEVICE, "paper", Owners(), GIB)
    job.go_on_from(entry)
    return job
