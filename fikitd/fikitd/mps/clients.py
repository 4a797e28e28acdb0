"""Who is a client of MPS: which jobs are told to join, which of their programs do, and what becomes of them.

A job joins by the environment that its steps are given (`environment`). Each of its programs asks before it begins (`ready`, then `joined`), because a
server takes so many clients and no more, and one too many would fail: whoever is refused runs as without MPS, in time slices of its own.
Whatever goes wrong, jobs run: MPS that cannot be used costs a job one sentence.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from fikitd.api.report_format import MPS, OTHER_MPS, SLICES
from fikitd.base import protocol
from fikitd.base.shares import NoPlace, mps_clients
from fikitd.config.fikit_toml import GpuConfig
from fikitd.gpus.devices import Devices
from fikitd.jobs.identify import Unidentified, identify, read_process
from fikitd.jobs.registry import Jobs
from fikitd.mps import notes, servers, shared_memory
from fikitd.mps.control import MpsError, client_environment, driver_refused
from fikitd.mps.members import Members
from fikitd.mps.servers import Server
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage

_log = logging.getLogger("fikitd")

TELL_S: Final = 0.2  # so long a step waits to hear that there can be no server
JOIN_S: Final = 4.0  # and a program for its server, less than the shim waits for us
WATCH_S: Final = 5.0
END_S: Final = 0.3  # an epilog waits so long
LOOK_S: Final = 0.05
COME_S: Final = (
    30.0  # a job that was told to join has so long for its first program (imports), before another user may have MPS
)

ONE_USER: Final = "MPS of this driver serves one user at a time, and another user's jobs have it on this GPU now"
OWN_SHM: Final = (
    "its /dev/shm is not the node's, where the MPS server has its file; remedy: Dirs=/tmp in Slurm's job_container.conf"
)


class Outside(Exception):
    """The program, or the job, stays outside of MPS; one sentence says why."""


@dataclass(eq=False)
class Gpu:
    """One GPU's server and its clients."""

    server: Server
    members: Members
    adopted: bool = False  # begun by an earlier fikitd, and its clients are not known yet
    looking: asyncio.Task[None] | None = None
    expected_until_s: float = 0.0  # a program of a job that was told to join may still come
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of who decides whose turn it is

    @property
    def unused(self) -> bool:
        return bool(self.server.processes) and not self.server.jobs and not self.members.any


