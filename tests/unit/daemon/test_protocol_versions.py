"""Shim and fikitd of different versions work together: either is replaced while the other runs."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore
from daemon_in_thread import Daemon
from fikitd.api.client import Control, ControlError
from fikitd.base import protocol
from fikitd.base.protocol import Device, Hello

from fikitd import _core

PROTOCOL = Path(__file__).resolve().parents[3] / "fikitd/core/protocol"

# What each version gave a meaning, with offset and size. Written down when it was released, and never changed.
PAGE = {
    2: {
        "magic": (0, 4), "version": (4, 4), "page_bytes": (8, 4), "measure": (12, 4), "lease_ns": (16, 8),
        "spin_ns": (24, 8), "sample_every": (32, 4), "gate": (64, 4), "wake": (68, 4), "grant_seq": (72, 4),
        "awake": (76, 4), "gate_until_ns": (80, 8), "ring_tail": (88, 8), "marker_interval": (96, 4),
        "ring_head": (128, 8), "launch_seq": (136, 8), "request_seq": (192, 4), "waiting": (196, 4),
        "request_slot": (200, 4), "request_ns": (208, 8), "wait_count": (216, 8), "wait_total_ns": (224, 8),
        "expired_count": (232, 8), "marker_count": (240, 8), "wait_histogram": (256, 160),
        "first_launch_ns": (416, 8), "last_drained_ns": (424, 8), "slot_launches": (512, 32768),
        "ring": (33280, 131072), "known_slots": (164352, 512), "gap_slots": (164864, 512), "marks": (167936, 256),
    },
    3: {"run_until": (104, 8)},
    4: {"copies_ask_from": (112, 16), "request_copy": (204, 4), "request_bytes": (248, 8)},
    5: {"fills_ask": (100, 4), "collective_names": (165376, 2048)},
    6: {"moves": (167424, 128)},
    7: {"most_movable_bytes": (167552, 8), "most_movable_ns": (167560, 8)},
    8: {"moves_per_s": (167568, 16)},
}  # fmt: skip
PAGE_BYTES = 172032
# Behind the page, since version 7.
PLAN = {
    "number": (0, 4), "launches": (4, 4), "first_launch": (8, 8), "until_ns": (16, 8), "count": (24, 4), "taken": (32, 4),
    "refused": (36, 4), "carried_out": (40, 8), "skipped": (48, 8), "bytes_per_s": (56, 8), "moves": (64, 131072),
}  # fmt: skip
# Of the messages, by version: hello of a shim for a device named "Emulated GPU".
UUID = bytes(range(16))


def hello_of_version_2(watches: bool = False) -> bytes:
    return struct.pack("<IIII16sQ256s", 1, 296, 2, watches, UUID, 2**34, b"Emulated GPU")


@pytest.mark.parametrize(
    ("structure", "words", "whole"),
    [
        ("fikit_page", {name: place for words in PAGE.values() for name, place in words.items()}, PAGE_BYTES),
        ("fikit_plan", PLAN, 131136),
    ],
)
def test_no_version_moves_a_word_of_the_page_or_the_plan(
    cc: Callable[..., Path], tmp_path: Path, structure: str, words: dict[str, tuple[int, int]], whole: int
) -> None:
    lines = [
        f'printf("{name} %zu %zu\\n", offsetof(struct {structure}, {name}), sizeof(((struct {structure} *)0)->{name}));'
        for name in words
    ]
    source = tmp_path / "page.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <fikit_protocol.h>\n"
        f'int main(void) {{ {"".join(lines)} printf("%zu", sizeof(struct {structure})); return 0; }}'
    )
    program = cc(source, f"-I{PROTOCOL}")
    *found, size = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    assert {line.split()[0]: tuple(map(int, line.split()[1:])) for line in found} == words
    assert int(size) == whole


def test_each_version_is_written_down() -> None:
    assert sorted(PAGE) == list(range(protocol.OLDEST, protocol.VERSION + 1))


def test_a_word_that_is_added_was_padding_before() -> None:
    taken: set[int] = set()
    for version in sorted(PAGE):
        for offset, size in PAGE[version].values():
            bytes_ = set(range(offset, offset + size))
            assert not taken & bytes_
            taken |= bytes_


@pytest.mark.parametrize(
    ("oldest", "newest", "agreed"),
    [(2, 2, 2), (2, 3, 3), (3, 3, 3), (2, 4, 4), (2, 65535, 8), (1, 1, None), (1, 2, 2), (9, 9, None), (3, 2, None)],
)
def test_the_newest_version_that_both_know_is_agreed_upon(oldest: int, newest: int, agreed: int | None) -> None:
    assert Hello(oldest, newest, Device("", "", 0)).version == agreed


@pytest.fixture
def page_versions(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The versions of the pages that the daemon makes."""
    made: list[int] = []

    def make_page(core: FakeCore, *options: int, **more: Any) -> int:
        page = _core.make_page(*options, **more)  # type: ignore[arg-type]
        made.append(struct.unpack_from("<I", os.pread(page, 4, 4))[0])
        return page

    monkeypatch.setattr(FakeCore, "make_page", make_page)
    return made


