"""A managed client, from WELCOME to its end: page and dispatcher, profile, kernels, counters."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from fikitd._core import identify
from fikitd.api.report_format import SLICES
from fikitd.api.traces import Story
from fikitd.base import protocol
from fikitd.base.protocol import ProtocolError
from fikitd.base.shares import DESCRIPTIONS, NoPlace, Places, Rooms
from fikitd.clients import client_profiles
from fikitd.clients.client_profiles import PROFILE_BYTES, ClientProfiles
from fikitd.clients.fd_store import FdStore, Notes
from fikitd.clients.managed_client import Client
from fikitd.clients.memory_rotation import MemoryRotation
from fikitd.clients.packets import Refused, receive, send
from fikitd.clients.present import Present
from fikitd.config.protection import PROMISING
from fikitd.gpus.dispatchers import Departed, Dispatcher, Gpus
from fikitd.gpus.memory import MemoryPage, NoShare
from fikitd.jobs.registry import Jobs
from fikitd.jobs.totals import Stats
from fikitd.mps.clients import Clients as MpsClients
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.records import JobRecord
from fikitd.store.storage import Storage, reason
from fikitd.workers.pool import Call

_log = logging.getLogger("fikitd")

PROFILE_WAIT_S: Final = (
    0.1  # a hello waits so long for its profile (the shim protocol.ANSWER_S for us); a later one still counts
)
MAX_KERNEL_MESSAGES: Final = 2 * protocol.SLOTS  # every slot once, and again after a race between two threads
DESCRIPTION_BYTES: Final = 256  # what one takes beside its name
SEEN: Final = (32, 256)  # kernels: its profile is chosen again when it has launched so many
_BATCH: Final = 64  # packets of one client before the others get their turn


class Managed:
    """What all managed clients have in common: where their pages, profiles and counters go."""

    def __init__(
        self,
        *,
        gpus: Gpus,
        jobs: Jobs,
        mps: MpsClients,
        present: Present,
        store: ProfileStore,
        storage: Storage,
        work: Call,
        keeper: FdStore,
        rotation: MemoryRotation,
        proc: Path,
    ) -> None:
        self._rotation = rotation
        self._present = present
        self._gpus = gpus
        self._users: dict[int, int] = {}  # by client
        self._serving: dict[int, tuple[Client, Dispatcher]] = {}  # those that were admitted
        self._jobs = jobs
        self._mps = mps
        self._profiles = ClientProfiles(store, storage, work, proc)
        self._storage = storage
        self._keeper = keeper
        self._descriptions = Places(DESCRIPTIONS)
        self._rooms = Rooms()
        self.leaving = False  # fikitd ends, and its clients are the next one's

    async def serve(self, connection: socket.socket, client: Client) -> None:
        """A client that was identified, until it hangs up. Raises Refused where it cannot be managed.

        What is taken for it is put on the stack at once, so that whatever fails afterwards gives all of it back.
        """
        client.mode = self._mps.mode_of(client.peer.pid, client.in_mps)
        with ExitStack() as taken:
            dispatcher = self._acquire(client, taken)
            memory, share = self._account(client, taken)
            # Shielded: a profile that comes later than a process wants to wait is still used.
            profile = asyncio.ensure_future(self._profiles.find(client))
            taken.callback(profile.cancel)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(profile), PROFILE_WAIT_S)
            page, doorbell = self._make_page(client, taken)
            taken.callback(self._forget_notes, client)
            self._admit(client, dispatcher, page, doorbell)
            taken.callback(self._depart, client, dispatcher)
            taken.callback(self._forget_descriptions, client)
            taken.callback(self._note_peak, client, memory, share)
            self._introduce(client, dispatcher, memory, share)
            adopt = asyncio.ensure_future(self._profiles.use(client, dispatcher, profile))
            taken.callback(adopt.cancel)
            taken.callback(client.cease_matching)
            if profile.done():
                await adopt
            self._welcome(connection, client, dispatcher, page, doorbell, memory, share, looked_for=profile.done())
            await self._listen(connection, client, dispatcher)

    def _acquire(self, client: Client, taken: ExitStack) -> Dispatcher:
        try:
            dispatcher = self._gpus.acquire(client.place, client.record)
        except NoPlace as error:
            raise Refused(str(error)) from None
        except (OSError, RuntimeError) as error:
            raise Refused(f"the dispatcher of {client.device.uuid} could not be started: {reason(error)}") from None
        taken.callback(self._gpus.release, client.place, client.record)
        return dispatcher

    def _account(self, client: Client, taken: ExitStack) -> tuple[MemoryPage, int]:
        """The memory page of its job, and its share of that."""
        try:
            memory = client.job.memory(client.device.uuid)
            share = memory.take_again(client.kept.share) if client.kept else memory.take()
        except (OSError, NoShare) as error:
            raise Refused(f"its job's GPU memory cannot be accounted: {reason(error)}") from None

        def give_back() -> None:
            if not self.leaving:
                memory.give_back(share)

        taken.callback(give_back)
        return memory, share

    def _make_page(self, client: Client, taken: ExitStack) -> tuple[int, int]:
        """Descriptors of its page and its doorbell."""
        kept = client.kept
        try:
            page = os.dup(kept.page) if kept else self._gpus.make_page(client.record.measure, client.version)
            taken.callback(os.close, page)
            doorbell = os.dup(kept.doorbell) if kept else os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            taken.callback(os.close, doorbell)
        except OSError as error:
            raise Refused(f"no page could be made for it: {reason(error)}") from None
        return page, doorbell

    def _admit(self, client: Client, dispatcher: Dispatcher, page: int, doorbell: int) -> None:
        # It may have changed since its process was identified.
        record, job = client.record, client.job = client.job.record, client.job
        try:
            terms = self._gpus.protection(record, job.warn)
            job.max_slowdown = terms.max_slowdown if job.policy in PROMISING else None
            dispatcher.add_client(
                client.number, page, doorbell, record.priority, record.measure,
                max_slowdown=terms.max_slowdown, max_delay_ns=terms.max_delay_ns, gang=job.number,
                resume=client.kept is not None, room=self._rooms.of(record.uid),
                overlaps=self._mps.mode_of(client.peer.pid, client.in_mps) != SLICES,
                pid=client.peer.pid, user=record.uid,
            )  # fmt: skip
        except (OSError, ValueError, RuntimeError) as error:
            raise Refused(f"the dispatcher of {client.device.uuid} took no more clients: {reason(error)}") from None
        self._serving[client.number] = client, dispatcher

    def change_priority(self, record: JobRecord) -> None:
        """The clients of the record's job have its priority from now on."""
        for client, dispatcher in self._serving.values():
            if (client.record.job, client.record.started_ns) == (record.job, record.started_ns):
                client.record = record
                dispatcher.set_priority(client.number, record.priority)
        self._present.priority_changed()

    def _introduce(self, client: Client, dispatcher: Dispatcher, memory: MemoryPage, share: int) -> None:
        """From here on the counters are the job's, whatever happens to the connection."""
        number, pid, device, job = client.number, client.peer.pid, client.device, client.job
        self._users[number] = client.record.uid
        stats_now = partial(dispatcher.stats, number)
        job.client_came(number, pid, stats_now, partial(dispatcher.spent, number), partial(dispatcher.moves, number))
        job.time.knows(number, client.known_edges)
        if client.kept is None:  # of others the job knows it
            job.ran_in(client.mode)
        self._mps.works(pid, lambda: int(stats_now()["unfinished"]))
        if sentence := self._mps.unsaid(job.record.job):
            job.warn(sentence)
        self._present.came(
            number, pid, device, job, stats_now=stats_now, held_bytes=partial(memory.held_by, share), mode=client.mode,
            device_now=dispatcher.device, place=client.place, link_now=partial(self._rotation.link_of, client),
        )  # fmt: skip
        self._rotation.came(client, dispatcher, memory, share)
        job.trace.came(number, pid, device.uuid, partial(dispatcher.journal, number))
        client.came()
        self._jobs.client_came(job, client.place)

    def _welcome(  # noqa: PLR0917
        self,
        connection: socket.socket,
        client: Client,
        dispatcher: Dispatcher,
        page: int,
        doorbell: int,
        memory: MemoryPage,
        share: int,
        *,
        looked_for: bool,
    ) -> None:
        record, kept = client.record, client.kept
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
            record.job, client.peer.pid, client.device.uuid, record.priority, client.program.key or "unknown",
            _of_profile(client, looked_for=looked_for),
            extra={"uid": record.uid},
        )  # fmt: skip

    def _note_peak(self, client: Client, memory: MemoryPage, share: int) -> None:
        client.peak_memory_bytes = memory.peak_of(share)

    def _forget_notes(self, client: Client) -> None:
        if client.notes is not None and not client.kept:
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

    def _forget_descriptions(self, client: Client) -> None:
        self._descriptions.remove(client.record.uid, client.record.job, client.described_bytes)

    def _describe(self, client: Client, dispatcher: Dispatcher, packet: bytes) -> None:
        """What is beyond its user's share is as if it had not been said: such a kernel has no name and no known length."""
        kernel = protocol.parse_kernel(packet)
        count = DESCRIPTION_BYTES + len(kernel.name.encode())
        try:
            self._descriptions.check(client.record.uid, client.record.job, count)
        except NoPlace as error:
            client.job.warn(f"not all of its kernels are told apart: {error}")
            return
        self._descriptions.add(client.record.uid, client.record.job, count)
        client.described_bytes += count
        if len(client.seen) < SEEN[-1]:
            client.seen.append(
                identify(kernel.name, kernel.module_hash, kernel.grid, kernel.block, kernel.shared_bytes)
            )
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
            if len(client.seen) in SEEN and client.choices > 1 and not client.record.measure:
                client.cease_matching()
                client.matching = asyncio.ensure_future(self._profiles.match_again(client, dispatcher))
            if received % _BATCH == 0:
                await asyncio.sleep(0)

    def _depart(self, client: Client, dispatcher: Dispatcher) -> None:
        """End of file: take the counters, and what was measured or sampled."""
        job = client.job
        del self._serving[client.number]
        self._present.went(client.number)
        self._rotation.went(client.number)
        job.trace.went(client.number)
        if self.leaving:  # it goes on, and so do its counters
            dispatcher.remove_client(client.number)
            return
        try:
            dispatcher.ended(client.number)
            self._gpus.note_switch(client.place, self._users)
        finally:
            self._users.pop(client.number, None)
            departed = dispatcher.take_client(client.number)
            stats = departed.stats
            self._present.departed(client.number, stats)
            client.edges = job.client_went(client.number, client.peer.pid, stats)
            self._mps.stops(client.peer.pid, int(stats["unfinished"]))
            if client.program.key:
                job.uses_profile(client.program.key, stats["kernels"], client.borrowed(stats))
            job.saves(asyncio.ensure_future(self._keep_what_it_did(client, departed, stats)))
            self._jobs.client_ended(job, client.place, self._drop_when_noted(client))

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

    async def _keep_what_it_did(self, client: Client, departed: Departed, stats: Stats) -> None:
        """Its journal, for the job's trace, and what its kernels taught. Never raises."""
        record, job = client.record, client.job

        def take() -> tuple[Story, bytes]:
            story = Story(client.peer.pid, client.device.uuid, departed.journal())
            return story, departed.profile(PROFILE_BYTES) if client.program.key or record.measure else b""

        try:
            story, packed = await self._storage.run(record.uid, take, client_profiles.SAVING_TIMEOUT_S)
            job.trace.keep(story)
            if not packed:
                return
            if job.beside_around:
                job.profile_stored = False
                return
            for sentence in await self._profiles.save(client, packed, stats):
                job.warn(sentence)
            job.profile_stored = job.profile_stored is not False
        except (OSError, ValueError, MemoryError) as error:
            job.profile_stored = False
            sentence = f"its profile could not be stored in {self._profiles.directory}: {reason(error)}"
            if record.measure:
                job.warn(sentence)
            else:  # nobody asked for the samples
                _log.info("job %s: %s", record.job, sentence, extra={"uid": record.uid})


def _of_profile(client: Client, *, looked_for: bool) -> str:
    """What is known of it by now; one that is read later counts from then on."""
    if client.record.measure:
        return "being measured"
    if client.job.profile_found:
        return "found"
    return "not found" if looked_for else "still being looked for"