class Clients:
    """Only the event loop touches it."""

    def __init__(
        self, *, gpu: GpuConfig, run_dir: Path, devices: Devices, jobs: Jobs, records: JobRecords, storage: Storage, proc: Path
    ) -> None:  # fmt: skip
        self._on, self._directory = gpu.mps != "off", run_dir / notes.DIRECTORY
        self._limit = mps_clients(gpu.mps_clients)
        self._devices, self._jobs, self._records = devices, jobs, records
        self._storage, self._proc = storage, proc
        self._gpus: dict[str, Gpu] = {}  # by UUID
        self._sentences: dict[str, str] = {}  # of jobs that have no client yet
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ fikitd's own life

    def begin(self) -> None:
        """Before anybody is served: go on with what an earlier fikitd began. OSError: there can be no MPS."""
        if self._on:
            self._directory.mkdir(mode=0o755, exist_ok=True)
            self._directory.chmod(0o755)
            self._devices.learn()  # before the first job waits for it
        for state in servers.states(self._directory):
            gpu = self._gpu(state.uuid)
            gpu.server.adopt(state)
            gpu.adopted = True
            _log.info("MPS on %s, begun by an earlier fikitd, goes on", state.uuid)
        if not self._on and not self._gpus:
            shutil.rmtree(self._directory, ignore_errors=True)  # with the logs of before: the plugin asks nobody

    async def finish(self) -> None:
        """fikitd ends: what nobody uses ends too, and the rest is the next one's."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_S)
        self._drop_jobs_that_are_over()
        await self._end_unused()
        for gpu in self._gpus.values():
            gpu.server.leave()

    async def watch(self) -> None:
        """Until cancelled: find servers of before, notice faults, end what nobody uses."""
        while True:
            for gpu in list(self._gpus.values()):
                with suppress(MpsError):
                    await gpu.server.find()
                    await self._take_over(gpu)
                await gpu.members.look()
                gpu.server.bound_logs()
            self._drop_jobs_that_are_over()
            await self._end_unused()
            await asyncio.sleep(WATCH_S)

    async def _take_over(self, gpu: Gpu) -> None:
        """The clients that joined under an earlier fikitd have their places."""
        if not gpu.adopted or not gpu.server.ready:
            return
        for pid in await gpu.server.control.clients(gpu.server.server):
            process = read_process(self._proc, pid)
            if process is None:
                continue
            find = partial(identify, self._proc, pid, process.real_uid, self._records, daemon_uid=os.geteuid())
            with suppress(Unidentified, OSError):
                record = await self._storage.run(process.real_uid, find)
                if gpu.members.find(pid) is None:
                    gpu.members.enter(record, pid, of_before=True)
        gpu.adopted = False

    def processes(self) -> set[int]:
        """The control daemons and servers that are ours."""
        return {pid for gpu in self._gpus.values() for pid in gpu.server.processes}

    # ------------------------------------------------------------------ jobs

    async def environment(self, record: JobRecord) -> dict[str, str]:
        """What the steps of a job get so that their programs join; nothing where the job stays outside. Never raises.

        Its server is begun, and may not be there yet: the programs wait for it when they begin to use the GPU.
        """
        if not self._on or record.measure:
            return {}
        try:
            uuid = await self._gpu_of(record)
            gpu = self._gpu(uuid)
            server = gpu.server
            async with gpu.turn:
                await self._take_turn(gpu, record.uid)
                gpu.expected_until_s = time.monotonic() + COME_S
                server.jobs.add(record.job)
            with suppress(TimeoutError):
                await self._in_time(server.ensure(), TELL_S)
            server.save()
            self._sentences.pop(record.job, None)
            return client_environment(record, server.pipes, uuid)
        except (Outside, MpsError, OSError) as error:
            self._say(record, f"it runs outside MPS, in time slices of its own: {_sentence(error)}")
            return {}

    async def _take_turn(self, gpu: Gpu, uid: int) -> None:
        """The server takes this user's programs, from now on or already. Outside: those of another user only."""
        server = gpu.server
        if not server.processes and not server.jobs:  # with jobs it is about to begin
            server.give_to(None if server.several_users else uid)
        if server.owner in (None, uid):
            return
        if gpu.members.any or time.monotonic() < gpu.expected_until_s or await self._has_clients(gpu):
            raise Outside(ONE_USER)
        _log.info("MPS on %s: the programs of user %d have left, and it is begun anew for user %d", server.uuid, server.owner, uid)  # fmt: skip
        await server.end()
        server.jobs.clear()
        server.give_to(uid)

    @staticmethod
    async def _has_clients(gpu: Gpu) -> bool:
        """Whether the server has clients, also such as asked us nothing. Yes where its daemon does not say."""
        server = gpu.server
        try:
            await server.find()
            return server.serves and bool(await server.control.clients(server.server))
        except MpsError:
            return server.there

    async def _gpu_of(self, record: JobRecord) -> str:
        """The one GPU that its job has, for certain. Outside: none is."""
        names = [word.strip() for word in record.gpus.split(",") if word.strip()]
        if len(names) > 1:
            raise Outside(f"a program has one pipe directory, and the job has {len(names)} GPUs")
        uuid = await self._devices.certain(record)
        if uuid is None:
            which = f"GPU {names[0]}" if names else "its GPU"
            raise Outside(
                f"nobody can say for certain which UUID {which} has (NVML does not answer, or counts otherwise than Slurm)"
            )
        return uuid

    def _say(self, record: JobRecord, sentence: str) -> None:
        job = self._jobs.get(record.job)
        if job is not None and job.record.started_ns == record.started_ns:
            job.warn(sentence)
        elif self._sentences.get(record.job) != sentence:
            self._sentences[record.job] = sentence
            _log.warning("job %s: %s", record.job, sentence, extra={"uid": record.uid})

    def unsaid(self, job_id: str) -> str | None:
        """What the job's report has to say, now that there is one."""
        return self._sentences.pop(job_id, None)

    async def job_is_over(self, job_id: str) -> None:
        """What is left of it is taken off its server, which ends if it was the last; an epilog waits for a moment."""
        self._sentences.pop(job_id, None)
        theirs = [gpu for gpu in self._gpus.values() if job_id in gpu.server.jobs]
        for gpu in theirs:
            gpu.server.jobs.discard(job_id)
        if theirs:
            await asyncio.wait([self._spawn(self._clean(gpu)) for gpu in theirs], timeout=END_S)

    async def _clean(self, gpu: Gpu) -> None:
        gpu.members.drop_those_of_before()
        if not gpu.unused:  # the end of a server takes everything off the GPU
            await gpu.members.look(anew=True)
        await self._end_unused()

    # ------------------------------------------------------------------ programs

    async def ready(self, record: JobRecord) -> None:
        """Until the server of the job's GPU can be joined, or it is known that it cannot (`joined` says why), or that takes too long.

        Outside: its control daemon lives and does not answer. A program asks that daemon first of all, without a bound on its patience.
        """
        gpu = self._gpu_told_to(record)
        if gpu is None:
            return
        deadline_s = time.monotonic() + JOIN_S
        try:
            await self._in_time(self._make_ready(gpu), JOIN_S)
        except (MpsError, TimeoutError) as error:
            if gpu.server.ready:
                raise self._refused(record, f"MPS {error}" if str(error) else "MPS did not answer in time") from None
        while gpu.members.terminating:  # begun since `look` had answered. Nothing is awaited between here and `joined`
            if time.monotonic() > deadline_s:
                raise self._refused(
                    record, "its server was ending the work of a program that is gone, and takes nobody until then"
                )
            await asyncio.sleep(LOOK_S)

    async def _make_ready(self, gpu: Gpu) -> None:
        """A look answers whether the server still is ready, and waits for the end of a client that is being terminated."""
        await gpu.server.ensure()
        await self._take_over(gpu)
        if not await gpu.members.look():
            raise MpsError(gpu.members.complaint)
        await gpu.server.ensure()

    @contextmanager
    def joined(self, record: JobRecord, pid: int) -> Iterator[None]:
        """The program is a client of its GPU's server for as long as the block runs. Outside: it must not be one."""
        gpu = self._gpu_told_to(record)
        if gpu is None:
            raise self._refused(record, "its job was not told to join, or MPS serves another user's jobs by now")
        if not gpu.server.ready:
            raise self._refused(record, gpu.server.why_not)
        if gpu.members.closed:
            raise self._refused(
                record, "its server takes nobody after a client's fatal fault until all others have ended"
            )
        servers_uid = os.geteuid() if gpu.server.owner is None else gpu.server.owner
        if shared_memory.hidden(self._proc, gpu.server.server, servers_uid, pid):
            raise self._refused(record, OWN_SHM)
        try:
            member = gpu.members.enter(record, pid)
            gpu.expected_until_s = 0.0
        except NoPlace as error:
            raise self._refused(record, str(error)) from None
        try:
            yield
        finally:
            gpu.members.leave(member)
            if gpu.looking is None or gpu.looking.done():
                gpu.looking = self._spawn(self._look_after(gpu))

    def _gpu_told_to(self, record: JobRecord) -> Gpu | None:
        """The GPU whose server the job was told to join."""
        return next((gpu for gpu in self._gpus.values() if self._on and record.job in gpu.server.jobs), None)

    async def _look_after(self, gpu: Gpu) -> None:
        """Somebody has left: perhaps of a fault, which ended the others too; perhaps killed in the middle of a kernel."""
        await gpu.members.look_after()
        await self._end_unused()

    def _refused(self, record: JobRecord, why: str) -> Outside:
        more = (
            ", which the GPU's compute mode EXCLUSIVE_PROCESS does not allow: `nvidia-smi -c DEFAULT`"
            if self._devices.exclusive_process
            else ""
        )
        self._say(record, f"a program of it runs outside MPS, in time slices of its own{more}: {why}")
        return Outside(why)

    def refused_by_driver(self, record: JobRecord, refusal: protocol.Outside) -> None:
        """Say in the report of its job that a program which fikitd had let join is no client."""
        self._say(record, driver_refused(refusal.refusal, refusal.outside))

    def mode_of(self, pid: int, in_mps: bool | None) -> str:
        """How the program's kernels share the GPU.

        `in_mps`: the driver's word, or None where the driver does not know. It comes by way of the program. A program that denies MPS is
        taken for one in time slices, for which the policy reckons switches; so a false word costs the program itself.
        """
        if in_mps is not False and any(gpu.members.find(pid) for gpu in self._gpus.values()):
            return MPS
        return OTHER_MPS if in_mps else SLICES

    def works(self, pid: int, unfinished: Callable[[], int]) -> None:
        """A client of MPS has a page by which one can tell how much of its work is unfinished."""
        for gpu in self._gpus.values():
            if member := gpu.members.find(pid):
                member.unfinished = unfinished

    def stops(self, pid: int, unfinished: int) -> None:
        """Its page is gone."""
        for gpu in self._gpus.values():
            gpu.members.stops(pid, unfinished)

    # ------------------------------------------------------------------ servers

    def _gpu(self, uuid: str) -> Gpu:
        if uuid not in self._gpus:
            server = Server(uuid, self._directory, lambda: self._lost(uuid), lambda: self._gpus[uuid].members.any)
            self._gpus[uuid] = Gpu(server, Members(server, self._limit, self._say))
        return self._gpus[uuid]

    def _lost(self, uuid: str) -> None:
        """A process of the server's has ended by itself."""
        gpu = self._gpus[uuid]
        server = gpu.server
        if server.server and not server.serves:
            gpu.members.tell_of_end(server.server)
            server.server = server.server_started = 0
        elif not server.there and server.jobs:
            _log.warning("the MPS control daemon of %s (process %d) ended: jobs there join no more until it is begun again",
                         uuid, server.pid)  # fmt: skip

    def _drop_jobs_that_are_over(self) -> None:
        for gpu in self._gpus.values():
            gpu.server.jobs = {job for job in gpu.server.jobs if not self._records.gone(job)}
        self._sentences = {job: said for job, said in self._sentences.items() if not self._records.gone(job)}

    async def _end_unused(self) -> None:
        for gpu in list(self._gpus.values()):
            gpu.members.drop_those_of_before()
            if gpu.unused:
                await gpu.server.end()

    async def _in_time(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """What takes longer (TimeoutError) goes on: the next one finds it done."""
        task = self._spawn(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait_for(asyncio.shield(task), seconds)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _sentence(error: Exception) -> str:
    if isinstance(error, MpsError):
        return f"MPS {error}"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
