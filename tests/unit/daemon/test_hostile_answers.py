"""Who answers at a socket may be anybody: only root and oneself are believed, and what they say is bounded in bytes and time."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner
from daemon_in_thread import as_nobody
from fikit.commands.report import command
from fikitd.api import client
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.api.reports import ReportStore
from fikitd.base.protocol import CONTROL_NAME

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")


@contextlib.contextmanager
def answering(
    run_dir: Path, answer: Callable[[socket.socket], None], listen: Callable[[Any], Any] = lambda f: f()
) -> Iterator[Control]:
    """A daemon that says to everybody what `answer` sends."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(run_dir / CONTROL_NAME))
    listen(listener.listen)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    if connection.recv(1024):
                        answer(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield Control(run_dir)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def without_end(connection: socket.socket) -> None:
    connection.send(b"ok\n[")
    while True:
        connection.send(b"[" * 60_000)


def drop_by_drop(connection: socket.socket) -> None:
    connection.send(b"ok\n")
    while True:
        connection.send(b" ")
        time.sleep(0.02)


def test_an_answer_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 500_000)
    with answering(tmp_path, without_end) as control, pytest.raises(DaemonUnreachable, match="more than 500000 bytes"):
        control.jobs()


def test_an_answer_that_never_comes_to_its_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRANSFER_S", 0.0)
    with answering(tmp_path, drop_by_drop), pytest.raises(DaemonUnreachable, match="it did not answer in time"):
        Control(tmp_path, timeout_s=0.3).jobs()


@root_only
def test_what_another_user_serves_is_neither_asked_nor_believed(tmp_path: Path) -> None:
    """As at $TMPDIR/fikit-<uid>, where anybody may have been first."""
    heard: list[bytes] = []
    with answering(tmp_path, lambda connection: heard.append(b"asked"), listen=as_nobody) as control:
        for ask in (control.ping, control.jobs, control.node, control.shutdown):
            with pytest.raises(DaemonUnreachable, match="belongs to uid 65534, neither to root nor to you"):
                ask()
    assert heard == []


@root_only
def test_roots_and_ones_own_are_believed(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    with answering(tmp_path, lambda connection: connection.send(b"ok\nfikitd 1 budget\n")) as control:
        (tmp_path / CONTROL_NAME).chmod(0o666)
        assert control.ping() == "fikitd 1 budget"
        assert as_nobody(control.ping) == "fikitd 1 budget"


def test_a_report_is_found_beside_a_daemon_that_says_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ReportStore(site_without_daemon(tmp_path, monkeypatch)).save(REPORT)
    (tmp_path / "run").mkdir()
    for answer in (b"ok\n[{}]", b"ok\n\xff", b"ok\n" + b"[" * 50_000, b"error \x1b[2J", b"\x1b]0;x\x07"):
        with answering(tmp_path / "run", lambda connection, answer=answer: connection.send(answer)):  # type: ignore[misc]
            for argv in (["12"], ["--list"]):
                done = CliRunner().invoke(command, argv)
                assert (done.exit_code, "serve" in done.output, "\x1b" in done.output) == (0, True, False)
        (tmp_path / "run" / CONTROL_NAME).unlink()
