"""The daemon: what it is made of, its sockets, its signals, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from fikitd.api.outcomes import Spool
from fikitd.api.reports import ReportStore
from fikitd.base import protocol
from fikitd.base.protocol import CONTROL_NAME, HOOKS_DIRECTORY, SOCKET_NAME
from fikitd.base.scarcity import SpareDescriptor, run_out, scarce
from fikitd.base.shares import REQUESTS as REQUEST_PLACES
from fikitd.base.shares import Places, connections
from fikitd.clients.connections import Clients
from fikitd.clients.fd_store import FdStore
from fikitd.clients.managed import Managed
from fikitd.clients.memory_plans import MemoryPlans
from fikitd.clients.memory_rotation import MemoryRotation
from fikitd.clients.present import Present, Reported
from fikitd.clients.unmanaged import Unmanaged
from fikitd.config import oversubscribe
from fikitd.config.fikit_toml import Config
from fikitd.daemon import run_directory
from fikitd.daemon.admission import HELLOS, REQUESTS, Admission
from fikitd.daemon.control import Control, refusal
from fikitd.daemon.listener import Listener
from fikitd.daemon.run_directory import CannotServe
from fikitd.daemon.user_sockets import UserSockets
from fikitd.gpus.devices import Devices
from fikitd.gpus.dispatchers import Core, Gpus
from fikitd.gpus.switches import Switches
from fikitd.history import SpoolHistory
from fikitd.jobs.admin_comment import AdminComments
from fikitd.jobs.auto_priority import AutoPriorities
from fikitd.jobs.gpu_use import GpuUse
from fikitd.jobs.job import Job
from fikitd.jobs.job_files import JobFiles
from fikitd.jobs.ledger import Ledger
from fikitd.jobs.memory_watch import MemoryWatch
from fikitd.jobs.orphans import Orphans
from fikitd.jobs.registry import Jobs
from fikitd.metrics.job_map import JobMap
from fikitd.metrics.meter import Meter
from fikitd.metrics.publisher import Publisher
from fikitd.metrics.status_file import StatusFile
from fikitd.mps.clients import Clients as MpsClients
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.records import JobRecords
from fikitd.store.storage import Storage
from fikitd.store.temporary import Unfinished
from fikitd.workers.pool import Call, Workers
from fikitd.workers.retention import Kept, Pruner

_log = logging.getLogger("fikitd")

SWEEP_S: Final = 10.0
LAST_WORK_S: Final = 3.0  # at the end, for profiles and reports that are still being stored
LAST_FILES_S: Final = 1.0  # and for files of jobs that have been given up meanwhile


class Server:
    """One daemon. `run` returns when it was told to stop."""

    def __init__(
        self,
        config: Config,
        core: Core,
        proc: Path = Path("/proc"),
        work: Call | None = None,
        *,
        gpu_memory_bytes: int | None = None,
    ) -> None:
        """For tests and benches: `work`, instead of workers of its own; `gpu_memory_bytes`, so much of each GPU's memory jobs have together, whatever the GPU has."""
        self._config = config
        self._workers = Workers()
        self._call = work
        call = work or self._workers.call
        self._run_dir = Path(config.daemon.run_dir)
        self._storage = Storage()
        self._records = JobRecords(self._run_dir)
        self._unfinished = Unfinished([self._run_dir / name for name in run_directory.NOTES])
        self._devices = Devices()
        self._gpus = Gpus(core, config.scheduler, config.daemon.trace_events, Switches(self._run_dir))
        store = ProfileStore(config.daemon.profile_dir)
        reports = ReportStore(config.daemon.report_dir)
        kept = Kept(config.daemon.keep_reports, config.daemon.keep_traces, config.daemon.keep_profiles)
        self._comments = AdminComments(self._run_dir, config.daemon.admin_comment_s)
        self._ledger = Ledger(self._run_dir)
        self._jobs = Jobs(
            records=self._records,
            files=(
                files := JobFiles(
                    reports=reports,
                    store=store,
                    storage=self._storage,
                    work=call,
                    pruner=Pruner(kept, reports.directory, store.directory, self._storage, call),
                    comments=self._comments,
                    spool=Spool(
                        config.daemon.outcomes_dir, config.daemon.outcomes_user, socket.gethostname().partition(".")[0]
                    ),
                )
            ),
            ledger=self._ledger,
            policy=config.scheduler.policy,
            host_memory=partial(oversubscribe.host_memory, config),
            changes=(changes := asyncio.Event()),
            ended=self._job_ended,
        )
        self._mps = MpsClients(
            gpu=config.gpu,
            run_dir=self._run_dir,
            devices=self._devices,
            jobs=self._jobs,
            records=self._records,
            storage=self._storage,
            proc=proc,
        )
        self._unmanaged = Unmanaged(
            jobs=self._jobs,
            records=self._records,
            storage=self._storage,
            proc=proc,
            interval_s=config.daemon.unmanaged_s,
            devices=self._devices,
            reported=self._reported,
            mps=self._mps.processes,
        )
        self._forgotten = Orphans(
            jobs=self._jobs,
            records=self._records,
            storage=self._storage,
            proc=proc,
            after_s=config.daemon.orphan_timeout_s,
        )
        self._use = GpuUse(self._run_dir, config.daemon.gpu_use_s, files.used)
        self._meter = self._meter_of(config)
        self._present = Present(config.scheduler.policy, self._unmanaged.around, self._meter, config.mark())
        plans = MemoryPlans(self._storage, call)
        self._rotation = MemoryRotation(
            self._jobs.host_bytes,
            (lambda _: gpu_memory_bytes) if gpu_memory_bytes else self._devices.memory_bytes,
            config.oversubscribe.epoch_s,
            plans,
        )
        keeper = FdStore()
        managed = Managed(
            gpus=self._gpus,
            jobs=self._jobs,
            mps=self._mps,
            present=self._present,
            store=store,
            storage=self._storage,
            work=call,
            keeper=keeper,
            rotation=self._rotation,
            proc=proc,
        )
        self._clients = Clients(
            managed,
            gpus=self._gpus,
            devices=self._devices,
            jobs=self._jobs,
            mps=self._mps,
            records=self._records,
            storage=self._storage,
            keeper=keeper,
            proc=proc,
        )
        self._auto = AutoPriorities(
            jobs=self._jobs,
            records=self._records,
            history=SpoolHistory.of(config.daemon),
            change_priority=self._clients.change_priority,
            changes=changes,
        )
        self._users: UserSockets | None = None
        self._stop = asyncio.Event()
        self._control = Control(
            jobs=self._jobs,
            mps=self._mps,
            records=self._records,
            present=self._present,
            storage=self._storage,
            work=call,
            policy=config.scheduler.policy,
            shutdown=self._stop.set,
            change_priority=self._clients.change_priority,
            changed=changes.set,
        )
        self._proc = proc
        self._spare = SpareDescriptor()
        self._connections: set[asyncio.Task[None]] = set()

    def _records_changed(self) -> None:
        with suppress(OSError):  # without descriptors: the first hello asks
            self._devices.expect(self._records.all)

    def _meter_of(self, config: Config) -> Meter | None:
        """None where nobody wants its figures: then nothing is counted for them."""
        if not (config.metrics.listen or config.metrics.textfile or config.daemon.status_dir):
            return None
        return Meter(config.scheduler.policy, self._jobs.all, self._unmanaged.around, use=lambda: self._use.last)

    def _job_ended(self, job: Job) -> None:
        if self._meter:
            self._meter.job_ended(job)

    async def _publish(self) -> None:
        if self._meter:
            await Publisher(self._config.metrics, self._meter.values, self._storage).watch()

    async def _tell_cluster(self) -> None:
        if self._meter and (directory := self._config.daemon.status_dir):
            told = StatusFile(
                directory,
                self._meter,
                policy=self._config.scheduler.policy,
                use=lambda: self._use.last,
                storage=self._storage,
            )
            await told.watch()

    async def _map_jobs(self) -> None:
        if directory := self._config.metrics.job_map_dir:
            await JobMap(directory, self._run_dir, self._records, self._storage).watch()

    def _reported(self) -> dict[tuple[str, int], Reported]:
        return self._present.reported()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until `shutdown`, SIGTERM, SIGINT or idle exit; calls `ready` once both sockets accept.

        Raises run_directory's CannotServe or AlreadyServed instead of serving.
        """
        run_directory.prepare(self._run_dir)
        lock = run_directory.lock(self._run_dir)
        if self._call is None:
            self._workers.start()
        self._restore()
        if self._meter:
            self._meter.begin()
        self._begin_mps()
        self._spare.take_back()
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            # Only the main thread gets signals; a server in a test's thread is stopped otherwise.
            with suppress(ValueError, RuntimeError):
                loop.add_signal_handler(signal_number, self._stop.set)
        for conversation in self._clients.inherit():  # first: a new client would make a memory page of its own
            self._converse(conversation)
        self._jobs.clients_are_back()
        listeners = self._listen()
        watches = (
            self._sweep, self._unmanaged.watch, self._forgotten.watch, self._comments.watch, self._mps.watch,
            self._auto.watch, self._rotation.watch, self._publish, self._use.watch, self._tell_cluster, self._map_jobs,
            MemoryWatch(self._jobs).watch,
        )  # fmt: skip
        lookers = [asyncio.ensure_future(self._keep_watching(watch)) for watch in watches]
        _log.info("serving %s with policy %s", self._run_dir, self._config.scheduler.policy)
        ready()
        try:
            await self._stop.wait()
        finally:
            for looker in lookers:
                looker.cancel()
            for listener in listeners:
                listener.close()
            await self._devices.stop()
            await self._finish()
            await self._mps.finish()
            self._spare.give()
            os.close(lock)
            _log.info("stopped")

    def _restore(self) -> None:
        try:
            self._jobs.restore()
        except OSError as error:
            raise CannotServe(f"the jobs in {self._run_dir} cannot be read: {error.strerror}") from None

    def _begin_mps(self) -> None:
        try:
            self._mps.begin()
        except OSError as error:
            _log.warning("there can be no MPS in %s: %s: jobs run in time slices", self._run_dir, error.strerror)

    def _listen(self) -> list[Listener | UserSockets]:
        """The sockets: those of clients, the command line's, and that of root's hooks, which nobody else can reach."""
        hellos = Admission(Places(connections()), HELLOS, self._records.users)
        requests = Admission(Places(REQUEST_PLACES), REQUESTS, self._records.users, masters_pass=True)
        serve, hear = self._clients.serve, self._control.serve
        listener = partial(Listener, converse=self._converse, spare=self._spare)
        own = partial(listener, mode=0o600, admission=hellos, serve=serve, refusal=protocol.refused)
        hooks = self._run_dir / HOOKS_DIRECTORY
        opened: list[Listener | UserSockets] = []
        try:
            hooks.mkdir(mode=0o700, exist_ok=True)
            hooks.chmod(0o700)
            self._users = UserSockets(self._run_dir, self._records, own, self._records_changed)
            opened.append(self._users)
            self._users.begin()
            for path, mode, admission, each, refuse in (
                (self._run_dir / SOCKET_NAME, 0o666, hellos, serve, protocol.refused),
                (hooks / CONTROL_NAME, 0o600, requests, hear, refusal),
                # Last: who waits for fikitd looks for it.
                (self._run_dir / CONTROL_NAME, 0o666, requests, hear, refusal),
            ):
                opened.append(listener(path, mode=mode, admission=admission, serve=each, refusal=refuse))
        except OSError as error:
            for one in opened:
                one.close()
            raise CannotServe(
                f"a socket in {self._run_dir} cannot be made: {error.strerror or error}: give it a shorter run_dir, or make room"
            ) from None
        return opened

    def _converse(self, conversation: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(conversation)
        self._connections.add(task)
        task.add_done_callback(self._connection_ended)
        return task

    def _connection_ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection was dropped because of a fault in fikitd", exc_info=error)

    async def _keep_watching(self, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A watch that fails begins anew: what fikitd has run out of comes back, and a fault of ours must not end it for good."""
        told: set[str] = set()
        while True:
            try:
                await watch()
            except Exception as error:
                if repr(error) not in told:
                    fault = None if scarce(error) else error
                    _log.warning("a watch begins anew: %s", run_out(error) if scarce(error) else error, exc_info=fault)
                told.add(repr(error))
            else:
                return
            await asyncio.sleep(SWEEP_S)

    async def _sweep(self) -> None:
        """Forget finished jobs; leave when nobody can reach us, or when there was nothing to do for idle_exit_s."""
        limit_s = self._config.daemon.idle_exit_s
        interval_s = min(SWEEP_S, max(1.0, limit_s / 4)) if limit_s else SWEEP_S
        busy = time.monotonic()
        while True:
            await asyncio.sleep(interval_s)
            self._jobs.sweep()
            self._unfinished.remove()
            with suppress(OSError):
                self._records.forget_changes({record.job for record in self._records.all()})
            if self._users:
                self._users.refresh()  # where the kernel does not tell of new records
            if not (self._run_dir / CONTROL_NAME).exists():
                _log.warning("%s was removed, so nobody can reach this fikitd: it leaves", self._run_dir / CONTROL_NAME)
                self._stop.set()
            now = time.monotonic()
            if limit_s and self._at_work():
                busy = now
            elif limit_s and now - busy >= limit_s:
                _log.info("idle for %d s", limit_s)
                self._stop.set()

    def _at_work(self) -> bool:
        if self._clients or any(not job.quiet for job in self._jobs.all()):
            return True
        # A record whose process is gone was left behind by a `fikit run` that was killed.
        return any(not r.pid or (self._proc / str(r.pid)).exists() for r in self._records.all())

    async def _finish(self) -> None:
        """Let every client run free, then store what they did, as far as storage answers."""
        await self._store_last()
        await asyncio.gather(*(each.settle(LAST_FILES_S) for each in (self._storage, self._ledger, self._workers)))
        self._workers.close()

    async def _store_last(self) -> None:
        going_on = self._clients.leave()
        if going_on:  # while the clients are there to be asked
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORK_S):
                    await self._jobs.store()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=LAST_WORK_S)
        self._gpus.stop()
        if going_on:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORK_S):
                await self._jobs.finish()


def raise_descriptor_limit() -> None:
    """Every client costs four descriptors; the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def notify_systemd() -> None:
    """sd_notify(3): READY=1, when a unit of Type=notify started us."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name:
        address = "\0" + name[1:] if name.startswith("@") else name
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
            notify.sendto(b"READY=1", address)
