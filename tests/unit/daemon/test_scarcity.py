"""fikitd without descriptors, threads or memory: who is there stays, who comes is refused with one line, and it recovers."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikitd.api.client import ControlError
from fikitd.base.protocol import CONTROL_NAME, SOCKET_NAME, Device
from fikitd.base.scarcity import scarce
from fikitd.daemon import server as server_module
from fikitd.daemon.server import Server
from fikitd.jobs.identify import job_of_process, read_process
from fikitd.jobs.orphans import Orphans
from fikitd.store.records import JobRecord

from fikitd import _core

RUN_OUT = "fikitd has run out of descriptors, threads or memory: "
OTHER_GPU = bytes(16)  # has no dispatcher yet
NO_THREAD = RuntimeError("can't start new thread")


def fails(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise type(error)(*error.args)  # a new one: its traceback keeps what its frames have

    return fail


def out_of(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def open_descriptors() -> list[int]:
    return [int(path.name) for path in Path("/proc/self/fd").iterdir()]


def descriptors() -> int:
    return len(open_descriptors())


class Taken(list[int]):
    """Descriptors: all that there are."""

    def fill(self) -> None:
        """Those, too, that somebody has closed since."""
        with suppress(OSError):
            while True:
                self.append(os.dup(0))

    def give_back(self) -> None:
        while self:
            os.close(self.pop())


@contextmanager
def without_descriptors() -> Iterator[Taken]:
    """For the whole process, the daemon's threads among it; what is open stays so."""
    taken = Taken()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    try:
        with suppress(OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 2, hard))
        taken.fill()
        yield taken
    finally:
        taken.give_back()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


MISSING = {
    "memory page": ("os.memfd_create", out_of(errno.EMFILE)),
    "doorbell": ("os.eventfd", out_of(errno.EMFILE)),
    "client's page": ("daemon_fakes.FakeCore.make_page", out_of(errno.ENFILE)),
    "dispatcher": ("daemon_fakes.FakeCore.Dispatcher", out_of(errno.EAGAIN)),
    "dispatcher's room": ("daemon_fakes.FakeDispatcher.add_client", out_of(errno.ENOMEM)),
    "memory": ("daemon_fakes.FakeCore.make_page", MemoryError("no memory")),
    "thread": ("_thread.start_new_thread", NO_THREAD),
    "/proc": ("fikitd.jobs.identify.stat_fields", out_of(errno.EMFILE)),
    "record": ("fikitd.store.records.read_bounded", out_of(errno.ENFILE)),
}


@pytest.mark.parametrize("what", MISSING)
def test_who_comes_is_refused_with_one_line_and_who_is_there_stays(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    daemon.job()
    first = daemon.client()
    daemon.job("13")
    before = descriptors()
    place, error = MISSING[what]
    with monkeypatch.context() as broken:
        broken.setattr(place, fails(error))
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello(uuid=OTHER_GPU))
        assert client.refusal().endswith((getattr(error, "strerror", None) or str(error), f"({error})"))
        client.close()
        assert daemon.control.ping()
    assert "Traceback" not in caplog.text
    daemon.client(uuid=OTHER_GPU).close()  # as soon as there is some again
    eventually(lambda: [job["state"] for job in daemon.control.jobs()] == ["running", "ended"])
    daemon.control.end("13")
    eventually(lambda: descriptors() <= before)
    assert daemon.control.job("12")["state"] == "running"
    first.close()


@pytest.mark.parametrize("what", ["memory page", "doorbell", "client's page"])
def test_one_who_only_watches_its_memory_leaves_no_descriptor_behind(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    daemon.job()
    before = descriptors()
    place, error = MISSING[what]
    with monkeypatch.context() as broken:
        broken.setattr(place, fails(error))
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello(purpose=1))
        assert client.refusal().startswith(RUN_OUT)
        client.close()
    eventually(lambda: descriptors() <= before)


