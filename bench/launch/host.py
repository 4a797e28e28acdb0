"""A dispatcher in this process, for benches that ask it what no report says: admits every program that connects."""

from __future__ import annotations

import array
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fikitd._core import Dispatcher, make_page
from fikitd.base import protocol
from fikitd.gpus.memory import MemoryPage


class Host:
    """Its clients are numbered from 1 in the order in which they come."""

    def __init__(self, directory: Path, dispatcher: Dispatcher, lease_ns: int, spin_ns: int) -> None:
        self.socket = directory / protocol.SOCKET_NAME
        self.dispatcher = dispatcher
        self._lease_ns, self._spin_ns = lease_ns, spin_ns
        self._terms = (5, False)
        self._came = threading.Condition()
        self._clients = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def expect(self, priority: int, measure: bool = False) -> None:
        """What the next client is."""
        self._terms = (priority, measure)

    def wait_for(self, client: int, seconds: float = 30.0) -> bool:
        """Whether the client has come in time."""
        with self._came:
            return self._came.wait_for(lambda: self._clients >= client, seconds)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.dispatcher.stop()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        version = protocol.parse_hello(connection.recv(protocol.MESSAGE_BYTES)).version
        assert version is not None, "the shim is of another fikit"
        priority, measure = self._terms
        page = make_page(measure, self._lease_ns, self._spin_ns, version=version)
        doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with self._came:
            number = self._clients + 1
            self.dispatcher.add_client(number, page, doorbell, priority, measure)
            self._clients = number
            self._came.notify_all()
        memory = MemoryPage(0)  # no limit
        welcome = protocol.welcome(version, os.fstat(page).st_size, memory.bytes, memory.take())
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [page, doorbell, memory.fd]))]
        connection.sendmsg([welcome], rights)
        while packet := connection.recv(protocol.MESSAGE_BYTES):
            k = protocol.parse_kernel(packet)
            self.dispatcher.describe(
                number, k.slot, k.name, k.module_hash, k.grid, k.block, k.shared_bytes, k.kind
            )  # fmt: skip


@contextmanager
def hosting(
    directory: Path, *, lease_ns: int, idle_after_ns: int, spin_ns: int, marker_interval: int
) -> Iterator[Host]:
    """A host with the policy `paper`; stopped at the end."""
    dispatcher = Dispatcher("paper", lease_ns, 20_000, 500_000, idle_after_ns, spin_ns, marker_interval)
    host = Host(directory, dispatcher, lease_ns, spin_ns)
    try:
        yield host
    finally:
        host.stop()
