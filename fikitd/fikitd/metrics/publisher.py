"""What publishes the metrics as fikit.toml says: over HTTP, and in a file for node_exporter. Nothing here ever fails fikitd.

What does not work is said once in the log, with its reason, and tried again: a port or a directory may come back.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fikitd.base.threads import Thread
from fikitd.config.fikit_toml import MetricsConfig
from fikitd.metrics.meter import Values
from fikitd.store import temporary
from fikitd.store.storage import Storage, reason, write_atomic

if TYPE_CHECKING:
    from fikitd.metrics.server import Server

_log = logging.getLogger("fikitd")

AGAIN_S: Final = 10.0
FILE_S: Final = 15.0  # Prometheus' usual interval
LOOK_S: Final = 2.0  # so long a scrape waits for the event loop
LOAD_S: Final = (
    30.0  # so long prometheus-client may take to be loaded, from a disk that is busy, and the file to be written
)
PLACE: Final = -2  # the user whose place its file work takes in Storage: nobody's


class Publisher:
    """Only the event loop touches it."""

    def __init__(self, config: MetricsConfig, values: Callable[[], Values], storage: Storage) -> None:
        self._config, self._values, self._storage = config, values, storage
        self._told: set[str] = set()
        self._left = False

    async def watch(self) -> None:
        """Until cancelled; returns at once where nothing is to be published."""
        try:
            async with asyncio.TaskGroup() as ways:
                if self._config.listen:
                    ways.create_task(self._serve())
                if self._config.textfile:
                    ways.create_task(self._write())
        finally:
            self._left = True

    async def _serve(self) -> None:
        address, loop = self._config.listen, asyncio.get_running_loop()

        def look() -> Values:
            """In a thread of the server's."""
            answer: Future[Values] = Future()

            def fill() -> None:
                try:
                    answer.set_result(self._values())
                except Exception as error:
                    answer.set_exception(error)

            try:
                loop.call_soon_threadsafe(fill)
            except RuntimeError:  # fikitd has left
                raise TimeoutError from None
            return answer.result(LOOK_S)

        def begin() -> Server:
            from fikitd.metrics.server import Server  # noqa: PLC0415

            server = Server(address, look)
            if self._left:  # meanwhile
                server.server_close()
            return server

        while True:
            try:
                server = await self._storage.run(PLACE, begin, LOAD_S)
            except (OSError, ImportError) as error:
                self._say(_not_served(address, error))
                await asyncio.sleep(AGAIN_S)
                continue
            await self._stay(server, address)

    async def _stay(self, server: Server, address: str) -> None:
        thread = Thread(server.serve)
        try:
            thread.start()
            _log.info("metrics are served on http://%s/metrics", address)
            while thread.is_alive():
                await asyncio.sleep(AGAIN_S)
        except OSError as error:
            server.server_close()
            self._say(_not_served(address, error))
            await asyncio.sleep(AGAIN_S)
        finally:
            server.stop()

    async def _write(self) -> None:
        path = Path(self._config.textfile)
        with suppress(OSError):
            await self._storage.run(PLACE, partial(temporary.remove_of, path), LOAD_S)
        while True:
            try:
                await self._write_once(path)
            except (OSError, ImportError) as error:
                self._say(f"no metrics are written to {path}: {reason(error)}: fikitd tries again every {FILE_S:g} s")
            await asyncio.sleep(FILE_S)

    async def _write_once(self, path: Path) -> None:
        values = self._values()

        def write() -> None:
            from fikitd.metrics import page  # noqa: PLC0415

            write_atomic(path, page.text(values), mode=0o644)

        await self._storage.run(PLACE, write, LOAD_S)

    def _say(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning("%s", sentence)


def _not_served(address: str, error: BaseException) -> str:
    what = reason(error)
    if isinstance(error, OSError) and error.errno == errno.EAFNOSUPPORT:
        what += " (fikitd.service needs RestrictAddressFamilies=AF_INET AF_INET6 for it)"
    return f"no metrics are served on {address}: {what}: fikitd tries again every {AGAIN_S:g} s"