def test_without_any_descriptor_both_sockets_still_answer(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    daemon.job()
    with ExitStack() as stack:

        def sockets() -> list[socket.socket]:
            made = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(8)]
            for each in made:
                each.settimeout(4)  # the shim waits for five seconds
                stack.enter_context(each)
            return made

        clients, askers = sockets(), sockets()
        taken = stack.enter_context(without_descriptors())

        def told(asking: socket.socket, name: str, request: bytes, before: str = "") -> bool:
            taken.fill()
            asking.connect(f"{daemon.run_dir}/{name}")
            with suppress(BrokenPipeError):  # refused before it has said what it wants
                asking.send(request)
            try:
                return (before + RUN_OUT).encode() in asking.recv(4096)
            except TimeoutError:  # fill() took the spare one, while that answered the call before
                taken.give_back()
                time.sleep(0.5)
                return False

        # One that is served all the same came just after another thread had closed something.
        assert any(told(client, SOCKET_NAME, fakes.hello()) for client in clients)
        assert any(told(asker, CONTROL_NAME, b"ping", "error ") for asker in askers)

    def answers() -> bool:
        with suppress(ControlError):  # one that came just before
            return bool(daemon.control.ping())
        return False

    eventually(answers)
    daemon.client().close()
    assert "Traceback" not in caplog.text


def test_a_request_that_needs_what_there_is_not_is_answered(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.job()
    client = daemon.client()
    with monkeypatch.context() as broken:
        broken.setattr("fikitd.jobs.job.Job.trace_so_far", fails(NO_THREAD))
        with pytest.raises(ControlError, match=f"{RUN_OUT}{NO_THREAD}; ask again later"):
            daemon.control.trace("12")
    assert daemon.control.job("12")["state"] == "running"
    client.close()


def test_what_fikitd_cannot_read_for_want_of_descriptors_is_not_gone(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.add(500, cgroup="0::/system.slice/slurmstepd.scope/job_12/step_0\n")
    assert job_of_process(tmp_path, 500) == "12"
    with without_descriptors():
        for read in (read_process, job_of_process):
            with pytest.raises(OSError, match="Too many open files") as error:
                read(tmp_path, 500)
            assert scarce(error.value)
    assert read_process(tmp_path, 501) is None


def test_jobs_are_neither_over_nor_forgotten_while_fikitd_cannot_look(tmp_path: Path) -> None:
    proc, config, now = FakeProc(tmp_path / "proc"), fakes.config_in(tmp_path), [0.0]
    proc.root.mkdir()
    server = Server(config, FakeCore(), proc.root, fakes.work_here)
    run_dir = Path(config.daemon.run_dir)
    run_dir.mkdir()
    record = JobRecord(job="12", uid=os.getuid(), gid=os.getgid(), priority=1, batch=True)
    record.write(run_dir)
    proc.add(700, command=("slurmstepd: [12.batch]",))
    parts: dict[str, Any] = vars(server)
    jobs, records = parts["_jobs"], parts["_records"]
    forgotten = Orphans(
        jobs=jobs, records=records, storage=parts["_storage"], proc=proc.root, after_s=60, clock=lambda: now[0]
    )

    async def run() -> None:
        job = jobs.of(record, Device("Emulated GPU", "GPU", 2**34))
        job._seen_s -= 1000  # quiet for long
        await forgotten.look()
        for _ in range(3):
            now[0] += 100
            with without_descriptors():
                with suppress(OSError):
                    await forgotten.look()
                jobs.sweep()
        assert jobs.all() == [job]
        assert not records.gone("12")

    asyncio.run(run())
    assert [each.job for each in records.all()] == ["12"]


@pytest.mark.parametrize("error", [out_of(errno.EMFILE), NO_THREAD, ZeroDivisionError("a fault")], ids=repr)
def test_a_watch_that_fails_is_told_once_and_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.001)
    begun: list[int] = []

    async def watch(_: object) -> None:
        begun.append(1)
        if len(begun) < 5:
            raise error

    monkeypatch.setattr("fikitd.jobs.orphans.Orphans.watch", watch)
    proc = FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(fakes.config_in(tmp_path), FakeCore(), proc.root):
        eventually(lambda: len(begun) == 5)
    assert caplog.text.count("begins anew") == 1


def test_the_native_core_says_by_errno_what_it_ran_out_of() -> None:
    with without_descriptors(), pytest.raises(OSError, match="client's page: Too many open files") as error:
        _core.make_page(False, 10_000_000, 0)
    assert error.value.errno == errno.EMFILE
    with without_descriptors(), pytest.raises(OSError, match="doorbells: Too many open files") as error:
        _core.Dispatcher(
            "fifo", 10_000_000, 0, 0, 0, 0, max_slowdown=0.05, max_delay_ns=None, starvation_timeout_ns=None
        )
    assert scarce(error.value)


def test_what_a_peer_did_is_not_taken_for_it() -> None:
    assert not scarce(ConnectionResetError(errno.ECONNRESET, "reset"))
    assert not scarce(FileNotFoundError(errno.ENOENT, "gone"))
    assert not scarce(RuntimeError("another one"))
    assert scarce(MemoryError())
