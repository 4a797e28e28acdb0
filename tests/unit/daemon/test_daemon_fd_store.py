"""What the next fikitd finds of the clients of this one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fikitd.base import protocol
from fikitd.base.protocol import Device
from fikitd.clients import fd_store
from fikitd.clients.fd_store import FIRST_FD, KINDS, FdStore, KeptClient, Notes
from fikitd.gpus.memory import MemoryPage

DEVICE = Device("Emulated GPU", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 2**34)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("FIKIT_KEEP", "1")
        yield notify


def handed_over(monkeypatch: pytest.MonkeyPatch, descriptors: list[tuple[str, int]]) -> list[KeptClient]:
    """What `inherited` makes of them; they are copied to numbers in a row, as systemd has them, behind all that are in use."""
    first = 1 + max(int(fd.name) for fd in Path("/proc/self/fd").iterdir())
    for i, (_, fd) in enumerate(descriptors):
        os.dup2(fd, first + i)
    monkeypatch.setattr(fd_store, "FIRST_FD", first)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", str(len(descriptors)))
    monkeypatch.setenv("LISTEN_FDNAMES", ":".join(name for name, _ in descriptors))
    return FdStore().inherited()


def client(number: int = 3, version: int = protocol.OLDEST) -> list[tuple[str, int]]:
    notes = Notes.begin(number, "12", 7, 5, DEVICE, version)
    notes.append(b"first")
    notes.append(b"second" * 100)
    return [(f"{number}.{kind}", notes.fd if kind == "notes" else os.eventfd(0)) for kind in KINDS]


def test_a_client_is_handed_over_whole(systemd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = client()
    FdStore().keep(3, {name.partition(".")[2]: fd for name, fd in sent})
    received = []
    for _ in sent:
        message, fds, _, _ = socket.recv_fds(systemd, 4096, 4)
        received.append((message.decode().removeprefix("FDSTORE=1\nFDNAME="), fds[0]))
    (kept,) = handed_over(monkeypatch, received)
    assert (kept.number, kept.job, kept.started_ns, kept.share, kept.device) == (3, "12", 7, 5, DEVICE)
    assert kept.version == protocol.OLDEST  # what its shim knows, not what this fikitd does
    assert kept.kernels == [b"first", b"second" * 100]
    Notes(kept.notes).append(b"third")  # behind them
    assert handed_over(monkeypatch, received)[0].kernels[2] == b"third"


@pytest.mark.parametrize("fault", ["one missing", "no notes", "garbage", "cut", "too old", "too new"])
def test_what_makes_no_client_is_dropped_and_said(
    fault: str, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    versions = {"too old": protocol.OLDEST - 1, "too new": protocol.VERSION + 1}
    descriptors = client(version=versions.get(fault, protocol.VERSION))
    notes = descriptors[-1][1]
    if fault == "one missing":
        del descriptors[1]
    elif fault == "no notes":
        os.ftruncate(notes, 0)
    elif fault == "garbage":
        os.pwrite(notes, b"\x05\0\0\0{{{{{", 0)
    elif fault == "cut":
        os.ftruncate(notes, 10)
    assert handed_over(monkeypatch, descriptors) == []
    why = {
        version: f"its page is of protocol version {number}, and fikitd knows 2 to {protocol.VERSION}"
        for version, number in versions.items()
    }
    said = why.get(fault, "what was kept of it is not whole")
    assert caplog.messages == [f"client 3 of the fikitd before this one runs free: {said}"]
    for kind in KINDS:
        assert systemd.recv(4096).decode() == f"FDSTOREREMOVE=1\nFDNAME=3.{kind}"


def test_without_anybody_who_keeps_nothing_is_sent(systemd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIKIT_KEEP")
    assert not FdStore()
    FdStore().drop(1)
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)


def test_descriptors_of_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "5")
    assert FdStore().inherited() == []
    assert FIRST_FD == 3


def test_a_memory_page_goes_on_with_what_its_processes_hold() -> None:
    before = MemoryPage(2**30)
    share = before.take()
    before._page.share[share].held_bytes = 77
    before._page.peak_bytes = 99
    after = MemoryPage(2**30, os.dup(before.fd))
    assert after.take_again(share) == share
    assert (after._page.share[share].held_bytes, after.peak_bytes) == (77, 99)
    assert after.take() == share + 1
    with pytest.raises(OSError, match="not a memory page"):
        MemoryPage(0, os.memfd_create("other"))
