"""The daemon in a thread of this process: sockets, admission, control verbs, reports. The native core is a fake."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, eventually
from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.config import Config, SchedulerConfig
from fikitd.profiles import ProfileStore
from fikitd.records import JobRecord
from fikitd.reports import ReportStore
from fikitd.server import AlreadyServed, CannotServe, Server, notify_systemd

from fikitd import clients, managed, protocol
from fikitd import server as server_module

ME = os.getuid()


@dataclass
class Daemon:
    config: Config
    core: FakeCore
    proc: FakeProc
    control: Control
    held: list[FakeClient] = field(default_factory=list)  # or the garbage collector would hang up

    @property
    def run_dir(self) -> str:
        return self.config.daemon.run_dir

    def job(self, job: str = "12", **facts: Any) -> None:
        """This process becomes part of Slurm job `job`, with a record."""
        JobRecord(**{"job": job, "uid": ME, "gid": os.getgid(), "priority": 1, **facts}).write(self.run_dir)
        self.proc.add(os.getpid(), uid=ME, cgroup=f"0::/system.slice/slurmstepd.scope/job_{job}/step_0\n")

    def client(self, **facts: Any) -> FakeClient:
        self.held.append(FakeClient(self.run_dir).welcome(**facts))
        return self.held[-1]

    def stored(self, job: str = "12") -> dict[str, Any]:
        report = ReportStore(self.config.daemon.report_dir).load(job)
        assert report is not None
        return report


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


def test_a_client_of_a_job_is_welcomed_with_page_and_doorbell(daemon: Daemon) -> None:
    daemon.job(priority=8)
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello())
    kind, packet, (page, doorbell, memory) = client.answer()
    assert kind == protocol.WELCOME
    welcome = protocol.WelcomeLayout.from_buffer_copy(packet)
    assert welcome.page_bytes == os.fstat(page).st_size == 4096
    assert welcome.memory_bytes == os.fstat(memory).st_size == ctypes.sizeof(protocol.MemoryLayout)
    os.eventfd_write(doorbell, 1)
    assert daemon.core.seen[1]["priority"] == 8


def test_the_dispatcher_gets_the_configured_times_in_nanoseconds(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    assert daemon.core.dispatchers[0].options == (
        SchedulerConfig().policy,
        100_000_000,
        20_000,
        500_000,
        2_000_000,
        20_000,
        32,
    )


def test_two_clients_of_one_gpu_share_a_dispatcher(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    daemon.client()
    daemon.client(uuid=b"another gpu's id")
    assert [len(dispatcher.clients) for dispatcher in daemon.core.dispatchers] == [2, 1]


def test_kernel_descriptions_reach_the_dispatcher(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    client.send(fakes.description(slot=7, name=b"_Z4gemm"))
    described = eventually(lambda: daemon.core.seen[1]["described"])
    assert described == [(7, "_Z4gemm", 0xAB, (2, 1, 1), (64, 1, 1), 0, 0)]


def test_a_process_without_a_job_is_refused_with_the_reason(daemon: Daemon) -> None:
    daemon.proc.add(os.getpid(), uid=ME)
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello())
    assert client.refusal() == f"process {os.getpid()} of uid {ME} belongs to no fikit job on this node"


KERNEL_TOO_SHORT = fakes.description()[:-1]
GARBAGE = {
    "random bytes": b"\x00\xff" * 40,
    "too long": b"\0" * 4000,
    "one byte": b"x",
    "second hello": fakes.hello(),
    "name without NUL": fakes.description(name=b"x" * protocol.NAME_BYTES),
    "slot 0": fakes.description(slot=0),
    "slot out of range": fakes.description(slot=protocol.SLOTS),
    "unknown kind": fakes.description(kind=3),
    "size of another message": KERNEL_TOO_SHORT,
}


@pytest.mark.parametrize("packet", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_that_client_and_no_other(daemon: Daemon, packet: bytes) -> None:
    daemon.job()
    good, bad = daemon.client(), daemon.client()
    bad.send(packet)
    assert bad.answer()[0] == 0
    good.send(fakes.description())
    eventually(lambda: daemon.core.seen[1]["described"])
    assert eventually(lambda: list(daemon.core.dispatchers[0].clients) == [1])


@pytest.mark.parametrize("packet", [b"x", fakes.hello()[:-1], fakes.hello(name=b"x" * 256), fakes.description()])
def test_a_first_packet_that_is_no_hello_closes_the_connection(daemon: Daemon, packet: bytes) -> None:
    daemon.job()
    client = FakeClient(daemon.run_dir)
    client.send(packet)
    assert client.answer()[0] == 0
    daemon.client()


def test_descriptors_sent_by_a_client_are_not_kept(daemon: Daemon, tmp_path: Path) -> None:
    daemon.job()
    client = daemon.client()
    with (tmp_path / "sent").open("w") as sent:
        for slot in range(1, 20):
            socket.send_fds(client.socket, [fakes.description(slot=slot)], [sent.fileno()] * 3)
        eventually(lambda: len(daemon.core.seen[1]["described"]) == 19)
        assert _descriptors_of(Path(sent.name)) == 1


def test_a_user_cannot_hold_more_than_the_limit_of_connections(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CONNECTIONS_PER_UID", 3)
    daemon.job()
    held = [daemon.client() for _ in range(3)]
    one_more = FakeClient(daemon.run_dir)
    assert "which is the limit" in one_more.refusal()
    held.pop().close()
    eventually(lambda: len(daemon.core.dispatchers[0].clients) == 2)
    daemon.client()


def test_a_client_whose_record_vanished_stays_managed(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    (Path(daemon.run_dir) / "jobs" / "12").unlink()
    client.send(fakes.description())
    eventually(lambda: daemon.core.seen[1]["described"])
    daemon.control.end("12")
    client.send(fakes.description(slot=2))
    eventually(lambda: len(daemon.core.seen[1]["described"]) == 2)
    client.close()
    assert eventually(lambda: daemon.stored()["kernels"] == 2)


def test_end_stores_the_sum_over_all_clients(daemon: Daemon) -> None:
    daemon.job()
    for _ in range(2):
        client = daemon.client()
        client.send(fakes.description())
        client.close()
    daemon.control.end("12")
    report = daemon.stored()
    assert (report["kernels"], report["state"], report["priority_name"]) == (2, "ended", "high")
    assert report["device"]["emulated"] is True
    assert daemon.control.jobs() == []


def test_a_job_that_nobody_ends_is_stored_when_its_clients_are_gone(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fikitd.jobs.QUIET_S", 0.05)
    daemon.job()
    daemon.client().close()
    eventually(lambda: ReportStore(daemon.config.daemon.report_dir).load("12"))


def test_what_a_killed_prolog_left_goes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.05)
    config, proc = fakes.config_in(tmp_path), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, FakeCore(), proc.root):
        left = Path(config.daemon.run_dir) / "jobs" / ".12.4711"
        left.touch()
        eventually(lambda: not left.exists())


def test_a_requeued_job_begins_a_new_report(daemon: Daemon) -> None:
    daemon.job(started_ns=1)
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    eventually(lambda: not daemon.core.dispatchers[0].clients)
    daemon.job(started_ns=2)
    daemon.client().close()
    daemon.control.end("12")
    assert daemon.stored()["kernels"] == 0


def test_a_name_that_a_step_wrote_into_the_record_later_is_reported(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    daemon.job(name="train")
    daemon.client()
    assert (daemon.control.job("12")["name"], daemon.control.job("12")["processes"]) == ("train", 1)


def test_a_running_job_is_visible_on_the_control_socket(daemon: Daemon) -> None:
    daemon.job(name="train")
    client = daemon.client()
    client.send(fakes.description())
    eventually(lambda: daemon.control.job("12")["kernels"] == 1)
    (report,) = daemon.control.jobs()
    assert (report["job"], report["name"], report["state"], report["ended"]) == ("12", "train", "running", None)


def test_summary_is_empty_when_nothing_was_managed(daemon: Daemon) -> None:
    assert daemon.control.summary("12") == ""


def test_summary_waits_for_clients_that_are_just_leaving(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    for slot in range(1, 200):
        client.send(fakes.description(slot=slot))
    client.close()
    assert daemon.control.summary("12").startswith("fikit: job 12 high: 199 kernels, waited 0 us")


def test_summary_does_not_wait_for_ever(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    begin = time.monotonic()
    assert daemon.control.summary("12")
    assert 0.25 < time.monotonic() - begin < 3
    client.close()


def test_ping_tells_version_and_policy(daemon: Daemon) -> None:
    assert daemon.control.ping() == f"fikitd 0.1.0 {SchedulerConfig().policy}"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (b"dance", 'verb "dance" is not known'),
        (b"job", "job takes 1 argument, not 0"),
        (b"ping now", "ping takes 0 arguments, not 1"),
        (b"job 99", "job 99 is not running under this fikitd, or is not yours"),
        (b"job \xff", "in ASCII"),
        (b"x" * 2000, "at most 1024 bytes"),
        (b" ", "in ASCII"),
    ],
)
def test_bad_requests_get_one_sentence(daemon: Daemon, request_: bytes, sentence: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(Path(daemon.run_dir) / protocol.CONTROL_NAME))
        connection.send(request_)
        answer = connection.recv(4096).decode()
        assert connection.recv(4096) == b""
    assert answer.startswith("error ")
    assert answer.endswith("\n")
    assert sentence in answer


def test_a_long_answer_comes_in_several_packets(daemon: Daemon) -> None:
    for number in range(60):
        daemon.job(str(number), name="x" * 256)
        daemon.client()
    assert len(daemon.control.jobs()) == 60


def test_a_measured_job_stores_its_profile_and_the_next_finds_it(daemon: Daemon) -> None:
    daemon.core.measured = [fakes.kernel("gemm")]
    daemon.core.rhythm = {"version": 1, "slacks": {"0" * 16: [2, 5, 6]}, "segments": {}, "runs": {"1" * 16: [3, 9]}}
    daemon.job("12", measure=True, profile="mine", uid=ME)
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    assert "measured 1 kernel, profile mine stored" in daemon.control.summary("12")
    daemon.control.end("12")
    assert daemon.stored("12")["profile"] == {"key": "mine", "found": False, "stored": True}

    daemon.job("13", profile="mine")
    daemon.client()
    assert [k["name"] for k in daemon.core.seen[2]["profile"]] == ["gemm"]
    assert daemon.core.seen[2]["rhythm"] == daemon.core.rhythm
    assert daemon.control.job("13")["profile"]["found"] is True


def test_a_job_whose_end_comes_before_its_profile_is_stored_has_what_became_of_it_in_its_report(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()

    def save(*_: Any, **__: Any) -> None:
        assert answer.wait(20)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ProfileStore, "save", save)
    monkeypatch.setattr("fikitd.jobs.ENDING_S", 0.05)
    daemon.core.measured = [fakes.kernel()]
    daemon.job(measure=True, profile="mine")
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    daemon.control.end("12")
    assert (daemon.stored()["profile"]["stored"], daemon.stored()["warnings"]) == (None, [])
    answer.set()
    eventually(lambda: daemon.stored()["profile"]["stored"] is False)
    (warning,) = daemon.stored()["warnings"]
    assert "its profile could not be stored" in warning
    assert "No space left on device" in warning
    assert daemon.control.jobs() == []


def test_a_profile_of_another_device_is_not_used(daemon: Daemon) -> None:
    daemon.core.measured = [fakes.kernel()]
    daemon.job("12", measure=True, profile="mine")
    daemon.client(name=b"NVIDIA H200").close()
    daemon.control.end("12")
    daemon.job("13", profile="mine")
    daemon.client(name=b"NVIDIA A100")
    assert daemon.core.seen[2]["profile"] is None


def test_storage_that_hangs_delays_a_hello_by_a_bounded_time_only(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()
    monkeypatch.setattr("fikitd.profiles.ProfileStore.load", lambda *_: answer.wait(20) and None)
    monkeypatch.setattr(managed, "PROFILE_WAIT_S", 0.2)
    monkeypatch.setattr(managed, "PROFILE_TIMEOUT_S", 0.5)
    try:
        daemon.job()
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello())
        assert daemon.control.ping()
        assert client.answer()[0] == protocol.WELCOME
        warnings = eventually(lambda: daemon.control.job("12")["warnings"])
        assert "the file system did not answer within 0.5 s" in warnings[0]
    finally:
        answer.set()


def test_a_profile_that_comes_late_is_still_used(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(ProfileStore, "load", lambda *_: answer.wait(20) and {"kernels": [fakes.kernel("late")]})
    monkeypatch.setattr(managed, "PROFILE_WAIT_S", 0.05)
    daemon.job()
    client = daemon.client()
    assert daemon.core.seen[1]["profile"] is None
    answer.set()
    assert eventually(lambda: daemon.core.seen[1]["profile"])[0]["name"] == "late"
    client.close()


def test_a_second_daemon_on_the_same_directory_gives_way(daemon: Daemon) -> None:
    async def second() -> None:
        await Server(daemon.config, daemon.core).run()

    with pytest.raises(AlreadyServed, match="another fikitd serves"):
        asyncio.run(second())
    assert daemon.control.ping()


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    config = fakes.config_in(tmp_path)
    Path(config.daemon.run_dir).mkdir(mode=0o777)
    Path(config.daemon.run_dir).chmod(0o777)
    with pytest.raises(CannotServe, match="writable by nobody else"), fakes.serving(config, FakeCore(), tmp_path):
        pass


def test_shutdown_stores_reports_of_running_jobs_and_removes_the_sockets(tmp_path: Path) -> None:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        daemon.job()
        client = daemon.client()
        client.send(fakes.description())
        eventually(lambda: daemon.core.seen[1]["described"])
    assert daemon.stored()["kernels"] == 1
    assert core.dispatchers[0].stopped
    with pytest.raises(DaemonUnreachable, match="does not answer"):
        daemon.control.ping()


def idle_after_1_s(directory: Path) -> Config:
    config = fakes.config_in(directory)
    return replace(config, daemon=replace(config.daemon, idle_exit_s=1))


def test_an_idle_daemon_leaves_by_itself_also_past_a_record_whose_process_is_gone(tmp_path: Path) -> None:
    config = idle_after_1_s(tmp_path)
    with fakes.serving(config, FakeCore(), tmp_path):
        JobRecord("run-1", ME, ME, 1, pid=4242).write(config.daemon.run_dir)
        control = Path(config.daemon.run_dir) / protocol.CONTROL_NAME
        eventually(lambda: not control.exists())


def test_a_daemon_that_nobody_can_reach_any_more_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.05)
    config = fakes.config_in(tmp_path)
    with fakes.serving(config, FakeCore(), tmp_path):
        run_dir = Path(config.daemon.run_dir)
        (run_dir / protocol.CONTROL_NAME).unlink()
        eventually(lambda: not (run_dir / protocol.SOCKET_NAME).exists())


def test_a_job_without_clients_keeps_the_daemon(tmp_path: Path) -> None:
    server = Server(idle_after_1_s(tmp_path), FakeCore(), tmp_path)
    assert not server._at_work()
    (tmp_path / "run").mkdir()
    JobRecord("12", ME, ME, 1).write(tmp_path / "run")
    assert server._at_work()


def test_systemd_is_told_that_the_daemon_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(5)
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_systemd()
        assert manager.recv(100) == b"READY=1"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_other_users_neither_see_nor_end_a_job(daemon: Daemon, tmp_path: Path) -> None:
    daemon.job()
    client = daemon.client()
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    control = Control(daemon.run_dir)
    for ask in (
        lambda: control.job("12"),
        lambda: control.trace("12"),
        lambda: control.end("12"),
        control.shutdown,
        lambda: control.summary("12"),
    ):
        with pytest.raises(ControlError, match=r"not yours|may not"):
            _as_nobody(ask)
    assert _as_nobody(control.jobs) == []
    assert len(daemon.control.jobs()) == 1
    client.close()


def _descriptors_of(file: Path) -> int:
    """How many this process has of it."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            found += path.readlink() == file
    return found


def _as_nobody(function: Any) -> Any:
    """Run in a thread whose effective uid is nobody's: SO_PEERCRED tells the credentials of the connecting thread."""
    setresuid = {"x86_64": 117, "aarch64": 147}[platform.machine()]

    def work() -> Any:
        assert ctypes.CDLL(None).syscall(setresuid, 65534, 65534, 65534) == 0
        return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
