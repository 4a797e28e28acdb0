"""The control socket: one request packet, one answer, closed (docs/design/contracts.md, "Control socket")."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from fikitd.api.reports import summary_line
from fikitd.base import build, priorities
from fikitd.base.peer import Peer
from fikitd.base.scarcity import run_out, scarce
from fikitd.base.shares import HEAVY_REQUESTS, NoPlace, Places
from fikitd.base.validation import printable
from fikitd.clients.present import Present
from fikitd.jobs.job import Job
from fikitd.jobs.registry import Jobs
from fikitd.mps.clients import Clients as MpsClients
from fikitd.store.changed_priorities import USER
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage, StorageTimeout, reason
from fikitd.workers.pool import Call, Rights

_log = logging.getLogger("fikitd")

REQUEST_BYTES: Final = 1024
REQUEST_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 10.0
SUMMARY_WAIT_S: Final = 0.3
TRACE_TIMEOUT_S: Final = 10.0
_PACKET_BYTES: Final = 32768


class RequestError(Exception):
    """The request is answered with `error` and this sentence."""


def refusal(sentence: str) -> bytes:
    """The answer to a request that is not even read."""
    return f"error {sentence}; ask again later\n".encode()


class Control:
    def __init__(
        self,
        *,
        jobs: Jobs,
        mps: MpsClients,
        records: JobRecords,
        present: Present,
        storage: Storage,
        work: Call,
        policy: str,
        shutdown: Callable[[], None],
        change_priority: Callable[[JobRecord], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """change_priority: of the clients of a record's job. changed: it was, by somebody."""
        self._jobs = jobs
        self._mps, self._records = mps, records
        self._present = present
        self._storage = storage
        self._work = work
        self._policy = policy
        self._shutdown = shutdown
        self._change_priority, self._changed = change_priority, changed
        self._traces = Places(HEAVY_REQUESTS)
        self._verbs: dict[str, tuple[int, Callable[[Peer, list[str]], Awaitable[Answer]]]] = {
            "ping": (0, self._ping),
            "summary": (2, self._summary),
            "jobs": (0, self._list),
            "job": (1, self._job),
            "trace": (1, self._trace),
            "node": (0, self._node),
            "end": (1, self._end),
            "priority": (2, self._priority),
            "mps": (1, self._join_mps),
            "host": (1, self._host),
            "shutdown": (0, self._stop),
        }

    async def serve(self, connection: socket.socket) -> None:
        """One request of one connection; closes it."""
        loop = asyncio.get_running_loop()
        try:
            peer = Peer.of(connection)
            request = await asyncio.wait_for(loop.sock_recv(connection, REQUEST_BYTES + 1), REQUEST_TIMEOUT_S)
            if not request:
                return
            try:
                answer = await self._answer(peer, request)
                if isinstance(answer, _Told):
                    await answer(connection)
                else:
                    await _send(connection, "ok\n", answer)
            except RequestError as error:
                await _send(connection, f"error {error}\n", ())
            except (OSError, RuntimeError, MemoryError) as error:
                if not scarce(error):
                    raise
                await _send(connection, f"error {run_out(error)}; ask again later\n", ())
        except (OSError, TimeoutError):
            pass  # it went away, or it does not read its answer
        finally:
            connection.close()

    async def _answer(self, peer: Peer, request: bytes) -> Answer:
        if len(request) > REQUEST_BYTES:
            raise RequestError(f"a request has at most {REQUEST_BYTES} bytes")
        try:
            verb, *arguments = request.decode("ascii").split()
        except (UnicodeDecodeError, ValueError):
            raise RequestError("a request is a verb and its arguments in ASCII") from None
        if verb not in self._verbs:
            raise RequestError(f'verb "{printable(verb)}" is not known; use one of {", ".join(self._verbs)}')
        wanted, answer = self._verbs[verb]
        if len(arguments) != wanted:
            raise RequestError(f"{verb} takes {wanted} argument{'' if wanted == 1 else 's'}, not {len(arguments)}")
        return await answer(peer, arguments)

    async def _ping(self, _peer: Peer, _arguments: list[str]) -> Answer:
        return (f"fikitd {build.identity()} {self._policy}\n",)

    async def _summary(self, peer: Peer, arguments: list[str]) -> Answer:
        job = self._jobs.get(arguments[0])
        if job is None:
            return ()
        job = self._visible(peer, arguments[0])
        await self._jobs.settle(job, SUMMARY_WAIT_S)
        return (summary_line(job.report()), "\n")

    async def _list(self, peer: Peer, _arguments: list[str]) -> Answer:
        jobs = [job for job in self._jobs.all() if _may_see(peer, job)]
        return _listed(json.dumps(job.report()) for job in jobs)

    async def _job(self, peer: Peer, arguments: list[str]) -> Answer:
        return (json.dumps(self._visible(peer, arguments[0]).report()),)

    async def _trace(self, peer: Peer, arguments: list[str]) -> Answer:
        """Told by a worker of the job's user, which writes to the connection itself."""
        job = self._visible(peer, arguments[0])

        async def tell(connection: socket.socket) -> None:
            try:
                with self._traces.take(peer.uid):
                    await self._tell_trace(connection, job)
            except NoPlace as error:
                raise RequestError(f"{error}; ask again later") from None

        return _Told(tell)

    async def _tell_trace(self, connection: socket.socket, job: Job) -> None:
        record = job.record
        try:
            blocks = await job.trace_so_far(self._storage)
            if blocks is None:
                raise RequestError(f"no trace of job {record.job} is kept; is trace_events 0 in fikit.toml?")
            await self._work(
                Rights(record.uid, record.gid),
                "send_trace",
                {"seconds": TRACE_TIMEOUT_S},
                chunks=blocks,
                descriptors=(connection.fileno(),),
                timeout_s=TRACE_TIMEOUT_S + 1,
            )
        except StorageTimeout as error:
            raise RequestError(f"the trace of job {record.job} cannot be told now: {reason(error)}") from None

    async def _node(self, peer: Peer, _arguments: list[str]) -> Answer:
        return (self._present.view(peer.uid),)

    async def _end(self, peer: Peer, arguments: list[str]) -> Answer:
        _only_master(peer, "end a job's report")
        await self._mps.job_is_over(arguments[0])
        job = self._jobs.get(arguments[0])
        await self._jobs.end(arguments[0])
        return () if job is None else (summary_line(job.report()), "\n")

    async def _priority(self, peer: Peer, arguments: list[str]) -> Answer:
        """Its owner may lower it, and raise it again to what was approved; root may do anything. `auto` leaves it to fikitd again."""
        job_id, said = arguments
        record = self._records.get(job_id)
        if record is None or peer.uid not in (0, os.geteuid(), record.uid):
            raise RequestError(f"job {printable(job_id)} is not running under this fikitd, or is not yours")
        priority = None if said == priorities.AUTO else self._wanted(peer, record, said)
        if priority is None and record.auto is None:
            raise RequestError(
                f"job {job_id} was not submitted with --fikit-priority=auto, so nobody approved a range of priorities for it: name one"
            )
        if record.measure:
            raise RequestError(
                f"job {job_id} measures, so it has no priority: it waits for nobody, and nobody waits for it"
            )
        changes = record.chosen == USER if priority is None else priority != record.priority or record.automatic
        if changes:
            try:
                if priority is None:
                    record = self._records.take_change_back(record)
                else:
                    record = self._records.change_priority(record, priority)
            except OSError as error:
                if scarce(error):
                    raise
                raise RequestError(
                    f"the priority of job {job_id} cannot be noted, so it stays: {reason(error)}"
                ) from None
            self._jobs.change_priority(record)
            self._change_priority(record)
            self._changed()
            _log.info(
                "job %s: priority %d from now on, by uid %d",
                job_id,
                record.priority,
                peer.uid,
                extra={"uid": record.uid},
            )
        return (f"{record.priority}\n",)

    @staticmethod
    def _wanted(peer: Peer, record: JobRecord, said: str) -> int:
        """RequestError: it is none, or not the caller's to give."""
        try:
            priority = priorities.parse(said)
        except ValueError as error:
            raise RequestError(str(error)) from None
        approved = record.priority if record.approved is None else record.approved
        if priority < approved and peer.uid not in (0, os.geteuid()):
            raise RequestError(
                f"job {record.job} cannot have priority {priorities.name(priority)}: {priorities.name(approved)} was approved for it, "
                "and only root may give it more"
            )
        return priority

    async def _join_mps(self, peer: Peer, arguments: list[str]) -> Answer:
        """The variables by which the job's programs become clients of MPS; none where they do not."""
        _only_master(peer, "tell a job's programs to join MPS")
        record = self._records.get(arguments[0])
        said = await self._mps.environment(record) if record else {}
        return tuple(f"{name}={value}\n" for name, value in said.items())

    async def _host(self, peer: Peer, arguments: list[str]) -> Answer:
        """Why none of the job's memory may lie in host memory, though it asked for that; nothing where it may, or did not ask."""
        record = self._records.get(arguments[0])
        if record is None or peer.uid not in (0, os.geteuid(), record.uid):
            raise RequestError(f"job {printable(arguments[0])} is not running under this fikitd, or is not yours")
        why = self._jobs.no_host_memory(record)
        return (f"{why}\n",) if why else ()

    async def _stop(self, peer: Peer, _arguments: list[str]) -> Answer:
        _only_master(peer, "stop fikitd")
        self._shutdown()
        return ()

    def _visible(self, peer: Peer, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None or not _may_see(peer, job):
            raise RequestError(f"job {printable(job_id)} is not running under this fikitd, or is not yours")
        return job


class _Told:
    """An answer that is written to the connection by somebody else."""

    def __init__(self, tell: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._tell = tell

    async def __call__(self, connection: socket.socket) -> None:
        await self._tell(connection)


Answer = Iterable[str] | _Told


def _listed(entries: Iterable[str]) -> Iterator[str]:
    """JSON's list of these, each made when it is its turn."""
    separator = "["
    for entry in entries:
        yield separator
        yield entry
        separator = ", "
    yield "[]" if separator == "[" else "]"


async def _send(connection: socket.socket, status: str, answer: Iterable[str]) -> None:
    """Whole packets, and no more of the answer at a time than its reader takes. OSError, TimeoutError: it does not."""
    loop, data = asyncio.get_running_loop(), bytearray(status.encode())
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        for part in answer:
            data += part.encode()
            while len(data) >= _PACKET_BYTES:
                await loop.sock_sendall(connection, bytes(data[:_PACKET_BYTES]))
                del data[:_PACKET_BYTES]
        if data:
            await loop.sock_sendall(connection, bytes(data))


def _may_see(peer: Peer, job: Job) -> bool:
    return peer.uid in (0, os.geteuid(), job.record.uid)


def _only_master(peer: Peer, what: str) -> None:
    if peer.uid not in (0, os.geteuid()):
        raise RequestError(f"uid {peer.uid} may not {what}; only root and the user who runs fikitd may")