def welcomed(daemon: Daemon, packet: bytes) -> tuple[int, ...]:
    client = FakeClient(daemon.run_dir)
    client.send(packet)
    kind, answer, descriptors = client.answer()
    assert kind == protocol.WELCOME, answer
    for descriptor in descriptors:
        os.close(descriptor)
    return struct.unpack("<IIIIII", answer)


def test_an_old_shim_is_served_as_it_always_was(daemon: Daemon, page_versions: list[int]) -> None:
    daemon.job()
    kind, size, version, page_bytes, memory_bytes, share = welcomed(daemon, hello_of_version_2())
    assert (kind, size, version, page_bytes, memory_bytes, share) == (2, 24, 2, PAGE_BYTES, 16512, 0)
    assert page_versions == [2]
    assert daemon.control.job("12")["device"]["name"] == "Emulated GPU"


def test_an_old_shim_that_only_watches_is_no_client(daemon: Daemon, page_versions: list[int]) -> None:
    daemon.job()
    assert welcomed(daemon, hello_of_version_2(watches=True))[2] == 2
    assert page_versions == [2]
    assert daemon.core.seen == {}


def test_an_old_shim_in_a_job_that_was_told_to_join_mps_is_managed_and_said_to_have_slices(daemon: Daemon) -> None:
    """It asks for no place, and says nothing of MPS."""
    daemon.job()
    welcomed(daemon, hello_of_version_2())
    assert daemon.control.job("12")["device_mode"] == "slices"


def test_a_new_shim_is_served_in_the_new_version_beside_it(daemon: Daemon, page_versions: list[int]) -> None:
    daemon.job()
    welcomed(daemon, hello_of_version_2())
    assert welcomed(daemon, fakes.hello())[2] == protocol.VERSION
    assert page_versions == [2, protocol.VERSION]


@pytest.mark.parametrize(
    ("version", "newest", "said"), [(1, 0, "1"), (protocol.VERSION + 1, 10, f"{protocol.VERSION + 1} to 10")]
)
def test_a_shim_without_a_common_version_is_refused(daemon: Daemon, version: int, newest: int, said: str) -> None:
    daemon.job()
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello(version=version, newest=newest))
    assert client.refusal() == (
        f"the shim speaks protocol {said} and fikitd 2 to 8; install the same fikit for jobs and daemon"
    )


def test_a_page_of_an_unknown_version_is_not_made() -> None:
    for version in (protocol.OLDEST - 1, protocol.VERSION + 1):
        with pytest.raises(ValueError, match="no page of protocol version"):
            _core.make_page(False, 1, 1, 0, version)


def test_what_an_older_fikitd_cannot_be_asked_is_said_with_what_to_do(tmp_path: Path) -> None:
    older = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    older.bind(str(tmp_path / protocol.CONTROL_NAME))
    older.listen()

    def answer() -> None:
        connection, _ = older.accept()
        with connection:
            verb = connection.recv(1024).decode()
            connection.send(f'error verb "{verb}" is not known; use one of ping, summary, jobs\n'.encode())

    answering = threading.Thread(target=answer)
    answering.start()
    with pytest.raises(ControlError) as refused:
        Control(tmp_path).node()
    answering.join()
    older.close()
    assert str(refused.value) == (
        f'the fikitd at {tmp_path / protocol.CONTROL_NAME} is older than this program and does not know "node"; '
        "restart it (systemctl restart fikitd): running jobs go on with the next one"
    )


def test_a_running_fikitd_names_the_verbs_that_it_knows(daemon: Daemon) -> None:
    """By which its client knows that it is older."""
    with pytest.raises(ControlError, match='does not know "later"'):
        daemon.control._ask("later")
