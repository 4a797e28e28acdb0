"""A managed client, from WELCOME to its end: page and dispatcher, profile, kernels, counters."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from fikitd import profiles, protocol
from fikitd.gpus import Dispatcher, Gpus, TooManyGpus
from fikitd.job import Job, iso
from fikitd.jobs import Jobs
from fikitd.keeper import Keeper, Kept, Notes
from fikitd.memory import MemoryPage, NoShare
from fikitd.packets import Refused, receive, send
from fikitd.peer import Peer
from fikitd.present import Present
from fikitd.profile_format import Kernel, Profile
from fikitd.profile_key import key_of_process
from fikitd.profile_rhythm import Rhythm
from fikitd.profiles import ProfileStore
from fikitd.protocol import Device, ProtocolError
from fikitd.records import JobRecord
from fikitd.storage import Storage, become, reason
from fikitd.totals import Stats

_log = logging.getLogger("fikitd")

PROFILE_WAIT_S: Final = (
    0.1  # a hello waits so long for its profile (the shim protocol.ANSWER_S for us); a later one still counts
)
PROFILE_TIMEOUT_S: Final = 15.0
SAVING_TIMEOUT_S: Final = 15.0  # a busy file system takes seconds to have a file safe
MAX_KERNEL_MESSAGES: Final = 2 * protocol.SLOTS  # every slot once, and again after a race between two threads
_BATCH: Final = 64  # packets of one client before the others get their turn


class Client:
    """One admitted connection."""

    def __init__(self, number: int, peer: Peer, record: JobRecord, device: Device, job: Job, *, version: int) -> None:
        self.number = number
        self.peer = peer
        self.record = record
        self.device = device
        self.version = version  # of the protocol
        self.job = job
        self.started_ns = time.time_ns()
        self.key = record.profile
        self.command: list[str] = []
        self.peak_memory_bytes = 0
        self.kept: Kept | None = None  # from the fikitd before this one
        self.notes: Notes | None = None  # for the next one
        self.counted = False  # in the job's counters, which take care that no next fikitd counts it again

    def came(self) -> None:
        """Gone on with, or never to be."""
        if self.kept and self.kept.expected:
            self.kept.expected = False
            self.job.expects(-1)


class Managed:
    """What all managed clients have in common: where their pages, profiles and counters go."""

    def __init__(
        self,
        *,
        gpus: Gpus,
        jobs: Jobs,
        present: Present,
        store: ProfileStore,
        storage: Storage,
        keeper: Keeper,
        proc: Path,
    ) -> None:
        self._present = present
        self._gpus = gpus
        self._jobs = jobs
        self._store = store
        self._storage = storage
        self._keeper = keeper
        self._proc = proc
        self._tasks: set[asyncio.Task[None]] = set()
        self.leaving = False  # fikitd ends, and its clients are the next one's

    async def serve(self, connection: socket.socket, client: Client) -> None:
        """A client that was identified, until it hangs up. Raises Refused where it cannot be managed."""
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
            await self._serve(connection, client, dispatcher, memory, share)
        finally:
            if not self.leaving:
                memory.give_back(share)
            self._gpus.release(uuid)

    async def _serve(
        self, connection: socket.socket, client: Client, dispatcher: Dispatcher, memory: MemoryPage, share: int
    ) -> None:
        peer, record, device, job, kept = client.peer, client.record, client.device, client.job, client.kept
        # Shielded: a profile that comes later than a process wants to wait is still used.
        profile = asyncio.ensure_future(self._find_profile(client))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(profile), PROFILE_WAIT_S)

        page = os.dup(kept.page) if kept else self._gpus.make_page(record.measure, client.version)
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
            stats_now = partial(dispatcher.stats, client.number)
            job.client_came(client.number, peer.pid, stats_now)
            self._present.came(
                client.number, peer.pid, device, job, stats_now=stats_now, held_bytes=partial(memory.held_by, share)
            )
            job.trace.came(client.number, peer.pid, device.uuid, partial(dispatcher.journal, client.number))
            client.came()
            self._jobs.client_came(job)
            adopt = asyncio.ensure_future(self._use_profile(client, dispatcher, profile))
            try:
                if profile.done():
                    await adopt
                if kept:
                    client.notes = Notes(kept.notes)
                    for packet in kept.kernels:
                        self._describe(client, dispatcher, packet.ljust(protocol.KERNEL_BYTES, b"\0"))
                else:
                    welcome = protocol.welcome(client.version, os.fstat(page).st_size, memory.bytes, share)
                    self._keep(connection, client, {"page": page, "doorbell": doorbell, "memory": memory.fd}, share)
                    send(connection, welcome, (page, doorbell, memory.fd))
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
                if not self.leaving and not client.counted:
                    self._keeper.drop(client.number)

    def _keep(self, connection: socket.socket, client: Client, descriptors: dict[str, int], share: int) -> None:
        """Leave what the next fikitd needs of a new client with whoever keeps it."""
        if self._keeper:
            client.notes = Notes.begin(
                client.number, client.record.job, client.record.started_ns, share, client.device, client.version
            )
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
        while packet := await receive(connection):
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
            dispatcher.set_profile(client.number, found["kernels"], found.get("rhythm") or {})
            client.job.profile_found = True

    def _depart(self, client: Client, dispatcher: Dispatcher) -> None:
        """End of file: take the counters, and what was measured or sampled."""
        job = client.job
        self._present.went(client.number)
        if self.leaving:  # it goes on, and so do its counters
            dispatcher.remove_client(client.number)
            return
        dispatcher.ended(client.number)
        job.trace.went(client.number)
        learnt, rhythm = dispatcher.export_profile(client.number), dispatcher.export_rhythm(client.number)
        stats = dispatcher.remove_client(client.number)
        if client.key:
            job.uses_profile(client.key, stats["kernels"])
        if (learnt or rhythm) and (client.key or client.record.measure):
            job.saving(+1)
            task = asyncio.ensure_future(self._save_profile(client, learnt, rhythm, stats))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        job.client_went(client.number, client.peer.pid, stats)
        self._jobs.client_ended(job, self._drop_when_noted(client))

    def _drop_when_noted(self, client: Client) -> Callable[[], None]:
        """What is dropped before the job's counters have it is lost, and what stays afterwards counts twice, for whoever is killed
        in between: so they say whom they have, and who is handed such a one lets it go."""
        if not self._keeper:
            return lambda: None
        client.counted = True
        taken, number, loop = client.job.taken, client.number, asyncio.get_running_loop()
        taken.add(number)

        def drop() -> None:
            self._keeper.drop(number)
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(taken.discard, number)

        return drop

    async def _save_profile(self, client: Client, kernels: Sequence[Kernel], rhythm: Rhythm, stats: Stats) -> None:
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
                rhythm=rhythm,
            )
            self._store.prepare(record.uid, record.gid)
            become(record.uid, record.gid)
            self._store.save(record.uid, document, run, sampled=not record.measure)

        try:
            await self._storage.run(record.uid, save, SAVING_TIMEOUT_S)
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
