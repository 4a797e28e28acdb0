"""Questions to a driver and to MPS, each with its own deadline: what a question starts ends with the question."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.gpu import mps
from bench.gpu.context import Context, Found
from bench.gpu.mps import Daemon
from bench.gpu.processes import Program
from bench.record import BenchError

CLIENT = Path(__file__).with_name("mps_client.py")
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
"""In front of a command: another user."""
LEAVE_S = 3.0


class Client:
    """A process of mps_client.py."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def pid(self) -> int:
        return self.program.process.pid

    def line(self, deadline: float) -> Found:
        """The next object that it says; BenchError with its last words when there is none in time."""
        text = self.program.line(deadline)
        try:
            return dict(json.loads(text))
        except ValueError:
            raise BenchError(f"{self.program.name} said {text[:200]!r}, which is no JSON object") from None

    def leave(self, deadline: float) -> float:
        """Tells the client to go; seconds until its end. The client is killed when it stays."""
        begin = time.monotonic()
        stdin = self.program.process.stdin
        if stdin is not None:
            with suppress(OSError):
                stdin.close()
        self.program.finish(deadline)
        return time.monotonic() - begin

    def kill(self) -> None:
        self.program.kill()


class Asking:
    """The questions of one part: `found` has {name: {"answer" or "error", "took_s"}}.

    An answer that has "error", or of which each part has, is an error; then "said" has the rest.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.found: Found = {}
        self.until = context.deadline  # of the question under way
        self._number = 0
        self._clients: list[Client] = []
        self._directory = context.place.directory / "asking"
        self._directory.mkdir(exist_ok=True)
        self._directory.chmod(0o755)  # other users run a client there
        self._script = self._directory / CLIENT.name
        shutil.copy(CLIENT, self._script)
        self._script.chmod(0o644)

    def ask(self, name: str, most_s: float, question: Callable[[], Found]) -> None:
        """Stores the answer. A question that fails, or asks for more than `most_s`, is an error of its own."""
        begin = time.monotonic()
        self.until = min(self.context.deadline, begin + most_s)
        entry: Found
        try:
            if self.until - begin < min(0.5, most_s):
                raise BenchError("the time was over")
            answer = question()
            why = _error(answer)
            entry = {"answer": answer} if why is None else {"error": why, "said": answer}
        except Exception as error:  # whatever a driver says
            entry = {"error": str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"}
        self._end_clients()
        entry["took_s"] = round(time.monotonic() - begin, 2)
        self.found[name] = entry
        self.context.changed(self.found)
        self.context.say(name, json.dumps(entry.get("answer", entry))[:200])

    def left(self, most_s: float) -> float:
        """Seconds until the question's deadline, at most `most_s`; at least a moment, so that a call fails by itself."""
        return max(0.05, min(most_s, self.until - time.monotonic()))

    def deadline(self, most_s: float) -> float:
        return time.monotonic() + self.left(most_s)

    # --- clients

    def begin(self, *words: object, env: Mapping[str, str] | None = None, wrap: Sequence[str] = ()) -> Client:
        """Starts a client (mps_client.py: mode and operands). `env`: beside the run's; `wrap`: a command in front."""
        python = [os.path.realpath(sys.executable), "-IS", str(self._script)]  # another user may not enter a venv
        self._number += 1
        name = f"client-{self._number}-{words[0]}"
        place = self.context.place
        program = Program(name, [*wrap, *python, *map(str, words)], {**place.env, **(env or {})}, place.directory)
        client = Client(program)
        self._clients.append(client)
        return client

    def run(
        self, *words: object, env: Mapping[str, str] | None = None, wrap: Sequence[str] = (), most_s: float = 10.0
    ) -> Found:
        """What a client says that ends by itself, as one object. A client that hangs or dies is {"error": ...}, with what it said before."""
        client = self.begin(*words, env=env, wrap=wrap)
        found: Found = {}
        deadline = self.deadline(most_s)
        while True:
            try:
                found |= client.line(deadline)
            except BenchError as error:
                code = client.program.process.poll()
                client.kill()
                return found if code == 0 and found else {**found, "error": str(error)}

    def _end_clients(self) -> None:
        """Clients that may still have work are told first: MPS suffers from clients that are killed within a kernel."""
        for client in self._clients:
            if client.program.process.poll() is None:
                client.leave(time.monotonic() + LEAVE_S)
            else:
                client.kill()
        self._clients.clear()

    # --- daemons

    def daemon(self, name: str, flags: Iterable[str] = (), wrap: Sequence[str] = (), mode: int = 0o755) -> Daemon:
        """A control daemon; the caller ends it."""
        return Daemon(self.context.place, self.context.library, name, tuple(flags), wrap, mode)

    def begin_server(self, daemon: Daemon, most_s: float) -> Found:
        """Asks for a server as fikitd does, and watches it come up: {"s", "server", "states", "tail"}; "server" is 0 where none came."""
        begin = time.monotonic()
        until = self.deadline(most_s)
        found: Found = {"ended_at_once": daemon.program.process.poll(), "server": 0, "states": []}
        found["start_server"] = said(daemon, f"start_server -uid {os.geteuid()}", self.left(most_s))
        while time.monotonic() < until and daemon.alive() and not found["server"]:
            servers = daemon.servers(self.left(5))
            state = said(daemon, f"get_server_status {servers[0]}", self.left(5)) if servers else ""
            if state not in found["states"][-1:]:
                found["states"].append(state)
            if servers and "INIT" not in state:
                found["server"] = servers[0]
            time.sleep(0.01)
        return {**found, "s": round(time.monotonic() - begin, 3), "tail": [] if found["server"] else daemon.tail()}


def _error(answer: Found) -> str | None:
    if "error" in answer:
        return str(answer["error"])
    parts = list(answer.values())
    if parts and all(isinstance(part, Mapping) and "error" in part for part in parts):
        return str(parts[0]["error"])
    return None


def said(daemon: Daemon, text: str, limit_s: float) -> str:
    """The daemon's answer, a refusal's words included."""
    try:
        return daemon.ask(text, limit_s)[:200]
    except BenchError as error:
        return str(error)[:200]


def knows_multiuser(context: Context) -> bool:
    """Whether the control daemon's program has the word -multiuser-server in it."""
    return b"multiuser-server" in Path(mps.command_path(context.library)).read_bytes()
