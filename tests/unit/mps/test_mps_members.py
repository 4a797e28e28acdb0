"""The clients of an MPS server and what is said of them, without any MPS: the server here answers what a test says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fikitd.base.shares import NoPlace, mps_clients
from fikitd.config.fikit_toml import GpuConfig
from fikitd.mps import members as mps_members
from fikitd.mps.clients import Clients, Outside
from fikitd.mps.control import MpsError
from fikitd.mps.members import Members
from fikitd.store.records import JobRecord

ME = os.getpid()


def record(job: str = "12", uid: int = 33, priority: int = 5) -> JobRecord:
    return JobRecord(job=job, uid=uid, gid=uid, priority=priority)


class FakeControl:
    """Of a server with these clients."""

    def __init__(self, *clients: int) -> None:
        self.listed, self.state, self.asked, self.terminated = list(clients), "ACTIVE", 0, list[int]()
        self.hangs = False

    async def _answer(self) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.hangs:
            raise MpsError("did not answer within 2 s: its control daemon hangs")

    async def status(self, _server: int) -> str:
        await self._answer()
        return self.state

    async def clients(self, _server: int) -> list[int]:
        await self._answer()
        return self.listed

    async def terminate(self, _server: int, client: int) -> None:
        await self._answer()
        self.terminated.append(client)


def of(control: FakeControl, said: list[tuple[str, str]] | None = None, most: int = 48) -> Members:
    server: Any = SimpleNamespace(control=control, ready=True, server=7, uuid="GPU-x")
    heard = [] if said is None else said
    return Members(server, mps_clients(most), lambda record, sentence: heard.append((record.job, sentence)))


def test_however_many_leave_at_once_the_control_daemon_is_asked_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_members, "FRESH_S", 0.01)
    control = FakeControl()
    members = of(control)

    async def come_and_go() -> None:
        looks = []
        for _ in range(200):
            members.leave(members.enter(record(), ME))
            looks.append(asyncio.ensure_future(members.look_after()))
        await asyncio.gather(*looks)

    asyncio.run(come_and_go())
    assert control.asked == 2, "for its state, and for its clients"


def test_programs_that_join_at_once_are_told_of_a_fault_by_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_members, "FRESH_S", 3600.0)
    control = FakeControl()
    members = of(control)

    async def join() -> None:
        members.enter(record(), ME)
        await asyncio.gather(*(members.look() for _ in range(50)))

    asyncio.run(join())
    assert control.asked == 1


def test_what_one_server_did_not_answer_counts_nothing_for_the_next() -> None:
    control = FakeControl()
    control.hangs = True
    server: Any = SimpleNamespace(control=control, ready=True, server=7, uuid="GPU-x")
    members = Members(server, mps_clients(48), lambda _record, _sentence: None)

    async def server_is_lost() -> list[bool]:
        members.enter(record(), ME)
        answered = [await members.look()]
        control.hangs, server.server = False, 8
        return [*answered, await members.look()]

    assert asyncio.run(server_is_lost()) == [False, True]


def test_one_that_was_killed_in_a_kernel_is_terminated_as_soon_as_the_daemon_answers_again() -> None:
    dead = 2**22 + 1
    control = FakeControl(dead, ME)
    control.hangs = True
    members = of(control)

    async def kill() -> None:
        member = members.enter(record(), dead)
        member.started = 1
        members.leave(member)
        assert not await members.look()
        control.hangs = False
        assert await members.look()

    asyncio.run(kill())
    assert control.terminated == [dead], "and nobody who lives"


def test_a_fault_is_told_once_to_every_job_and_nobody_enters_until_it_is_over() -> None:
    control, said = FakeControl(), list[tuple[str, str]]()
    members = of(control, said)

    async def fault() -> None:
        for job, pid in (("1", ME), ("1", os.getppid()), ("2", 1)):
            members.enter(record(job), pid)
        control.state = "FAULT"
        await members.look(anew=True)
        await members.look(anew=True)
        assert members.closed
        control.state = "ACTIVE"
        await members.look(anew=True)
        assert not members.closed

    asyncio.run(fault())
    assert [job for job, _ in said] == ["1", "2"]
    assert "of which job is not known" in said[0][1]


def test_a_quarter_of_the_places_is_for_high_jobs_and_a_user_has_three_quarters() -> None:
    members = of(FakeControl(), most=8)
    for _ in range(6):
        members.enter(record(uid=1), ME)
    with pytest.raises(NoPlace, match="MPS clients on this GPU"):
        members.enter(record(uid=1), ME)
    with pytest.raises(NoPlace):
        members.enter(record(job="13", uid=2, priority=8), ME)
    members.enter(record(job="13", uid=2, priority=1), ME)


@pytest.mark.parametrize("exclusive", [False, True])
def test_who_runs_outside_is_told_when_the_gpus_compute_mode_does_not_allow_it(tmp_path: Path, exclusive: bool) -> None:
    warnings: list[str] = []
    job: Any = SimpleNamespace(record=record(), warn=warnings.append)
    devices, jobs = SimpleNamespace(exclusive_process=exclusive), SimpleNamespace(get=lambda _job: job)
    nobody: Any = SimpleNamespace()
    clients = Clients(
        gpu=GpuConfig(mps="multi-user"), run_dir=tmp_path, devices=devices, jobs=jobs, records=nobody, storage=nobody,
        proc=tmp_path,
    )  # type: ignore[arg-type] # fmt: skip
    with pytest.raises(Outside), clients.joined(record(), ME):
        pass
    (said,) = warnings
    assert ("EXCLUSIVE_PROCESS" in said) == exclusive
    assert said.endswith("its job was not told to join")
