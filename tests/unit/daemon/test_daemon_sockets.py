"""fikitd's sockets under users who connect without end: who is refused, at what cost, and who is served all the same."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import Daemon, as_nobody
from fikitd.api import client as client_module
from fikitd.api.client import Control, ControlError
from fikitd.base import protocol, shares
from fikitd.base.rates import Rate
from fikitd.daemon.admission import HELLOS, REQUESTS
from fikitd.store.records import JobRecord

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
# Connects in a loop and hangs up, as another user; says so once it has begun.
STORM = f"""
import os, socket, sys
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
print(flush=True)
while True:
    for path in sys.argv[1:]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as s:
            try:
                s.connect(path)
            except OSError:
                pass
"""


@contextmanager
def storm(*paths: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", STORM, *map(str, paths)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            yield
        finally:
            process.kill()


def refusals(daemon: Daemon, tries: int) -> list[str]:
    """What a user without a job is told at the client socket."""

    def work() -> list[str]:
        found = []
        for _ in range(tries):
            client = FakeClient(daemon.run_dir)
            with suppress(BrokenPipeError):
                client.send(fakes.hello())
            found.append(client.refusal())
            client.close()
        return found

    return list(as_nobody(work))


def most_since(began: float, rate: Rate) -> float:
    """How often it may have happened since then, on time.monotonic()."""
    return rate.at_once + (time.monotonic() - began) * rate.per_s


def open_to_all(daemon: Daemon) -> None:
    for directory in (Path(daemon.run_dir), *list(Path(daemon.run_dir).parents)[:-2]):  # below /tmp
        directory.chmod(directory.stat().st_mode | 0o011)


@needs_root
def test_a_user_without_a_job_is_told_why_a_few_times_and_then_refused_unheard(daemon: Daemon) -> None:
    daemon.job()
    open_to_all(daemon)
    began = time.monotonic()
    told = refusals(daemon, 30)
    heard = [sentence for sentence in told if "is uid 0's" in sentence or "runs as uid" in sentence]
    assert HELLOS.stranger.at_once <= len(heard) <= most_since(began, HELLOS.stranger)
    assert set(told) - set(heard) == {f"uid {NOBODY} connects too often and has no job on this node"}
    daemon.client()


@needs_root
def test_requests_of_a_user_without_a_job_are_answered_at_a_pace(daemon: Daemon) -> None:
    open_to_all(daemon)

    def ask() -> list[str]:
        found = []
        for _ in range(60):
            try:
                found.append(daemon.control.ping())
            except ControlError as error:
                found.append(str(error))
        return found

    began = time.monotonic()
    told = as_nobody(ask)
    refused = [
        line for line in told if line == f"uid {NOBODY} connects too often and has no job on this node; ask again later"
    ]
    assert REQUESTS.stranger.at_once <= len(told) - len(refused) <= most_since(began, REQUESTS.stranger)
    assert daemon.control.ping()


def test_who_has_no_job_connects_far_less_often_than_who_has_one() -> None:
    for pace in (HELLOS, REQUESTS):
        assert 10 * pace.stranger.at_once <= pace.known.at_once
        assert 10 * pace.stranger.per_s <= pace.known.per_s


@needs_root
def test_roots_hooks_have_a_socket_that_no_user_reaches(daemon: Daemon) -> None:
    open_to_all(daemon)
    hooks = Path(daemon.run_dir) / protocol.HOOKS_DIRECTORY
    assert stat.S_IMODE(hooks.stat().st_mode) == 0o700
    assert stat.S_IMODE((hooks / protocol.CONTROL_NAME).stat().st_mode) == 0o600

    def reach() -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
            try:
                one.connect(str(hooks / protocol.CONTROL_NAME))
            except PermissionError:
                return "denied"
        return "let in"

    assert as_nobody(reach) == "denied"


def hello_at(path: Path, patience_s: float = 20.0) -> FakeClient:
    """As the shim says it: who finds no room waits for it in the kernel, and there is an answer or an end."""
    client = FakeClient.__new__(FakeClient)
    FakeClient.made.append(client)
    client.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        client.socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(patience_s), 0))
    client.socket.connect(str(path))
    return client.welcome()


@pytest.mark.starts_processes
@needs_root
@pytest.mark.parametrize("name", ["own", "everybody's"])
@pytest.mark.slow
def test_under_a_storm_on_both_sockets_all_others_are_served(daemon: Daemon, name: str) -> None:
    daemon.job()
    open_to_all(daemon)
    run_dir = Path(daemon.run_dir)
    everybodys = run_dir / protocol.SOCKET_NAME
    path = everybodys if name == "everybody's" else run_dir / protocol.USERS_DIRECTORY / "0.sock"
    waits = []
    with storm(everybodys, run_dir / protocol.CONTROL_NAME), storm(everybodys):
        for _ in range(9):
            begin = time.monotonic()
            daemon.control.ping()
            hello_at(path).close()
            waits.append(time.monotonic() - begin)
    assert sorted(waits)[4] < (0.5 if name == "own" else 2.0)
    assert max(waits) < (3.0 if name == "own" else 15.0)


@pytest.mark.starts_processes
@needs_root
@pytest.mark.slow
def test_a_storm_takes_little_of_fikitds_time(daemon: Daemon) -> None:
    open_to_all(daemon)
    run_dir = Path(daemon.run_dir)
    with storm(run_dir / protocol.SOCKET_NAME), storm(run_dir / protocol.CONTROL_NAME):
        begin, used = time.monotonic(), time.process_time()
        time.sleep(0.7)
        used, taken = time.process_time() - used, time.monotonic() - begin
    assert used / taken < 0.1  # without rests 0.2 to 1


def test_a_user_with_a_job_has_a_socket_of_its_own_as_long_as_the_job(daemon: Daemon) -> None:
    users = Path(daemon.run_dir) / protocol.USERS_DIRECTORY
    record = JobRecord("13", uid=4711, gid=4711, priority=1).write(daemon.run_dir)
    own = users / "4711.sock"
    eventually(lambda: own.exists() and own.stat().st_uid == 4711)
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(users.stat().st_mode) == 0o755
    record.unlink()
    eventually(lambda: not own.exists())
    daemon.job()
    hello_at(users / f"{os.geteuid()}.sock").close()


def test_root_asks_where_users_do_not_and_an_older_fikitd_where_all_do(tmp_path: Path) -> None:
    everybodys, roots = tmp_path / protocol.CONTROL_NAME, tmp_path / protocol.HOOKS_DIRECTORY / protocol.CONTROL_NAME
    roots.parent.mkdir()
    answered = []
    for path in (everybodys, roots):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()

            def answer(name: str = path.parent.name, listener: socket.socket = listener) -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(100)
                    connection.send(b"ok\nfikitd 1.0 " + name.encode())

            thread = threading.Thread(target=answer)
            thread.start()
            answered.append(Control(tmp_path).ping().split()[2])
            thread.join()
    assert answered == [tmp_path.name, protocol.HOOKS_DIRECTORY]


def test_who_finds_the_control_socket_full_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / protocol.CONTROL_NAME))
        listener.listen(0)
        first = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        first.connect(str(tmp_path / protocol.CONTROL_NAME))
        waited = threading.Event()
        monkeypatch.setattr(client_module.time, "sleep", lambda seconds: waited.set())
        answers: list[str] = []
        asking = threading.Thread(target=lambda: answers.append(Control(tmp_path).ping()))
        asking.start()
        assert waited.wait(5)
        with first, listener.accept()[0]:
            pass
        with listener.accept()[0] as connection:
            connection.recv(100)
            connection.send(b"ok\nfikitd 1.0 there")
        asking.join()
    assert answers == ["fikitd 1.0 there"]


def test_all_clients_that_a_job_may_have_are_served_at_once(daemon: Daemon) -> None:
    daemon.job()
    clients = [FakeClient(daemon.run_dir) for _ in range(shares.CLIENTS.job)]
    for one in clients:
        one.send(fakes.hello())
    kinds = [one.answer() for one in clients]
    assert {kind for kind, _, _ in kinds} == {protocol.WELCOME}
    for _, _, descriptors in kinds:
        for descriptor in descriptors:
            os.close(descriptor)
    eventually(lambda: len(daemon.core.dispatchers[0].clients) == shares.CLIENTS.job)
