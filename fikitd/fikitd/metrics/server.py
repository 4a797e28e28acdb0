"""prometheus-client's HTTP application behind a server that is bounded: so many connections at a time, each for so long.

It runs in threads of its own and asks the event loop for one look. Whoever hangs, sends byte by byte or comes a thousand times takes
places here, and nothing of fikitd's. Nobody is asked who they are: the site chooses who can reach the address.
"""

from __future__ import annotations

import io
import logging
import socket
import socketserver
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from fikitd.base.threads import Thread
from fikitd.config.address import parse
from fikitd.metrics import page
from fikitd.metrics.meter import Values

_log = logging.getLogger("fikitd")

CONNECTIONS: Final = 8  # at a time; further ones are hung up on
WHOLE_S: Final = 5.0  # so long a connection may take, whatever it sends
TICK_S: Final = 0.5

Look = Callable[[], Values]
"""Values as of now; TimeoutError where fikitd does not say them in time. May be called from any thread."""


class _Handler(WSGIRequestHandler):
    timeout = WHOLE_S

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape every few seconds is no news."""

    def get_stderr(self) -> io.StringIO:
        """wsgiref's words on connections that break; our own faults are told by `Server.answer`."""
        return io.StringIO()


class Server(WSGIServer):
    """OSError from the constructor where the address cannot be had."""

    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, address: str, look: Look) -> None:
        host, port = parse(address)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._look = look
        self._lock = Lock()
        self._open: dict[socket.socket, float] = {}  # since when
        self._closing = False
        self._told: set[str] = set()
        super().__init__((host, port), _Handler)
        self.set_app(self.answer)

    def server_bind(self) -> None:
        """Without HTTPServer's question to the name service for our own name, which may take minutes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """One request."""
        try:
            shown = page.registry(self._look())
        except TimeoutError:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"fikitd is too busy to say its figures; the next scrape may have them\n"]
        except Exception:
            self._say_once("the metrics could not be put together")
            start_response("500 Internal Server Error", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"fikitd has a fault in its metrics; its log has more\n"]
        answer: Iterable[bytes] = make_wsgi_app(shown)(environ, start_response)
        return answer

    def serve(self) -> None:
        """Until `stop`; in a thread of its own. Asleep while nobody is connected."""
        try:
            while not self._closing:
                self.timeout = TICK_S if self._open else None
                self.handle_request()
                self._hang_up_on_late()
        finally:
            self.server_close()

    def stop(self) -> None:
        """From any thread: no connection is taken any more, and those that are there end."""
        self._closing = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for connections
        self._hang_up_on_late(0.0)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            if not self._closing:
                time.sleep(TICK_S)  # without descriptors the next call says the same at once
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            return not self._closing and len(self._open) < CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = time.monotonic()

        def converse() -> None:
            try:
                self.finish_request(request, client_address)
            except Exception:
                self.handle_error(request, client_address)
            finally:
                self._ended(request)

        try:
            Thread(converse).start()
        except OSError:
            self._ended(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is its client's matter."""
        self._say_once("a request for metrics was not answered")

    def _say_once(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.info("%s", what, exc_info=True)

    def _ended(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)
        self.shutdown_request(request)

    def _hang_up_on_late(self, after_s: float = WHOLE_S) -> None:
        """Their threads see the end of the connection. The place is free when the thread has gone."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, since in self._open.items() if now - since >= after_s]
        for request in late:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
