"""The daemon as a server: its directory, its lock, its end. The native core is a fake."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import ME, Daemon
from fikitd.api.client import Control, DaemonUnreachable, wait_until_there
from fikitd.base import protocol
from fikitd.config.fikit_toml import Config
from fikitd.daemon import server as server_module
from fikitd.daemon.run_directory import AlreadyServed, CannotServe
from fikitd.daemon.server import Server, notify_systemd
from fikitd.store.records import JobRecord


def test_a_second_daemon_on_the_same_directory_gives_way(daemon: Daemon) -> None:
    async def second() -> None:
        await Server(daemon.config, daemon.core).run()

    with pytest.raises(AlreadyServed, match="another fikitd serves"):
        asyncio.run(second())
    assert daemon.control.ping()


@pytest.mark.starts_processes
def test_who_starts_one_waits_for_the_one_that_is_there(daemon: Daemon) -> None:
    with subprocess.Popen(["true"]) as gave_way:
        gave_way.wait()
        wait_until_there(daemon.run_dir, gave_way, 5.0)
        with pytest.raises(DaemonUnreachable, match="did not answer"):
            wait_until_there(Path(daemon.run_dir) / "elsewhere", gave_way, 0.05)


@pytest.mark.starts_processes
def test_who_starts_one_is_told_that_it_failed_or_is_silent(tmp_path: Path) -> None:
    with subprocess.Popen(["false"]) as failed, pytest.raises(DaemonUnreachable, match="ended with exit code 1"):
        wait_until_there(tmp_path, failed, 5.0)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as silent:
        with pytest.raises(DaemonUnreachable, match=r"did not answer within 0\.05 s"):
            wait_until_there(tmp_path, silent, 0.05)
        silent.kill()


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
