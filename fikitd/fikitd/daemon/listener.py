"""A socket that anybody may connect to, without end and all at once: fikitd goes on with everything else meanwhile.

Connections are accepted in portions, and those that `Admission` does not let in are refused at once. After a portion of which most were
refused the socket rests, each time longer: the kernel lets who connects wait, and so a storm costs its own user the time, not fikitd.
Few can wait, so that an honest connection there is served after a few portions.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fikitd.base.peer import Peer
from fikitd.base.rates import Rate, Rates
from fikitd.base.scarcity import SpareDescriptor, run_out
from fikitd.daemon.admission import Admission

_log = logging.getLogger("fikitd")

PORTION: Final = 32  # each refusal costs 20 us
WAITING: Final = 128  # a storm refills it in no time
REST_S: Final = 0.004  # after the first such portion, twice as long after each further one
LONGEST_REST_S: Final = 0.064
REFUSE_S: Final = 0.05  # without descriptors, those that wait are refused so often
TELL: Final = Rate(at_once=1, per_s=1 / 60)  # lines about refusals: of one user, and of want of descriptors

Serve = Callable[[socket.socket], Coroutine[Any, Any, None]]


def refuse(connection: socket.socket, answer: bytes) -> None:
    """Answer without reading what is asked, and hang up."""
    with connection, suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
        while connection.recv(1):  # what is closed unread takes the answer with it
            pass
        connection.send(answer, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _bind(ours: socket.socket, path: Path) -> None:
    """By its directory's descriptor: `run_dir` may be so long that a socket in a directory of it has no path that fits (unix(7)).

    Without /proc by the path, if that fits.
    """
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    by_descriptor = Path(f"/proc/self/fd/{directory}")
    try:
        ours.bind(str((by_descriptor if by_descriptor.exists() else path.parent) / path.name))
    finally:
        os.close(directory)


class Listener:
    """One socket of fikitd's. Raises OSError where it cannot be made."""

    def __init__(
        self,
        path: Path,
        *,
        mode: int,
        admission: Admission,
        serve: Serve,
        refusal: Callable[[str], bytes],
        converse: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        spare: SpareDescriptor,
    ) -> None:
        """`serve` answers one connection that is let in, as a conversation that `converse` begins; `refusal`: what the others get."""
        self._rest_s = REST_S
        self.path = path
        self._admission, self._serve, self._refusal, self._converse = admission, serve, refusal, converse
        self._spare = spare
        self._rates = Rates()
        self._refused: dict[int, int] = {}  # by user, since the last line about that
        # Under another name first: whoever sees the socket can connect to it, and nobody meets a stale one.
        unready = path.with_name(f".{path.name}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            unready.unlink(missing_ok=True)
            _bind(self._socket, unready)
            unready.chmod(mode)
            self._socket.listen(WAITING)
            unready.rename(path)
        except OSError:
            self._socket.close()
            raise
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._open()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        with suppress(OSError):
            self.path.unlink()
        self._socket.close()

    def _open(self) -> None:
        self._timer = None
        self._loop.add_reader(self._socket, self._accept)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._timer = self._loop.call_later(seconds, self._open)

    def _accept(self) -> None:
        refused = 0
        for _ in range(PORTION):
            try:
                connection, _address = self._socket.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in (errno.ECONNABORTED, errno.EPROTO):
                    continue
                self._run_out_of(error)
                return
            refused += not self._let_in(connection)
        self._spare.take_back()  # somebody else may have had it last time
        if refused > PORTION // 2:
            self._rest(self._rest_s)
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        else:
            self._rest_s = REST_S

    def _let_in(self, connection: socket.socket) -> bool:
        try:
            uid = Peer.of(connection).uid
            why = self._admission.why_not(uid)
        except OSError:
            connection.close()
            return False
        if why is not None:
            refuse(connection, self._refusal(why))
            self._tell(uid, why)
            return False
        connection.setblocking(False)
        self._admission.places.add(uid)
        self._converse(self._serve(connection)).add_done_callback(lambda _: self._left(connection, uid))
        return True

    def _left(self, connection: socket.socket, uid: int) -> None:
        connection.close()
        self._admission.places.remove(uid)

    def _tell(self, uid: int, why: str) -> None:
        self._refused[uid] = self._refused.get(uid, 0) + 1
        if self._rates.take(uid, TELL):
            count = self._refused.pop(uid)
            those = "a connection" if count == 1 else f"{count} connections"
            _log.info(
                "%s of uid %d to %s refused: %s", those, uid, self.path.name, why, extra={"uid": uid, "refused": True}
            )

    def _run_out_of(self, error: OSError) -> None:
        refused = self._refuse_waiting(self._refusal(run_out(error)))
        if refused and self._rates.take(None, TELL):
            _log.warning("%d connections were refused: %s", refused, run_out(error))
        self._rest(REFUSE_S)  # the kernel says so also while nobody connects: trying at once again would spin

    def _refuse_waiting(self, answer: bytes) -> int:
        """Without a descriptor for them: who waits for an answer gets one, instead of waiting until it gives up."""
        refused = 0
        with suppress(OSError):
            while refused < PORTION and self._spare.give():
                connection, _ = self._socket.accept()
                refuse(connection, answer)
                refused += 1
                self._spare.take_back()
        self._spare.take_back()
        return refused
