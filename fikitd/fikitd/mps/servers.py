"""The life of MPS on one GPU: a control daemon with one server, begun for the first sharing job there, ended after the last.

It is a process of its own and outlives fikitd, whose next one goes on with it: what is running is in `RUN_DIR/mps/<name>.json`, by pid and
start time. `RUN_DIR/mps` and all in it is the daemon's own; users may enter the pipe directory, and no other.

Users may not write there either. NVIDIA's daemon makes a pipe directory with mode 0777, but leaves the mode of one that it finds. Its
clients and servers only open `control`, `control_privileged` and `log` there (the names in libcuda.so.1 of driver 550; the system calls
of both as another user, without a GPU). With 0777 users could replace the sockets, with 01777 fill run_dir, which is memory.

A control daemon without `-multiuser-server` has a server of one user at a time (`owner`). A client of another user would wait in cuInit
until all of the first one's have ended, so fikitd tells one user's jobs to join, and begins a new control daemon for the next user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.gpus.devices import is_uuid
from fikitd.mps import notes, programs
from fikitd.mps.control import (
    ACTIVE,
    ASK_S,
    FAULT,
    UNKNOWN,
    Control,
    MpsError,
    NobodyListens,
    began,
    children,
    socket_path_fits,
)
from fikitd.mps.notes import State

_log = logging.getLogger("fikitd")

START_S: Final = 10.0  # a server makes a context on its GPU: seconds where nothing keeps the driver loaded
LOOK_S: Final = 0.05
BEGIN_S: Final = 0.5  # until another server is begun, where none has come
MOST_BEGUN: Final = 5  # then none will live: NVIDIA's daemon itself gives up after 6 for a client
SETTLED_S: Final = (
    1.0  # a server of which the daemon says no state has lived so long: one without a driver ends at once
)
RETRY_S: Final = 60.0  # after it could not be started
QUIT_S: Final = 3.0
MOST_LOG_BYTES: Final = 4 * 2**20  # of each file: RUN_DIR is memory


class Server:
    """Of one GPU. Only the event loop touches it."""

    def __init__(self, uuid: str, directory: Path, lost: Callable[[], None], busy: Callable[[], bool]) -> None:
        """`lost`: called when a process of it has ended and nobody told it to. `busy`: whether it has clients."""
        self.uuid, self._lost, self._busy = uuid, lost, busy
        places = notes.places(directory, uuid)
        self.pipes, self._logs, self._file = places.pipes, places.logs, places.note
        self.control = Control(uuid, self.pipes, self._logs)
        self.jobs: set[str] = set()
        self.pid = self.started = 0  # of the control daemon
        self.server = self.server_started = 0
        self.owner: int | None = None  # the uid whose programs it takes; None: those of all
        self._directory = directory
        self._serving = 0  # the server that is known to serve
        self._found_s = 0.0  # when the server was found
        self._told_unknown = False
        self._lock = asyncio.Lock()
        self._broken, self._broken_s = "", -RETRY_S
        self._watched: dict[int, int] = {}  # pidfd by pid

    @property
    def there(self) -> bool:
        """Whether the control daemon lives."""
        return self.started != 0 and began(self.pid) == self.started

    @property
    def serves(self) -> bool:
        """Whether the server lives, with or without a control daemon."""
        return self.server_started != 0 and began(self.server) == self.server_started

    @property
    def ready(self) -> bool:
        """Whether the control daemon lives, and its server, which is known to serve."""
        return self.there and self.serves and self._serving == self.server

    @property
    def several_users(self) -> bool:
        """Whether the next control daemon serves all users' programs. A fikitd that is not root has one user's only."""
        program = programs.find(programs.PROGRAM)
        try:
            return os.geteuid() != 0 or program is None or programs.serves_several_users(program)
        except OSError:
            return True  # the daemon's start will say why

    @property
    def why_not(self) -> str:
        """Why the server cannot be joined now."""
        if self._lock.locked():
            return "MPS was not there in time"
        if self.serves:
            return "the MPS server is not ready" if self.there else "the control daemon of MPS has ended"
        return f"MPS {self._broken}" if self._broken else "the MPS server has ended"

    @property
    def processes(self) -> set[int]:
        """Those of its processes that live."""
        return ({self.pid} if self.there else set()) | ({self.server} if self.serves else set())

    def adopt(self, state: State) -> None:
        """Go on with what an earlier fikitd began."""
        self.pid, self.started, self.jobs = state.pid, state.started, set(state.jobs)
        self.give_to(state.owner)
        self._watch(self.pid)

    def give_to(self, owner: int | None) -> None:
        """Say whose programs the next control daemon is for: one user's, or those of all (None). No control daemon is there, or it is the owner's."""
        self.owner = owner
        self.pipes = self.control.pipes = notes.places(self._directory, self.uuid, owner).pipes

    async def ensure(self, timeout_s: float = START_S) -> None:
        """Until control daemon and server are there, and the server is known to serve. MpsError: they are not, and why."""
        async with self._lock:
            if self.ready:
                return
            if time.monotonic() - self._broken_s < RETRY_S:
                raise MpsError(self._broken)
            if self.serves and not self.there and self._busy():
                raise MpsError("takes nobody new: its control daemon has ended, and its server still has clients")
            try:
                async with asyncio.timeout(timeout_s):
                    await self._start()
                self._broken = ""
            except (MpsError, OSError, TimeoutError) as error:
                self._broken_s = time.monotonic()
                self._broken = self._why(error, timeout_s)
                _log.warning("MPS on %s %s", self.uuid, self._broken)
                if not self._busy():  # who hangs is begun anew the next time
                    await self._end()
                raise MpsError(self._broken) from None

    async def _start(self) -> None:
        if not self.there:
            await self._end_by_force()  # a server without its daemon
            self._make_directories()
            self.pid = self.control.start(several_users=os.geteuid() == 0 and self.owner is None)
            self.started = began(self.pid)
            self._watch(self.pid)
            self.save()
        await self._until_it_serves()
        whose = "" if self.owner is None else (
            f", programs of user {self.owner} only: {programs.PROGRAM} does not know {programs.SEVERAL_USERS}"
        )  # fmt: skip
        _log.info("MPS serves %s: control daemon %d, server %d%s", self.uuid, self.pid, self.server, whose)

    def _make_directories(self) -> None:
        """Anew: what an earlier daemon left is nobody's. Users may enter the pipes' and read none of the logs."""
        if not socket_path_fits(self.pipes):
            raise MpsError(
                f"cannot have its sockets in {self.pipes}: the path is too long; give fikitd a shorter run_dir"
            )
        for directory, mode in ((self.pipes, 0o755), (self._logs, 0o700)):
            if directory == self.pipes:
                shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(mode=mode, exist_ok=True)
            directory.chmod(mode)

    async def _until_it_serves(self) -> None:
        """A server that is there stays; else one is begun. The daemon's socket is there before the daemon listens."""
        begun, begun_s = 0, -BEGIN_S
        while not self.ready:
            self.control.reap()
            if not self.there:
                raise MpsError(f"ended at once: see {self._logs}")
            if self.control.listens:
                with suppress(NobodyListens):
                    if self.serves:
                        await self._look_whether_it_serves(START_S)
                    elif time.monotonic() - begun_s >= BEGIN_S:
                        if begun == MOST_BEGUN:
                            raise MpsError(
                                f"has no server: each of {begun} ended as soon as it began: see {self._logs}"
                            )
                        await self.control.start_server(os.geteuid() if self.owner is None else self.owner, START_S)
                        begun, begun_s = begun + 1, time.monotonic()
                        await self._find_server(START_S)
                        continue
                    else:
                        await self._find_server(START_S)
            await asyncio.sleep(LOOK_S)

    async def _look_whether_it_serves(self, timeout_s: float = ASK_S) -> None:
        state = await self.control.status(self.server, timeout_s)
        if state == UNKNOWN:
            if not self._told_unknown:
                _log.warning("MPS on %s: this driver's control daemon says no server's state: fikitd takes a server that lives for %g s "
                             "as ready, and no client's fatal fault is in reports", self.uuid, SETTLED_S)  # fmt: skip
            self._told_unknown = True
        if state in (ACTIVE, FAULT) or (state == UNKNOWN and time.monotonic() - self._found_s >= SETTLED_S):
            self._serving = self.server
        elif not state:  # an answer about no server: perhaps there is another one now
            await self._find_server(timeout_s)

    def doubt(self) -> None:
        """Something is known by which the server may not be ready: the next program waits until it is."""
        self._serving = 0

    async def _find_server(self, timeout_s: float = ASK_S) -> None:
        for pid in await self.control.servers(timeout_s):
            if started := began(pid):
                if (pid, started) != (self.server, self.server_started):
                    self._serving, self._found_s = 0, time.monotonic()
                self.server, self.server_started = pid, started
                self._watch(pid)
                return
        self.server = self.server_started = 0

    async def find(self) -> None:
        """The server of a control daemon that was gone on with. MpsError: it cannot be asked."""
        async with self._lock:
            if self.there and not self.serves:
                await self._find_server()
            if self.there and self.serves and not self.ready:
                await self._look_whether_it_serves()

    def _watch(self, pid: int) -> None:
        """Hear of its end when it comes, not when somebody looks."""
        if pid in self._watched:
            return
        with suppress(OSError, NotImplementedError):
            fd = os.pidfd_open(pid)
            self._watched[pid] = fd
            asyncio.get_running_loop().add_reader(fd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        self._unwatch(pid)
        self.control.reap()
        if pid in (self.pid, self.server):
            self._lost()

    def _unwatch(self, pid: int) -> None:
        fd = self._watched.pop(pid, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def bound_logs(self) -> None:
        """NVIDIA's programs write for as long as they live: a log that has grown too large begins anew."""
        with suppress(OSError):  # it has ended meanwhile
            for file in self._logs.iterdir():
                if file.lstat().st_blocks * 512 > MOST_LOG_BYTES:  # one that is written on where it was has a hole then
                    os.truncate(file, 0)

    def save(self) -> None:
        """Note it for the next fikitd; what cannot be noted is a line in the log, and a daemon that the next one does not know."""
        try:
            State(self.uuid, self.pid, self.started, sorted(self.jobs), self.owner).save(self._file)
        except OSError as error:
            _log.warning("MPS on %s could not be noted in %s: %s", self.uuid, self._file, error.strerror)

    async def end(self) -> None:
        """Tell the control daemon to end with its server, and see to it that they do."""
        async with self._lock:
            await self._end()
            _log.info("MPS on %s has ended", self.uuid)

    async def _end(self) -> None:
        if self.there:
            with suppress(MpsError, TimeoutError):
                await self.control.quit(QUIT_S)
                async with asyncio.timeout(QUIT_S):
                    while self.there:
                        self.control.reap()
                        await asyncio.sleep(LOOK_S)
        await self._end_by_force()

    async def _end_by_force(self) -> None:
        """Whatever is left of it; then its directory goes."""
        pids = [(self.pid, self.started), (self.server, self.server_started)]
        if self.there:  # a server that nobody could be asked about
            pids += [(child, began(child)) for child in children(self.pid)]
        self.pid = self.started = self.server = self.server_started = self._serving = 0  # nobody has lost anything
        for pid, started in pids:
            if pid and began(pid) == started:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._unwatch(pid)
        await asyncio.sleep(0)
        self.control.reap()
        shutil.rmtree(self.pipes, ignore_errors=True)
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _why(self, error: Exception, timeout_s: float) -> str:
        if isinstance(error, TimeoutError):
            return f"was not there within {timeout_s:g} s: see {self._logs}"
        return f"could not be set up: {error.strerror}" if isinstance(error, OSError) else str(error)

    def leave(self) -> None:
        """fikitd ends, and it goes on."""
        for pid in list(self._watched):
            self._unwatch(pid)


def states(directory: Path) -> list[State]:
    """What an earlier fikitd noted of the control daemons that live; notes of the others, and unreadable ones, are removed."""
    living = []
    for file in notes.files(directory):
        try:
            state = notes.read(file)
            if not is_uuid(state.uuid):
                raise ValueError(f"{state.uuid} is no GPU's")
            if began(state.pid) != state.started:
                raise ValueError("it has ended")
        except (OSError, ValueError) as error:
            _log.info("%s is of no control daemon any more: %s", file, error)
            with suppress(OSError):
                file.unlink()
            continue
        living.append(state)
    return living
