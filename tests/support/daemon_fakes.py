"""What the daemon's unit tests put in place of the native core, of /proc and of a client process."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from fikitd._core import pack_profile
from fikitd.api.client import Control
from fikitd.api.job_time import FIELDS
from fikitd.api.traces import events_of
from fikitd.base import protocol
from fikitd.config.fikit_toml import Config, DaemonConfig, SchedulerConfig
from fikitd.daemon.server import Server
from fikitd.store.storage import Storage
from fikitd.workers import user_work
from fikitd.workers.pool import Call, Chunks, Rights

NOTHING: dict[str, Any] = {
    "kernels": 0, "gpu_time_ns": None, "untimed": 0, "beside": 0, "doubtful": 0, "unfinished": 0,
    "distinct": 0, "distinct_profiled": 0, "distinct_borrowed": 0, "span_ns": 0,
    "under_way_ns": 0, "span_alone_ns": None, "wait_count": 0, "wait_total_ns": 0,
    "wait_p99_ns": 0, "gaps_offered": 0, "gaps_filled": 0, "others_kernels": 0, "predicted_gap_ns": 0,
    "actual_gap_ns": 0, "gap_error_p50_ns": 0, "gap_error_p90_ns": 0, "expired": 0,
    "drifted": 0, "held": [],
    "spent": {f"{name}_ns": 0 for name in FIELDS},
    "moves": dict.fromkeys(
        ("goal", "reached", "movable_bytes", "resident_bytes", "in_bytes", "out_bytes", "missed_bytes", "moving_ns", "turns", "failures"), 0
    ),
}  # fmt: skip
UUID = bytes(range(16))


def statistics(count: int = 1, mean_ns: float = 1000.0) -> dict[str, Any]:
    return {"count": count, "mean_ns": mean_ns, "m2": 0.0, "histogram": {"80": count}}


def kernel(name: str = "k", **overrides: Any) -> dict[str, Any]:
    return {
        "name": name, "module": "00000000000000ab", "grid": [1, 1, 1], "block": [64, 1, 1], "shared_bytes": 0,
        "kind": 0, "context": [], "duration": statistics(), "gap": statistics(mean_ns=50.0),
        "boundary": statistics(0, 0.0), **overrides,
    }  # fmt: skip


def journal_of(events: bytes, lost: int = 0, kernels: bytes = b"1 kernel\n") -> dict[str, Any]:
    """As `Dispatcher.journal` gives it."""
    by = sorted({event.by for event in events_of(events) if event.kind == "wait"})
    return {"events": events, "lost": lost, "kernels": kernels, "by": by}


class FakeDeparted:
    def __init__(self, core: FakeCore, stats: dict[str, Any], ended: bool) -> None:
        self.core, self.stats, self._ended, self._events = core, stats, ended, core.journal

    def journal(self) -> dict[str, Any]:
        return journal_of(self._events)

    def profile(self, limit: int) -> bytes:
        assert self._ended  # or a report that it did not finish would hide what it did since
        if not (self.core.measured or self.core.rhythm):
            return b""
        return pack_profile(self.core.measured, self.core.rhythm, limit, names=True)


async def work_here(
    rights: Rights,
    work: str,
    arguments: dict[str, Any],
    *,
    timeout_s: float,
    chunks: Chunks = (),
    descriptors: tuple[int, ...] = (),
    answer_bytes: int = 0,
    user: int | None = None,
) -> tuple[Any, bytes]:
    """What a worker does, in a thread of this process and with its rights."""
    blocks = [chunk async for chunk in chunks] if isinstance(chunks, AsyncIterable) else list(chunks)

    def do() -> tuple[Any, bytes]:
        result, answer = user_work.do(work, json.loads(json.dumps(arguments)), iter(blocks), list(descriptors))
        return result, b"".join(answer)

    result, answer = await Storage().run(rights.uid, do, timeout_s)
    assert len(answer) <= answer_bytes
    return result, answer


class FakeDispatcher:
    def __init__(self, core: FakeCore, *options: Any, **terms: Any) -> None:
        self.core = core
        self.options = options
        self.terms = terms
        self.clients: dict[int, dict[str, Any]] = {}
        self.stopped = False

    def switches(self) -> list[tuple[int, int, int, int, int]]:
        return [(client, *word) for client, word in self.core.switches.items() if client in self.clients]

    def device(self, priority: int = 9) -> dict[str, Any]:
        known = self.core.remembered
        return {"switch_ns": known and known[0], "spread_ns": known and known[1], "samples": 0}

    def remember_switch(self, switch_ns: int, spread_ns: int, count: int, priority: int) -> None:
        self.core.remembered = (switch_ns, spread_ns, priority)

    def add_client(
        self,
        client_id: int,
        memfd: int,
        doorbell: int,
        priority: int,
        measure: bool,
        *,
        gang: int = 0,
        resume: bool = False,
        room: Any = None,
        overlaps: bool = False,
        pid: int = 0,
        user: int = 0,
        **protection: Any,
    ) -> None:
        os.fstat(memfd), os.fstat(doorbell)
        self.clients[client_id] = {
            "priority": priority, "measure": measure, "profile": None, "described": [], "protection": protection,
            "ended": False, "overlaps": overlaps, "pid": pid, "owner": (user, gang),
        }  # fmt: skip
        self.core.seen[client_id] = self.clients[client_id]

    def set_priority(self, client_id: int, priority: int) -> None:
        self.clients[client_id]["priority"] = priority

    def ended(self, client_id: int) -> None:
        self.clients[client_id]["ended"] = True

    def remove_client(self, client_id: int) -> dict[str, Any]:
        stats = self.stats(client_id)
        del self.clients[client_id]
        return stats

    def take_client(self, client_id: int) -> FakeDeparted:
        departed = FakeDeparted(self.core, self.stats(client_id), self.clients.pop(client_id)["ended"])
        return departed

    def use_profile(self, client_id: int, packed: bytes) -> None:
        self.clients[client_id]["profile"] = packed

    def describe(self, client_id: int, *facts: Any) -> None:
        self.clients[client_id]["described"].append(facts)

    def stats(self, client_id: int) -> dict[str, Any]:
        return {**NOTHING, "kernels": len(self.clients[client_id]["described"]), **self.core.stats}

    def spent(self, client_id: int) -> dict[str, int]:
        return dict(self.stats(client_id)["spent"])

    def moves(self, client_id: int) -> dict[str, int]:
        return dict(self.stats(client_id)["moves"])

    def plan_state(self, client_id: int) -> dict[str, int]:
        assert client_id in self.clients
        return dict.fromkeys(("number", "taken", "refused", "carried_out", "skipped", "bytes_per_s"), 0)

    def iteration(self, client_id: int) -> None:
        """It is in none that is known."""
        assert client_id in self.clients

    def journal(self, client_id: int) -> dict[str, Any]:
        assert client_id in self.clients
        return journal_of(self.core.journal)

    def stop(self) -> None:
        self.stopped = True


class FakeCore:
    """`seen`: every client that ever was; `stats`, `measured`: what clients are said to have done."""

    def __init__(self) -> None:
        self.dispatchers: list[FakeDispatcher] = []
        self.seen: dict[int, dict[str, Any]] = {}
        self.stats: dict[str, Any] = {}
        self.measured: list[dict[str, Any]] = []
        self.rhythm: dict[str, Any] = {}
        self.journal = b""
        self.pages: list[dict[str, object]] = []  # options of each
        self.switches: dict[int, tuple[int, int, int, int]] = {}
        self.remembered: tuple[int, int, int] | None = None

    def Dispatcher(self, *options: Any, **terms: Any) -> FakeDispatcher:
        self.dispatchers.append(FakeDispatcher(self, *options, **terms))
        return self.dispatchers[-1]

    def make_page(
        self, measure: bool, lease_ns: int, spin_ns: int, sample_every: int, version: int, **more: object
    ) -> int:
        self.pages.append(more)
        page = os.memfd_create("page")
        os.ftruncate(page, 4096)
        return page


class FakeProc:
    """A /proc with the processes that a test says."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        pid: int,
        *,
        ppid: int = 1,
        uid: int = 0,
        cgroup: str = "0::/user.slice\n",
        command: tuple[str, ...] = ("sh",),
        start: int = 100,
        name: str = "sh",
        exe: str = "/usr/bin/sh",
    ) -> None:
        at = self.root / str(pid)
        at.mkdir(exist_ok=True)
        (at / "stat").write_text(f"{pid} ({name}) S {ppid} " + " ".join(["0"] * 17) + f" {start} 0 0\n")
        (at / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t0\t0\t0\t0\n")
        (at / "cgroup").write_text(cgroup)
        (at / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        if not (at / "exe").is_symlink():
            (at / "exe").symlink_to(exe)


@contextmanager
def serving(config: Config, core: FakeCore, proc: Path, work: Call | None = work_here) -> Iterator[None]:
    """A Server in a thread of this process; stopped at the end. `work` None: with workers."""
    ready = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(Server(config, core, proc, work).run(ready.set))
        except BaseException as error:
            failure.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    if failure:
        thread.join()
        raise failure[0]
    try:
        yield
    finally:
        if (Path(config.daemon.run_dir) / protocol.CONTROL_NAME).exists():
            Control(config.daemon.run_dir).shutdown()
        thread.join(60)
        assert not thread.is_alive()
        if failure:
            raise failure[0]


def config_in(directory: Path, **scheduler: Any) -> Config:
    daemon = DaemonConfig(str(directory / "run"), str(directory / "reports"), str(directory / "profiles"))
    return Config(daemon, SchedulerConfig(**scheduler))


class IdleDaemon:
    """A daemon that does not run, below `root`, with the processes that a test adds to `proc`. Its parts, by name, in `parts`."""

    def __init__(self, root: Path) -> None:
        self.proc = FakeProc(root / "proc")
        self.proc.root.mkdir()
        self.config = config_in(root)
        self.server = Server(self.config, FakeCore(), self.proc.root, work_here)
        self.run_dir = Path(self.config.daemon.run_dir)
        self.run_dir.mkdir()
        self.parts: dict[str, Any] = vars(self.server)
        self.jobs, self.records = self.parts["_jobs"], self.parts["_records"]


def hello(
    version: int = protocol.OLDEST,
    newest: int = protocol.VERSION,
    uuid: bytes = UUID,
    name: bytes = b"Emulated GPU",
    purpose: int = 0,
) -> bytes:
    size = ctypes.sizeof(protocol.HelloLayout)
    message = protocol.HelloLayout(protocol.HeadLayout(protocol.HELLO, size), version, purpose, newest)
    ctypes.memmove(message.gpu_uuid, uuid, 16)
    ctypes.memmove(message.gpu_name, name, len(name))
    message.gpu_memory_bytes = 2**34
    return bytes(message)


def description(slot: int = 1, name: bytes = b"kernel", kind: int = 0) -> bytes:
    size = ctypes.sizeof(protocol.KernelLayout)
    message = protocol.KernelLayout(protocol.HeadLayout(protocol.KERNEL, size), slot, kind, 0xAB)
    message.grid[:], message.block[:] = (2, 1, 1), (64, 1, 1)
    ctypes.memmove(message.name, name, len(name))
    return bytes(message)


class FakeClient:
    """A process's connection to fikitd, as the shim makes it; stays until the test ends or closes it."""

    made: ClassVar[list[FakeClient]] = []

    def __init__(self, run_dir: str | Path) -> None:
        self.made.append(self)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(str(Path(run_dir) / protocol.SOCKET_NAME))

    def send(self, packet: bytes) -> None:
        self.socket.send(packet)

    def answer(self) -> tuple[int, bytes, list[int]]:
        """(type, packet, descriptors) of the daemon's answer; type 0 when it closed the connection."""
        packet, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 4)
        kind = protocol.HeadLayout.from_buffer_copy(packet).type if packet else 0
        return kind, packet, list(descriptors)

    def refusal(self) -> str:
        kind, packet, _ = self.answer()
        assert kind == protocol.REFUSED, kind
        return packet[ctypes.sizeof(protocol.HeadLayout) :].split(b"\0")[0].decode()

    def welcome(self, **facts: Any) -> FakeClient:
        self.send(hello(**facts))
        kind, packet, descriptors = self.answer()
        assert kind == protocol.WELCOME, packet
        assert len(descriptors) == 3
        for descriptor in descriptors:
            os.close(descriptor)
        return self

    def close(self) -> None:
        self.socket.close()


def eventually(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The first true value of `condition`, asked again and again for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)
    return value
