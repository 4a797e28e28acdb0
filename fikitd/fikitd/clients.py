"""The client socket: one connection per process and GPU, from hello to end of file.

What comes in is hostile until it was parsed. A connection that breaks the protocol is closed, alone; its process runs on
unmanaged, as after any other failure (D7).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
import time
from array import array
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from fikitd import identify, profiles, protocol
from fikitd.gpus import Dispatcher, Gpus, TooManyGpus
from fikitd.jobs import Job, Jobs, iso
from fikitd.keeper import Keeper, Kept, Notes
from fikitd.memory import MemoryPage, NoShare
from fikitd.peer import Peer, still_there
from fikitd.profile_format import Kernel, Profile
from fikitd.profile_key import key_of_process
from fikitd.profiles import ProfileStore
from fikitd.protocol import Device, ProtocolError
from fikitd.records import JobRecord, JobRecords
from fikitd.storage import Storage, StorageTimeout, become, reason
from fikitd.totals import Stats

_log = logging.getLogger("fikitd")

HELLO_TIMEOUT_S: Final = 5.0
PROFILE_WAIT_S: Final = 0.1  # a hello waits so long for its profile (the shim 1 s for us); a later one still counts
PROFILE_TIMEOUT_S: Final = 15.0
MAX_CONNECTIONS_PER_UID: Final = 256
MAX_KERNEL_MESSAGES: Final = 2 * protocol.SLOTS  # every slot once, and again after a race between two threads
COMPLAINT_INTERVAL_S: Final = 60.0
_BATCH: Final = 64  # packets of one client before the others get their turn


class Refused(Exception):
    """The client is told to run unmanaged, for the reason given."""


class Client:
    """One admitted connection."""

    def __init__(self, number: int, peer: Peer, record: JobRecord, device: Device, job: Job) -> None:
        self.number = number
        self.peer = peer
        self.record = record
        self.device = device
        self.job = job
        self.started_ns = time.time_ns()
        self.key = record.profile
        self.command: list[str] = []
        self.peak_memory_bytes = 0
        self.kept: Kept | None = None  # from the fikitd before this one
        self.notes: Notes | None = None  # for the next one


class Clients:
    def __init__(
        self,
        *,
        gpus: Gpus,
        jobs: Jobs,
        records: JobRecords,
        store: ProfileStore,
        storage: Storage,
        keeper: Keeper,
        proc: Path,
    ) -> None:
        self._keeper = keeper
        self._leaving = False
        self._gpus = gpus
        self._jobs = jobs
        self._records = records
        self._store = store
        self._storage = storage
        self._proc = proc
        self._connections: Counter[int] = Counter()
        self._next_number = 1
        self._complained: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return self._connections.total() > 0

    def inherit(self) -> list[Coroutine[Any, Any, None]]:
        """The conversations with the clients of the fikitd before this one, to be gone on with. Before any new client comes."""
        going_on = []
        for kept in self._keeper.inherited():
            self._next_number = max(self._next_number, kept.number + 1)
            record = self._records.get(kept.job)
            try:
                if record is None or record.started_ns != kept.started_ns:
                    raise OSError(errno.ESRCH, "its job is over")
                job = self._jobs.of(record, kept.device)
                job.memory_of_before(kept.device.uuid, kept.memory)
            except OSError as error:
                _log.info("job %s: a client of the fikitd before this one runs free: %s", kept.job, error.strerror)
                self._let_go(kept)
                os.close(kept.connection)
                continue
            job.expects(+1)
            connection = socket.socket(fileno=kept.connection)
            connection.setblocking(False)
            going_on.append(self.serve(connection, (kept, record)))
        return going_on

    def leave(self) -> bool:
        """fikitd ends. Whether its clients, with their counters, are the next one's."""
        self._leaving = bool(self._keeper)
        return self._leaving

    def _let_go(self, kept: Kept) -> None:
        for fd in (kept.page, kept.doorbell, kept.memory, kept.notes):
            os.close(fd)
        self._keeper.drop(kept.number)

    async def serve(self, connection: socket.socket, kept: tuple[Kept, JobRecord] | None = None) -> None:
        """One connection, from its first packet (or where the fikitd before this one was) to its last; closes it."""
        peer = Peer.of(connection)
        self._connections[peer.uid] += 1
        try:
            if kept:
                await self._go_on(connection, peer, *kept)
            else:
                await self._converse(connection, peer)
        except Refused as refusal:
            _log.info("process %d of uid %d is not managed: %s", peer.pid, peer.uid, refusal)
            _send(connection, protocol.refused(str(refusal)))
        except ProtocolError as error:
            self._complain(peer, str(error))
        except (OSError, TimeoutError):
            pass  # it went away, or never said what it wants
        finally:
            connection.close()
            self._connections[peer.uid] -= 1
            self._connections += Counter()  # forgets users with none

    async def _converse(self, connection: socket.socket, peer: Peer) -> None:
        if self._connections[peer.uid] > MAX_CONNECTIONS_PER_UID:
            raise Refused(f"uid {peer.uid} has {MAX_CONNECTIONS_PER_UID} processes connected, which is the limit")
        packet = await asyncio.wait_for(_receive(connection), HELLO_TIMEOUT_S)
        if not packet:
            return
        hello = protocol.parse_hello(packet)
        if hello.version != protocol.VERSION:
            raise Refused(
                f"the shim speaks protocol {hello.version} and fikitd {protocol.VERSION}; "
                "install the same fikit for jobs and daemon"
            )
        record = await self._identify(connection, peer)
        if hello.watches:
            await self._let_watch(connection, record, hello.device)
            return
        client = Client(self._next_number, peer, record, hello.device, self._jobs.of(record, hello.device))
        self._next_number += 1
        await self._manage(connection, client)

    async def _go_on(self, connection: socket.socket, peer: Peer, kept: Kept, record: JobRecord) -> None:
        """The connection is that of a process that was identified; it may have ended since, then its counters are taken."""
        client = Client(kept.number, peer, record, kept.device, self._jobs.of(record, kept.device))
        client.kept = kept
        try:
            await self._manage(connection, client)
        finally:
            self._came(client)
            if not self._leaving:
                self._let_go(kept)

    async def _let_watch(self, connection: socket.socket, record: JobRecord, device: Device) -> None:
        """A program of the job looks at its memory until it hangs up. It is no client: the job need not have one."""
        job = self._jobs.get(record.job)
        try:
            memory = job.memory(device.uuid) if job else MemoryPage(record.mem_bytes)
            page = self._gpus.make_page(False)
        except OSError as error:
            raise Refused(f"its job's GPU memory cannot be shown: {reason(error)}") from None
        doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            _send(connection, protocol.welcome(os.fstat(page).st_size, memory.bytes, 0), (page, doorbell, memory.fd))
        finally:
            os.close(page)
            os.close(doorbell)
        while await _receive(connection):
            raise ProtocolError("a message of one who only watches")

    async def _identify(self, connection: socket.socket, peer: Peer) -> JobRecord:
        find = partial(identify.identify, self._proc, peer.pid, peer.uid, self._records, daemon_uid=os.geteuid())
        try:
            record = await self._storage.run(peer.uid, find)
        except identify.Unidentified as error:
            raise Refused(str(error)) from None
        except StorageTimeout:
            raise Refused(f"process {peer.pid} of uid {peer.uid} could not be identified in time") from None
        if not still_there(connection):
            raise Refused(f"process {peer.pid} of uid {peer.uid} ended while it was identified")
        return record

    async def _manage(self, connection: socket.socket, client: Client) -> None:
        kept, uuid = client.kept, client.device.uuid
        try:
            dispatcher = self._gpus.acquire(uuid)
        except TooManyGpus as error:
            raise Refused(str(error)) from None
        try:
            memory = client.job.memory(uuid)
            share = memory.take_again(kept.share) if kept else memory.take()
        except (OSError, NoShare) as error:
            self._gpus.release(uuid)
            raise Refused(f"its job's GPU memory cannot be accounted: {reason(error)}") from None
        try:
            await self._serve_client(connection, client, dispatcher, memory, share)
        finally:
            if not self._leaving:
                memory.give_back(share)
            self._gpus.release(uuid)

    async def _serve_client(
        self, connection: socket.socket, client: Client, dispatcher: Dispatcher, memory: MemoryPage, share: int
    ) -> None:
        peer, record, device, job, kept = client.peer, client.record, client.device, client.job, client.kept
        # Shielded: a profile that comes later than a process wants to wait is still used.
        profile = asyncio.ensure_future(self._find_profile(client))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(profile), PROFILE_WAIT_S)

        page = os.dup(kept.page) if kept else self._gpus.make_page(record.measure)
        doorbell = os.dup(kept.doorbell) if kept else os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            try:
                terms = self._gpus.protection(record, job.warn)
                dispatcher.add_client(
                    client.number, page, doorbell, record.priority, record.measure,
                    max_slowdown=terms.max_slowdown, max_delay_ns=terms.max_delay_ns, gang=job.number,
                    resume=kept is not None,
                )  # fmt: skip
            except (ValueError, RuntimeError) as error:
                raise Refused(f"the dispatcher of {device.uuid} took no more clients: {error}") from None
            # From here on the counters are the job's, whatever happens to the connection.
            job.client_came(client.number, peer.pid, partial(dispatcher.stats, client.number))
            job.trace.came(client.number, peer.pid, device.uuid, partial(dispatcher.journal, client.number))
            self._came(client)
            adopt = asyncio.ensure_future(self._use_profile(client, dispatcher, profile))
            try:
                if profile.done():
                    await adopt
                if kept:
                    client.notes = Notes(kept.notes)
                    for packet in kept.kernels:
                        self._describe(client, dispatcher, packet.ljust(protocol.KERNEL_BYTES, b"\0"))
                else:
                    welcome = protocol.welcome(os.fstat(page).st_size, memory.bytes, share)
                    self._keep(connection, client, {"page": page, "doorbell": doorbell, "memory": memory.fd}, share)
                    _send(connection, welcome, (page, doorbell, memory.fd))
                _log.info(
                    "job %s: process %d is managed on %s, priority %d, profile %s %s",
                    record.job, peer.pid, device.uuid, record.priority, client.key or "unknown",
                    "being measured" if record.measure else "found" if job.profile_found else "not found",
                )  # fmt: skip
                await self._listen(connection, client, dispatcher)
            finally:
                adopt.cancel()
                profile.cancel()
                client.peak_memory_bytes = memory.peak_of(share)
                self._depart(client, dispatcher)
        finally:
            os.close(page)
            os.close(doorbell)
            if client.notes is not None and not kept:
                client.notes.close()
                if not self._leaving:
                    self._keeper.drop(client.number)

    @staticmethod
    def _came(client: Client) -> None:
        """Gone on with, or never to be."""
        if client.kept and client.kept.expected:
            client.kept.expected = False
            client.job.expects(-1)

    def _keep(self, connection: socket.socket, client: Client, descriptors: dict[str, int], share: int) -> None:
        """Leave what the next fikitd needs of a new client with whoever keeps it."""
        if self._keeper:
            client.notes = Notes.begin(client.number, client.record.job, client.record.started_ns, share, client.device)
            descriptors |= {"connection": connection.fileno(), "notes": client.notes.fd}
            self._keeper.keep(client.number, descriptors)

    def _describe(self, client: Client, dispatcher: Dispatcher, packet: bytes) -> None:
        kernel = protocol.parse_kernel(packet)
        dispatcher.describe(
            client.number,
            kernel.slot,
            kernel.name,
            kernel.module_hash,
            kernel.grid,
            kernel.block,
            kernel.shared_bytes,
            kernel.kind,
        )

    async def _listen(self, connection: socket.socket, client: Client, dispatcher: Dispatcher) -> None:
        received = 0
        while packet := await _receive(connection):
            received += 1
            if received > MAX_KERNEL_MESSAGES:
                raise ProtocolError(f"more than {MAX_KERNEL_MESSAGES} kernel descriptions")
            self._describe(client, dispatcher, packet)
            if client.notes is not None:
                client.notes.append(packet.rstrip(b"\0"))  # its name has a long tail of them
            if received % _BATCH == 0:
                await asyncio.sleep(0)

    async def _find_profile(self, client: Client) -> Profile | None:
        """The profile of the client's program, None when there is none; sets its key and command. Never raises."""
        record, device = client.record, client.device

        skipped: list[str] = []

        def find() -> tuple[str, list[str], Profile | None]:
            become(record.uid, record.gid)
            derived, command = key_of_process(self._proc, client.peer.pid)
            key = record.profile or derived
            found = None if record.measure else self._store.load(record.uid, key, device.name, skipped.append)
            return key, command, found

        try:
            client.key, client.command, found = await self._storage.run(record.uid, find, PROFILE_TIMEOUT_S)
        except (OSError, ValueError) as error:
            client.job.warn(f"profiles in {self._store.directory} could not be read: {reason(error)}")
            return None
        client.job.uses_profile(client.key)
        for sentence in skipped:
            client.job.warn(sentence)
        return found

    async def _use_profile(self, client: Client, dispatcher: Dispatcher, profile: asyncio.Task[Profile | None]) -> None:
        found = await profile
        if found is not None:
            dispatcher.set_profile(client.number, found["kernels"])
            client.job.profile_found = True

    def _depart(self, client: Client, dispatcher: Dispatcher) -> None:
        """End of file: take the counters, and what was measured or sampled."""
        job = client.job
        if self._leaving:  # it goes on, and so do its counters
            dispatcher.remove_client(client.number)
            return
        job.trace.went(client.number)
        learnt = dispatcher.export_profile(client.number)
        stats = dispatcher.remove_client(client.number)
        if client.key:
            job.uses_profile(client.key, stats["kernels"])
        if learnt and (client.key or client.record.measure):
            job.saving(+1)
            task = asyncio.ensure_future(self._save_profile(client, learnt, stats))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        job.client_went(client.number, client.peer.pid, stats)
        self._jobs.client_ended(job)

    async def _save_profile(self, client: Client, kernels: Sequence[Kernel], stats: Stats) -> None:
        record, job = client.record, client.job
        created = iso(client.started_ns)
        # Pids and numbers repeat on every node, and the nodes share the directory.
        when, which = created.replace(":", "").replace("-", ""), secrets.token_hex(4)
        run = f"{when}-{record.job[:20]}-{client.peer.pid}-{which}"

        def save() -> None:
            document = profiles.document(
                key=client.key,
                command=client.command,
                created=created,
                device={
                    "name": client.device.name,
                    "memory_bytes": client.device.memory_bytes,
                    "emulated": client.device.emulated,
                },
                span_ns=stats["span_ns"],
                launches=stats["kernels"],
                peak_bytes=client.peak_memory_bytes,
                kernels=kernels,
            )
            self._store.prepare(record.uid, record.gid)
            become(record.uid, record.gid)
            self._store.save(record.uid, document, run, sampled=not record.measure)

        try:
            await self._storage.run(record.uid, save)
            job.profile_stored = job.profile_stored is not False
        except (OSError, ValueError) as error:
            job.profile_stored = False
            sentence = f"its profile could not be stored in {self._store.directory}: {reason(error)}"
            if record.measure:
                job.warn(sentence)
            else:  # nobody asked for the samples
                _log.info("job %s: %s", record.job, sentence)
        finally:
            job.saving(-1)

    def _complain(self, peer: Peer, fault: str) -> None:
        now = time.monotonic()
        if now - self._complained.get(peer.uid, -COMPLAINT_INTERVAL_S) >= COMPLAINT_INTERVAL_S:
            self._complained[peer.uid] = now
            _log.warning(
                "process %d of uid %d sent no valid message and was disconnected: %s", peer.pid, peer.uid, fault
            )


async def _receive(connection: socket.socket) -> bytes:
    """The next packet, empty at end of file. Descriptors that a client sends along are closed by the kernel."""
    packet = await asyncio.get_running_loop().sock_recv(connection, protocol.MESSAGE_BYTES + 1)
    if len(packet) > protocol.MESSAGE_BYTES:
        raise ProtocolError(f"a packet of more than {protocol.MESSAGE_BYTES} bytes")
    return packet


def _send(connection: socket.socket, packet: bytes, descriptors: tuple[int, ...] = ()) -> None:
    """The client has room for the one packet it ever gets; if not, or if it is gone, that is its end of file."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
    with suppress(OSError):
        connection.sendmsg([packet], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
