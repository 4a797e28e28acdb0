"""The clients of an MPS server and what is said of them, without any MPS: the server here answers what a test says."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fikitd.base.shares import NoPlace, mps_clients
from fikitd.config.fikit_toml import GpuConfig
from fikitd.mps import clients as mps_clients_module
from fikitd.mps import members as mps_members
from fikitd.mps.clients import Clients, Gpu, Outside
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
    server.doubt = lambda: setattr(server, "ready", False)
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


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_members, "FRESH_S", 0.001)
    monkeypatch.setattr(mps_members, "GONE_S", 0.05)
    monkeypatch.setattr(mps_members, "JOINING_S", 0.4)


def gone(members: Members, pid: int) -> None:
    """A program was a client and has ended."""
    member = members.enter(record(), pid)
    member.started = 1
    members.leave(member)


@pytest.mark.usefixtures("patience")
def test_one_that_was_killed_in_a_kernel_is_terminated_as_soon_as_the_daemon_answers_again() -> None:
    dead = 2**22 + 1
    control = FakeControl(dead, ME)
    control.hangs = True
    members = of(control)

    async def kill() -> None:
        gone(members, dead)
        assert not await members.look()
        control.hangs = False
        await members.look_after()

    asyncio.run(kill())
    assert control.terminated == [dead], "and nobody who lives"


@pytest.mark.usefixtures("patience")
def test_one_that_the_server_takes_off_by_itself_is_not_terminated() -> None:
    dead = 2**22 + 1
    control = FakeControl(dead)
    members = of(control)

    async def end() -> None:
        gone(members, dead)
        assert await members.look()
        control.listed.clear()
        await members.look_after()

    asyncio.run(end())
    assert control.terminated == []


@pytest.mark.usefixtures("patience")
def test_a_process_that_the_kernel_is_ending_is_looked_at_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    control = FakeControl(ME)
    members = of(control)

    async def end() -> list[int]:
        members.leave(members.enter(record(), ME))  # its connection is closed, and it lives
        looks = asyncio.ensure_future(members.look_after())
        await asyncio.sleep(0.2)
        before = list(control.terminated)
        monkeypatch.setattr(mps_members, "began", lambda _pid: 0)
        await looks
        return before

    assert asyncio.run(end()) == []
    assert control.terminated == [ME]


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("comes", [True, False])
def test_nobody_is_terminated_while_a_program_joins_and_that_has_an_end(comes: bool) -> None:
    dead = 2**22 + 1
    control = FakeControl(dead)
    members = of(control)

    async def join() -> list[int]:
        gone(members, dead)
        members.enter(record("13"), ME)  # was let in, and is no client yet
        looks = asyncio.ensure_future(members.look_after())
        await asyncio.sleep(0.2)
        meanwhile = list(control.terminated)
        if comes:
            control.listed.append(ME)
        await asyncio.wait_for(looks, 5)
        return meanwhile

    begun = time.monotonic()
    assert asyncio.run(join()) == []
    assert control.terminated == [dead]
    assert (time.monotonic() - begun < 0.45) == comes


def test_a_server_that_may_not_be_ready_is_noticed_though_nobody_was_there_for_long() -> None:
    control = FakeControl()
    members = of(control)
    control.state = "INITIALIZING"
    assert asyncio.run(members.look())
    assert not members._server.ready


def test_where_the_daemon_says_no_state_a_server_is_neither_doubted_nor_closed() -> None:
    control = FakeControl()
    members = of(control)
    control.state = "UNKNOWN"
    assert asyncio.run(members.look())
    assert (members._server.ready, members.closed) == (True, False)


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


def clients_of(
    tmp_path: Path, *, exclusive: bool = False, warnings: list[str] | None = None, uuid: str | None = None
) -> Clients:
    """Of jobs that are all one, which has this GPU for certain."""
    heard = [] if warnings is None else warnings
    job: Any = SimpleNamespace(record=record(), warn=heard.append)

    async def certain(_record: JobRecord) -> str | None:
        return uuid

    devices: Any = SimpleNamespace(exclusive_process=exclusive, certain=certain)
    jobs: Any = SimpleNamespace(get=lambda name: job if name == job.record.job else None)
    nobody: Any = SimpleNamespace()
    return Clients(
        gpu=GpuConfig(mps="multi-user"), run_dir=tmp_path, devices=devices, jobs=jobs, records=nobody, storage=nobody,
        proc=tmp_path,
    )  # fmt: skip


@pytest.mark.parametrize("exclusive", [False, True])
def test_who_runs_outside_is_told_when_the_gpus_compute_mode_does_not_allow_it(tmp_path: Path, exclusive: bool) -> None:
    warnings: list[str] = []
    clients = clients_of(tmp_path, exclusive=exclusive, warnings=warnings)
    with pytest.raises(Outside), clients.joined(record(), ME):
        pass
    (said,) = warnings
    assert ("EXCLUSIVE_PROCESS" in said) == exclusive
    assert "its job was not told to join" in said


class FakeServer:
    """Of a control daemon that serves one user at a time, and of a server that lives as soon as it is wanted."""

    uuid, why_not, there, serves = "GPU-x", "", True, True

    def __init__(self, control: Any) -> None:
        self.control, self.jobs = control, set[str]()
        self.owner: int | None = None
        self.server, self.processes, self.ready, self.several_users = 7, set[int](), True, False
        self.pipes, self.ends = Path("/"), 0

    def give_to(self, owner: int | None) -> None:
        self.owner, self.pipes = owner, Path(f"/{owner}")

    async def ensure(self) -> None:
        self.processes = {6, 7}

    async def find(self) -> None:
        if self.control.hangs:
            raise MpsError("did not answer within 2 s: its control daemon hangs")

    async def end(self) -> None:
        self.ends, self.processes = self.ends + 1, set()

    def save(self) -> None:
        pass

    def doubt(self) -> None:
        self.ready = False


def with_server(clients: Clients, server: FakeServer) -> Clients:
    taken: Any = server
    clients._gpus[server.uuid] = Gpu(taken, Members(taken, mps_clients(48), clients._say))
    return clients


JOB_12, JOB_13 = record(), record("13", uid=44)


def test_where_mps_serves_one_user_at_a_time_another_users_jobs_stay_outside_until_the_first_ones_programs_have_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = FakeServer(FakeControl())
    clients = with_server(clients_of(tmp_path, uuid="GPU-x"), server)

    async def turns() -> None:
        assert (await clients.environment(JOB_12))["CUDA_MPS_PIPE_DIRECTORY"] == "/33"
        assert await clients.environment(JOB_13) == {}, "its program may still come"
        with clients.joined(JOB_12, ME):
            assert await clients.environment(record("14", uid=33)), "the same user's"
            clients._gpus["GPU-x"].expected_until_s = 0
            assert await clients.environment(JOB_13) == {}, "a program is there"
        server.control.listed.append(77)
        assert await clients.environment(JOB_13) == {}, "a program that did not ask is there"
        server.control.hangs = True
        assert await clients.environment(JOB_13) == {}, "nobody knows"
        assert server.ends == 0
        server.control.hangs = False
        server.control.listed.clear()
        assert (await clients.environment(JOB_13))["CUDA_MPS_PIPE_DIRECTORY"] == "/44"
        with pytest.raises(Outside, match="another user"), clients.joined(JOB_12, ME):
            pass

    asyncio.run(turns())
    assert (server.ends, server.owner, server.jobs) == (1, 44, {"13"})
    said = "it runs outside MPS, in time slices of its own: MPS of this driver serves one user at a time"
    assert caplog.text.count(said) == 1, "one sentence, however often it asks"


def test_where_mps_serves_all_users_their_jobs_join_side_by_side(tmp_path: Path) -> None:
    server = FakeServer(FakeControl())
    server.several_users = True
    clients = with_server(clients_of(tmp_path, uuid="GPU-x"), server)

    async def both() -> list[dict[str, str]]:
        return [await clients.environment(job) for job in (JOB_12, JOB_13)]

    assert all(asyncio.run(both()))
    assert server.jobs == {"12", "13"}


def test_two_users_who_ask_at_once_are_not_both_told(tmp_path: Path) -> None:
    server = FakeServer(FakeControl())
    clients = with_server(clients_of(tmp_path, uuid="GPU-x"), server)

    async def both() -> list[dict[str, str]]:
        return list(await asyncio.gather(clients.environment(JOB_12), clients.environment(JOB_13)))

    assert [bool(said) for said in asyncio.run(both())] == [True, False]


@pytest.mark.parametrize("ends", [True, False])
def test_a_program_is_let_in_once_nobody_is_being_terminated_or_told_to_stay_outside(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mps_clients_module, "JOIN_S", 0.3)
    clients = with_server(clients_of(tmp_path, uuid="GPU-x"), FakeServer(FakeControl()))

    async def join() -> None:
        await clients.environment(JOB_12)
        members = clients._gpus["GPU-x"].members
        members.terminating = True
        if ends:
            asyncio.get_running_loop().call_later(0.1, setattr, members, "terminating", False)
        await clients.ready(JOB_12)
        assert not members.terminating

    begun = time.monotonic()
    if ends:
        asyncio.run(join())
        assert time.monotonic() - begun > 0.1
    else:
        with pytest.raises(Outside, match="takes nobody until then"):
            asyncio.run(join())
        assert time.monotonic() - begun < 2
