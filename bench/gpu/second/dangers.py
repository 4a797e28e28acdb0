"""The part `dangers`: questions to NVIDIA's MPS that may hang a GPU, each with a server of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.gpu import asking, mps
from bench.gpu.asking import Asking, Client
from bench.gpu.context import Context, Found
from bench.record import BenchError

MOST_S = 7.0  # of a question, the server's start included
START_S, CLIENT_S = 4.0, 3.0
LONG_NS, LONG_BLOCKS = 300_000_000, 264  # a kernel that outlasts its program
SPIN_NS = 1_000_000
# The capabilities of site/fikitd.service.
RIGHTS = (
    "setpriv", "--bounding-set", "-all,+setuid,+setgid,+kill,+chown,+fowner,+dac_override,+dac_read_search,+sys_ptrace",
    "--no-new-privs",
)  # fmt: skip


def measure(context: Context) -> Found:
    """The part: {question: {"answer" or "error", "took_s"}}."""
    asked = Asking(context)
    questions = Questions(asked)
    for name, question in {
        "rights of fikitd.service": questions.rights,
        "terminate_client": questions.terminate,
        "fatal fault": questions.fault,
        "server killed": questions.killed,
        "control daemon stopped": questions.stopped,
    }.items():
        asked.ask(name, MOST_S, question)
    return asked.found


class Questions:
    """Facts, whatever they are: a code of the driver's, a state of the server's, seconds."""

    def __init__(self, asked: Asking) -> None:
        self._asked = asked
        self._nowhere = str(asked.context.place.directory / "nowhere")

    def rights(self) -> Found:
        """Whether a server serves root and another user with no more than the unit's capabilities."""
        with self._server("rights", RIGHTS) as (daemon, _):
            return {
                "root": self._asked.run("join", env=daemon.env, most_s=CLIENT_S),
                "other": self._asked.run("join", env=daemon.env, wrap=asking.NOBODY, most_s=CLIENT_S),
            }

    def terminate(self) -> Found:
        """A client that was killed within a kernel is terminated, as fikitd does. Can another one join meanwhile?"""
        with self._server("terminate") as (daemon, server):
            client = self._spin(daemon, LONG_NS, LONG_BLOCKS, 20)
            time.sleep(0.3)
            pid = client.pid
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
            listed = asking.said(daemon, f"get_client_list {server}", self._asked.left(2))
            joining = self._asked.begin("join", env=daemon.env)
            begin = time.monotonic()
            answer = asking.said(daemon, f"terminate_client {server} {pid}", self._asked.left(4))
            took_s = time.monotonic() - begin
            return {
                "listed": listed, "answer": answer, "terminate_s": round(took_s, 3), "meanwhile": self._line(joining),
                "after": self._asked.run("join", env=daemon.env, most_s=CLIENT_S),
            }  # fmt: skip

    def fault(self) -> Found:
        """A kernel traps: what another client sees, when the server takes clients again, and what it says of itself."""
        with self._server("fault") as (daemon, server):
            other = self._spin(daemon, SPIN_NS, 1, 3)
            time.sleep(0.2)
            env = {**daemon.env, **_emulated_trap(self._asked.context)}
            found: Found = {"trap": self._asked.run("trap", env=env, most_s=CLIENT_S)}
            begin = time.monotonic()
            found["status"] = asking.said(daemon, f"get_server_status {server}", self._asked.left(2))
            found["third"] = self._asked.run("join", env=daemon.env, most_s=CLIENT_S)
            found["other"] = self._line(other)
            other.kill()
            states: list[list[object]] = []
            while time.monotonic() < self._asked.until - 2 and "ACTIVE" not in str(states[-1:]):
                state = asking.said(daemon, f"get_server_status {server}", self._asked.left(1))
                if not states or states[-1][1] != state:
                    states.append([round(time.monotonic() - begin, 2), state])
                time.sleep(0.05)
            found |= {"states": states, "servers": daemon.servers(self._asked.left(1))}
            return {**found, "after": self._asked.run("join", env=daemon.env, most_s=2), "log": daemon.tail()}

    def killed(self) -> Found:
        """The server is killed: what its client sees, and whether a second cuInit outside MPS works."""
        with self._server("killed") as (daemon, server):
            client = self._spin(daemon, SPIN_NS, 1, 3)
            os.kill(server, signal.SIGKILL)
            return {
                "client": self._line(client),
                "twice": self._asked.run("twice", self._nowhere, env=daemon.env, most_s=CLIENT_S),
                "servers": asking.said(daemon, "get_server_list", self._asked.left(1)),
            }

    def stopped(self) -> Found:
        """The control daemon is stopped: how long cuInit takes, and whether a second one outside MPS works."""
        with self._server("stopped") as (daemon, _):
            os.kill(daemon.program.process.pid, signal.SIGSTOP)
            try:
                return self._asked.run("twice", self._nowhere, env=daemon.env, most_s=CLIENT_S)
            finally:
                os.kill(daemon.program.process.pid, signal.SIGCONT)

    @contextmanager
    def _server(self, name: str, wrap: Sequence[str] = ()) -> Iterator[tuple[mps.Daemon, int]]:
        """A daemon and its server's process. BenchError where no server comes; the flag is left out where the driver lacks it."""
        asked = self._asked
        flags = ["-multiuser-server"] if os.geteuid() == 0 and asking.knows_multiuser(asked.context) else []
        daemon = asked.daemon(name, flags, wrap)
        try:
            begun = asked.begin_server(daemon, START_S)
            if not begun["server"]:
                raise BenchError(f"no MPS server came: {begun}")
            yield daemon, begun["server"]
        finally:
            daemon.end(2.0)

    def _spin(self, daemon: mps.Daemon, ns: int, blocks: int, seconds: int) -> Client:
        """A client that works, behind its first line."""
        client = self._asked.begin("spin", ns, blocks, seconds, env=daemon.env)
        client.line(self._asked.deadline(CLIENT_S))
        return client

    def _line(self, client: Client) -> Found:
        """The client's next words, or why it has none."""
        try:
            return client.line(self._asked.deadline(CLIENT_S))
        except BenchError as error:
            return {"error": str(error)}


def _emulated_trap(context: Context) -> dict[str, str]:
    """The emulated GPU does not run PTX: a rule gives the kernel its fault."""
    return {"EMUCUDA_FAULTS": "kernel=fikit_trap error=719"} if context.gpu.get("emulated") else {}
