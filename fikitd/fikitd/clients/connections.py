"""The client socket: one connection per process and GPU, from hello to end of file.

What comes in is hostile until it was parsed. A connection that breaks the protocol is closed, alone; its process runs on
unmanaged, as after any other failure (D7).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from fikitd.base import protocol
from fikitd.base.peer import Peer, still_there
from fikitd.base.protocol import Device, Hello, ProtocolError
from fikitd.base.scarcity import run_out, scarce
from fikitd.base.shares import WATCHERS, NoPlace, Places
from fikitd.clients.fd_store import FdStore, KeptClient
from fikitd.clients.managed import Managed
from fikitd.clients.managed_client import Client
from fikitd.clients.packets import Refused, receive, send
from fikitd.clients.turns import Turns
from fikitd.gpus.devices import Devices, NotItsGpu
from fikitd.gpus.dispatchers import Gpus
from fikitd.gpus.memory import MemoryPage
from fikitd.jobs import identify
from fikitd.jobs.registry import Jobs
from fikitd.mps.clients import Clients as MpsClients
from fikitd.mps.clients import Outside
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage, StorageTimeout

_log = logging.getLogger("fikitd")

HELLO_TIMEOUT_S: Final = 5.0
IDENTIFY_TIMEOUT_S: Final = protocol.ANSWER_S - 1.0  # the refusal is there before the shim gives up
IDENTIFIED_AT_ONCE: Final = 8  # processes of one user
COMPLAINT_INTERVAL_S: Final = 60.0


class Clients:
    def __init__(
        self,
        managed: Managed,
        *,
        gpus: Gpus,
        devices: Devices,
        jobs: Jobs,
        mps: MpsClients,
        records: JobRecords,
        storage: Storage,
        keeper: FdStore,
        proc: Path,
    ) -> None:
        self._keeper = keeper
        self._managed = managed
        self.change_priority = self._managed.change_priority
        self._gpus = gpus
        self._devices = devices
        self._jobs = jobs
        self._mps = mps
        self._records = records
        self._storage = storage
        self._proc = proc
        self._connections = 0
        self._watchers = Places(WATCHERS)
        self._turns = Turns(IDENTIFIED_AT_ONCE)
        self._next_number = 1
        self._complained: dict[int, float] = {}

    def __bool__(self) -> bool:
        return self._connections > 0

    def inherit(self) -> list[Coroutine[Any, Any, None]]:
        """The conversations with the clients of the fikitd before this one, to be gone on with. Before any new client comes."""
        going_on = []
        taken = {number for job in self._jobs.all() for number in job.taken}
        self._next_number = max([0, *taken]) + 1  # theirs are not used again: a note that says so outlives them
        for kept in self._keeper.inherited():
            self._next_number = max(self._next_number, kept.number + 1)
            record = self._records.get(kept.job)
            try:
                if record is None or record.started_ns != kept.started_ns:
                    raise OSError(errno.ESRCH, "its job is over")
                job = self._jobs.of(record, kept.device)
                if kept.number in job.taken:
                    raise OSError(errno.ESRCH, "it has ended")
                job.memory_of_before(kept.device.uuid, kept.memory)
            except OSError as error:
                _log.info("job %s: a client of the fikitd before this one runs free: %s", kept.job, error.strerror)
                os.close(kept.connection)
                self._let_go(kept)
                continue
            job.expects(+1)
            connection = socket.socket(fileno=kept.connection)
            connection.setblocking(False)
            going_on.append(self.serve(connection, (kept, record)))
        return going_on

    def leave(self) -> bool:
        """fikitd ends. Whether its clients, with their counters, are the next one's."""
        self._managed.leaving = bool(self._keeper)
        return self._managed.leaving

    def _let_go(self, kept: KeptClient, *, drop: bool = True) -> None:
        for fd in (kept.page, kept.doorbell, kept.memory, kept.notes):
            os.close(fd)
        if drop:
            self._keeper.drop(kept.number)

    async def serve(self, connection: socket.socket, kept: tuple[KeptClient, JobRecord] | None = None) -> None:
        """One connection, from its first packet (or where the fikitd before this one was) to its last; closes it."""
        peer = Peer.of(connection)
        self._connections += 1
        try:
            if kept:
                await self._go_on(connection, peer, *kept)
            else:
                await self._converse(connection, peer)
        except (Refused, NoPlace) as refusal:
            self._refuse(connection, peer, str(refusal))
        except ProtocolError as error:
            self._complain(peer, str(error))
        except (OSError, RuntimeError, MemoryError) as error:
            if scarce(error):
                self._refuse(connection, peer, run_out(error))
            elif not isinstance(error, OSError):
                raise
            # else it went away, or never said what it wants
        finally:
            connection.close()
            self._connections -= 1

    def _refuse(self, connection: socket.socket, peer: Peer, why: str) -> None:
        """It is told to run unmanaged. One that is managed already does not listen, and finds that the connection ends."""
        about = {"uid": peer.uid, "refused": True}
        _log.info("process %d of uid %d is not managed: %s", peer.pid, peer.uid, why, extra=about)
        send(connection, protocol.refused(why))

    async def _converse(self, connection: socket.socket, peer: Peer) -> None:
        packet = await asyncio.wait_for(receive(connection), HELLO_TIMEOUT_S)
        if not packet:
            return
        hello = protocol.parse_hello(packet)
        version = hello.version
        if version is None:
            raise Refused(_no_common_version(hello))
        record = await self._identify(connection, peer)
        if hello.joins:
            await self._let_join(connection, peer, record)
            return
        place = await self._place(record, hello.device)
        if hello.watches:
            await self._let_watch(connection, record, hello.device, version)
            return
        job = self._jobs.of(record, hello.device)
        client = Client(self._next_number, peer, record, hello.device, job, version=version, place=place)
        client.in_mps = hello.in_mps
        self._next_number += 1
        await self._managed.serve(connection, client)

    async def _go_on(self, connection: socket.socket, peer: Peer, kept: KeptClient, record: JobRecord) -> None:
        """The connection is that of a process that was identified; it may have ended since, then its counters are taken."""
        job = self._jobs.of(record, kept.device)
        place = await self._place(record, kept.device)
        client = Client(kept.number, peer, record, kept.device, job, version=kept.version, place=place)
        client.kept = kept
        try:
            await self._managed.serve(connection, client)
        finally:
            client.came()
            if not self._managed.leaving:
                self._let_go(kept, drop=not client.counted)

    async def _let_join(self, connection: socket.socket, peer: Peer, record: JobRecord) -> None:
        """A program of the job is a client of its GPU's MPS server until it hangs up. It is no client of ours by that."""
        try:
            await self._mps.ready(record)
            with self._mps.joined(record, peer.pid):
                send(connection, protocol.join())
                if packet := await receive(connection):
                    self._mps.refused_by_driver(record, protocol.parse_outside(packet))
        except Outside as error:
            raise Refused(str(error)) from None

    async def _let_watch(self, connection: socket.socket, record: JobRecord, device: Device, version: int) -> None:
        """A program of the job looks at its memory until it hangs up. It is no client: the job need not have one."""
        job = self._jobs.get(record.job)
        with self._watchers.take(record.uid, record.job):
            memory = (
                job.memory(device.uuid)
                if job
                else MemoryPage(record.mem_bytes, host_bytes=self._jobs.host_bytes(record))
            )
            await self._show(connection, memory, version)

    async def _show(self, connection: socket.socket, memory: MemoryPage, version: int) -> None:
        with ExitStack() as ours:
            page = self._gpus.make_page(False, version)
            ours.callback(os.close, page)
            doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            ours.callback(os.close, doorbell)
            welcome = protocol.welcome(version, os.fstat(page).st_size, memory.bytes, 0)
            send(connection, welcome, (page, doorbell, memory.fd))
        while await receive(connection):
            raise ProtocolError("a message of one who only watches")

    async def _identify(self, connection: socket.socket, peer: Peer) -> JobRecord:
        find = partial(identify.identify, self._proc, peer.pid, peer.uid, self._records, daemon_uid=os.geteuid())
        try:
            async with self._turns.of(peer.uid):
                record = await self._storage.run(peer.uid, find, IDENTIFY_TIMEOUT_S)
        except identify.Unidentified as error:
            raise Refused(str(error)) from None
        except StorageTimeout:
            raise Refused(f"process {peer.pid} of uid {peer.uid} could not be identified in time") from None
        if not still_there(connection):
            raise Refused(f"process {peer.pid} of uid {peer.uid} ended while it was identified")
        return record

    async def _place(self, record: JobRecord, device: Device) -> str:
        try:
            return await self._devices.place(record, device, self._gpus.in_use)
        except NotItsGpu as error:
            raise Refused(str(error)) from None

    def _complain(self, peer: Peer, fault: str) -> None:
        now = time.monotonic()
        if now - self._complained.get(peer.uid, -COMPLAINT_INTERVAL_S) >= COMPLAINT_INTERVAL_S:
            self._complained[peer.uid] = now
            _log.warning(
                "process %d of uid %d sent no valid message and was disconnected: %s",
                peer.pid,
                peer.uid,
                fault,
                extra={"uid": peer.uid, "refused": True},
            )


def _no_common_version(hello: Hello) -> str:
    def span(oldest: int, newest: int) -> str:
        return str(oldest) if oldest == newest else f"{oldest} to {newest}"

    return (
        f"the shim speaks protocol {span(hello.oldest, hello.newest)} and fikitd "
        f"{span(protocol.OLDEST, protocol.VERSION)}; install the same fikit for jobs and daemon"
    )
