"""The life of MPS on one GPU: a control daemon with one server, begun for the first sharing job there, ended after the last.

It is a process of its own and outlives fikitd, whose next one goes on with it: what is running is in `RUN_DIR/mps/<name>.json`, by pid and
start time. `RUN_DIR/mps` and all in it is the daemon's own; users may enter the pipe directory, and no other.
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
from fikitd.mps import notes
from fikitd.mps.control import ASK_S, INITIALIZING, Control, MpsError, NobodyListens, began, children, socket_path_fits
from fikitd.mps.notes import State

_log = logging.getLogger("fikitd")

START_S: Final = 10.0  # a server makes a context on its GPU: seconds where nothing keeps the driver loaded
LOOK_S: Final = 0.05
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
        self._lock = asyncio.Lock()
        self._broken, self._broken_s = "", -RETRY_S
        self._watched: dict[int, int] = {}  # pidfd by pid

    @property
    def there(self) -> bool:
        """Whether the control daemon lives."""
        return self.pid != 0 and began(self.pid) == self.started

    @property
    def serves(self) -> bool:
        """Whether the server lives, with or without a control daemon."""
        return self.server != 0 and began(self.server) == self.server_started

    @property
    def ready(self) -> bool:
        """Whether the control daemon and its server live."""
        return self.there and self.serves

    @property
    def why_not(self) -> str:
        """Why the server cannot be joined now."""
        if self._lock.locked():
            return "MPS was not there in time"
        if self.serves:
            return "the control daemon of MPS has ended"
        return f"MPS {self._broken}" if self._broken else "the MPS server has ended"

    @property
    def processes(self) -> set[int]:
        """Those of its processes that live."""
        return ({self.pid} if self.there else set()) | ({self.server} if self.serves else set())

    def adopt(self, state: State) -> None:
        """Go on with what an earlier fikitd began."""
        self.pid, self.started, self.jobs = state.pid, state.started, set(state.jobs)
        self._watch(self.pid)

    async def ensure(self, timeout_s: float = START_S) -> None:
        """Until control daemon and server are there. MpsError: they are not, and why."""
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
                self._broken = _why(error, timeout_s)
                _log.warning("MPS on %s %s", self.uuid, self._broken)
                if not self._busy():  # who hangs is begun anew the next time
                    await self._end()
                raise MpsError(self._broken) from None

    async def _start(self) -> None:
        if not self.there:
            await self._end_by_force()  # a server without its daemon
            self._make_directories()
            self.pid = self.control.start()
            self.started = began(self.pid)
            self._watch(self.pid)
            self.save()
            await self._until_it_answers()
        else:
            await self._begin_server()
        while not self.server:  # the daemon may not have heard of the end of the one before, and have begun none
            await asyncio.sleep(LOOK_S)
            await self._begin_server()
        while await self.control.status(self.server, START_S) == INITIALIZING:
            await asyncio.sleep(LOOK_S)
        _log.info("MPS serves %s: control daemon %d, server %d", self.uuid, self.pid, self.server)

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

    async def _until_it_answers(self) -> None:
        """A control daemon that has just begun, with a server then."""
        while True:
            if self.control.listens:
                with suppress(NobodyListens):
                    return await self._begin_server()
            self.control.reap()
            if not self.there:
                raise MpsError(f"ended at once: see {self._logs}")
            await asyncio.sleep(LOOK_S)

    async def _begin_server(self) -> None:
        """One that is there stays."""
        await self.control.start_server(START_S)
        await self._find_server(START_S)

    async def _find_server(self, timeout_s: float = ASK_S) -> None:
        for pid in await self.control.servers(timeout_s):
            if started := began(pid):
                self.server, self.server_started = pid, started
                self._watch(pid)
                return
        self.server = self.server_started = 0

    async def find(self) -> None:
        """The server of a control daemon that was gone on with. MpsError: it cannot be asked."""
        async with self._lock:
            if self.there and not self.ready:
                await self._find_server()

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
            State(self.uuid, self.pid, self.started, sorted(self.jobs)).save(self._file)
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
        self.pid = self.started = self.server = self.server_started = 0  # nobody has lost anything
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

    def leave(self) -> None:
        """fikitd ends, and it goes on."""
        for pid in list(self._watched):
            self._unwatch(pid)


def _why(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"was not there within {timeout_s:g} s"
    return f"could not be set up: {error.strerror}" if isinstance(error, OSError) else str(error)


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
