"""Clients outlive fikitd: what is needed to go on with them is left with systemd, which hands it to the next fikitd.

That is systemd's file descriptor store (sd_pid_notify_with_fds(3), sd_listen_fds(3)). The clients notice nothing: their
connection, page and doorbell stay what they are. Where nobody keeps descriptors, clients run free when fikitd ends.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fikitd.base import protocol
from fikitd.base.protocol import Device

ENV_KEEP: Final = "FIKIT_KEEP"  # set beside FileDescriptorStoreMax= in the unit: systemd does not tell by itself
KINDS: Final = ("connection", "page", "doorbell", "memory", "notes")
FIRST_FD: Final = 3
MAX_NOTES_BYTES: Final = 64 * 2**20

_log = logging.getLogger("fikitd")


class _OtherVersion(Exception):
    """A page that this fikitd cannot go on with; one sentence."""


@dataclass
class KeptClient:
    """One client of the fikitd before this one. The descriptors are the owner's to close."""

    number: int
    job: str
    started_ns: int  # of the job's record
    share: int  # of the memory page
    device: Device
    version: int  # of the protocol
    connection: int
    page: int
    doorbell: int
    memory: int
    notes: int
    kernels: list[bytes] = field(default_factory=list)  # descriptions, as they came
    expected: bool = True  # not gone on with yet


class Notes:
    """What fikitd knows of a client and would not know after a restart: a memory file of frames, the first one JSON."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def begin(cls, number: int, job: str, started_ns: int, share: int, device: Device, version: int) -> Notes:  # noqa: PLR0917
        facts = {
            "protocol": version, "number": number, "job": job, "started_ns": started_ns, "share": share,
            "device": [device.name, device.uuid, device.memory_bytes],
        }  # fmt: skip
        notes = cls(os.memfd_create("fikit-notes", os.MFD_CLOEXEC))
        notes.append(json.dumps(facts).encode())
        return notes

    def append(self, frame: bytes) -> None:
        os.write(self.fd, len(frame).to_bytes(4, "little") + frame)

    def close(self) -> None:
        os.close(self.fd)


def _frames(fd: int) -> Iterator[bytes]:
    data = os.pread(fd, MAX_NOTES_BYTES, 0)
    while len(data) >= 4:
        end = 4 + int.from_bytes(data[:4], "little")
        if end > len(data):
            return  # fikitd was killed while it wrote
        yield data[4:end]
        data = data[end:]


class FdStore:
    """Speaks to systemd, if it keeps descriptors for us; otherwise every call does nothing."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "") if os.environ.get(ENV_KEEP) else ""
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def __bool__(self) -> bool:
        return bool(self._address)

    def keep(self, number: int, descriptors: Mapping[str, int]) -> None:
        for kind, fd in descriptors.items():
            self._tell(f"FDSTORE=1\nFDNAME={number}.{kind}", fd)

    def drop(self, number: int) -> None:
        for kind in KINDS:
            self._tell(f"FDSTOREREMOVE=1\nFDNAME={number}.{kind}")

    def inherited(self) -> list[KeptClient]:
        """The clients of the fikitd before this one. What makes no whole client is closed and dropped."""
        count = int(os.environ.get("LISTEN_FDS", "0")) if os.environ.get("LISTEN_PID") == str(os.getpid()) else 0
        names = os.environ.get("LISTEN_FDNAMES", "").split(":")
        groups: dict[int, dict[str, int]] = {}
        for fd, name in zip(range(FIRST_FD, FIRST_FD + count), names, strict=False):
            os.set_inheritable(fd, False)
            digits, _, kind = name.partition(".")
            if digits.isdecimal() and kind in KINDS:
                groups.setdefault(int(digits), {})[kind] = fd
        found = []
        for number, descriptors in sorted(groups.items()):
            try:
                found.append(_kept(number, descriptors))
            except (OSError, ValueError, KeyError, TypeError, _OtherVersion) as error:
                why = error if isinstance(error, _OtherVersion) else "what was kept of it is not whole"
                _log.warning("client %d of the fikitd before this one runs free: %s", number, why)
                for fd in descriptors.values():
                    os.close(fd)
                self.drop(number)
        return found

    def _tell(self, state: str, *descriptors: int) -> None:
        if not self._address:
            return
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
            notify.settimeout(1.0)
            notify.sendmsg([state.encode()], rights, 0, self._address)


def _kept(number: int, descriptors: Mapping[str, int]) -> KeptClient:
    frames = _frames(descriptors["notes"])
    facts = json.loads(next(frames, b""))
    if not protocol.OLDEST <= (version := facts["protocol"]) <= protocol.VERSION:
        raise _OtherVersion(
            f"its page is of protocol version {version}, and fikitd knows {protocol.OLDEST} to {protocol.VERSION}"
        )
    if facts["number"] != number:
        raise ValueError("notes of another client")
    os.lseek(descriptors["notes"], 0, os.SEEK_END)
    return KeptClient(
        number=number,
        job=facts["job"],
        started_ns=facts["started_ns"],
        share=facts["share"],
        device=Device(*facts["device"]),
        version=version,
        connection=descriptors["connection"],
        page=descriptors["page"],
        doorbell=descriptors["doorbell"],
        memory=descriptors["memory"],
        notes=descriptors["notes"],
        kernels=list(frames),
    )
