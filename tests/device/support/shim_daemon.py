"""A fake fikitd for the shim's tests: speaks fikit_protocol.h, decides what the test tells it to decide."""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import mmap
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

HELLO, WELCOME, REFUSED, KERNEL, JOIN, OUTSIDE = 1, 2, 3, 4, 5, 6
WATCH, MAY_JOIN = 1, 2  # purposes of a hello
NO_MPS = 0x200  # with a purpose: the stand-in driver knows MPS's attribute, and denies it
OPEN, CLOSED = 0, 1
LAUNCH, GRANTED, DRAINED, DONE, SAMPLE, GAP, EXPIRED, MARK, MARK_GRANT, COPY, TOUCHES, TOUCH, FREED = range(1, 14)
VERSION, RING_ENTRIES, SLOTS = 8, 4096, 4096
SINCE_PLANS = 7  # the plan lies behind the page
MEMORY_VERSION = 2
MOVED = ("movable_bytes", "resident_bytes", "in_bytes", "out_bytes", "missed_bytes", "moving_ns")
ALLOCATIONS = 4096  # FIKIT_TOUCH_ALLOCATIONS
LONGEST_LEASE_S = 100  # that a fikitd gives; FIKIT_MOST_LEASE_NS is twice that
FUTEX_WAKE, SYS_FUTEX = 1, 202
NONE, IN, OUT = 0, 1, 2  # enum fikit_copy

Layout = dict[str, int]


def layout(program: Path) -> Layout:
    """Offsets of struct fikit_page, from the header itself (programs/shim/shim_offsets.c)."""
    return dict(json.loads(subprocess.check_output([program])))


@dataclass(frozen=True)
class Entry:
    """One ring entry."""

    t_ns: int
    slot: int
    kind: int
    value: int


class PlanMove(NamedTuple):
    """One of a plan's moves, or first uses (struct fikit_plan_move)."""

    after: int
    before: int
    chunk: int
    allocation: int
    chunks: int
    copy: int

    def packed(self) -> bytes:
        return struct.pack("<IIIHBB", *self)


class Page:
    """The daemon's view of one client's page, and of the plan behind it."""

    def __init__(  # noqa: PLR0917
        self, at: Layout, measure: bool, lease_ns: int, spin_ns: int, sample_every: int = 0, version: int = VERSION
    ) -> None:
        self.at = at
        self.memfd = os.memfd_create("fikit-test-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.file_bytes = at["with_plan_bytes" if version >= SINCE_PLANS else "bytes"]
        os.ftruncate(self.memfd, self.file_bytes)
        fcntl.fcntl(self.memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.bytes = mmap.mmap(self.memfd, self.file_bytes)
        header = (0x464B5047, version, at["bytes"], measure, lease_ns, spin_ns, sample_every)
        struct.pack_into("<IIIIqqI", self.bytes, 0, *header)
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK)

    def u32(self, name: str, index: int = 0) -> int:
        return int(struct.unpack_from("<I", self.bytes, self.at[name] + 4 * index)[0])

    def u64(self, name: str, index: int = 0) -> int:
        return int(struct.unpack_from("<Q", self.bytes, self.at[name] + 8 * index)[0])

    def set_u32(self, name: str, value: int) -> None:
        struct.pack_into("<I", self.bytes, self.at[name], value)

    def set_u64(self, name: str, value: int, index: int = 0) -> None:
        struct.pack_into("<Q", self.bytes, self.at[name] + 8 * index, value)

    def wake(self) -> None:
        """Add 1 to the futex word and wake its waiters."""
        self.set_u32("wake", (self.u32("wake") + 1) & 0xFFFFFFFF)
        word = ctypes.addressof(ctypes.c_uint32.from_buffer(self.bytes, self.at["wake"]))
        ctypes.CDLL(None).syscall(SYS_FUTEX, ctypes.c_void_p(word), FUTEX_WAKE, 2**31 - 1, None, None, 0)

    def renew_lease(self, lease_s: float) -> None:
        self.set_u64("gate_until_ns", time.monotonic_ns() + int(lease_s * 1e9))

    def close_gate(self, lease_s: float = 5.0) -> None:
        self.renew_lease(lease_s)
        self.set_u32("gate", CLOSED)
        self.wake()

    def open_gate(self) -> None:
        self.set_u32("gate", OPEN)
        self.wake()

    def grant(self) -> None:
        """Let the request that waits go."""
        self.set_u32("grant_seq", self.u32("request_seq"))
        self.wake()

    def want(self, resident_bytes: int) -> int:
        """So many bytes of the client's movable memory on the GPU, from now on; the number of this goal."""
        self.set_u64("moves.goal_bytes", resident_bytes)
        self.set_u32("moves.goal", self.u32("moves.goal") + 1)
        self.wake()
        return self.u32("moves.goal")

    def moves(self) -> dict[str, int]:
        """What the client says of its moves."""
        words = {name: self.u64(f"moves.{name}") for name in MOVED}
        return words | {name: self.u32(f"moves.{name}") for name in ("reached", "turns", "failures")}

    def plan(
        self, number: int, moves: Sequence[PlanMove], launches: int, first: int = 1, until_s: float = 60, *, uses: Sequence[PlanMove] = ()
    ) -> None:  # fmt: skip
        """Write a plan, whole. uses: its first uses."""
        self.set_u32("plan.number", 0)
        self.set_u32("plan.launches", launches)
        self.set_u64("plan.first_launch", first)
        self.set_u32("plan.count", len(moves))
        self.set_u32("plan.first_uses", len(uses))
        for i, move in enumerate((*moves, *uses)):
            struct.pack_into("<16s", self.bytes, self.at["plan.moves"] + 16 * i, move.packed())
        self.plan_until(until_s)
        self.set_u32("plan.number", number)

    def plan_until(self, until_s: float) -> None:
        self.set_u64("plan.until_ns", time.monotonic_ns() + int(until_s * 1e9))

    def planned(self) -> dict[str, int]:
        """What the client says of the plan."""
        return {name: self.u32(f"plan.{name}") for name in ("taken", "refused")} | {
            name: self.u64(f"plan.{name}") for name in ("carried_out", "skipped")
        }

    def knows_all(self) -> None:
        """The first 32 kernels of the program."""
        self.set_u32("known_slots", 2**32 - 1)

    def run(self, launches: int) -> None:
        """From now on so many more launches go without asking; 0: none. Their kernels are known."""
        self._run_until(launches)
        self.wake()

    def grant_run(self, launches: int) -> None:
        """Let the request that waits go as the first of so many launches: of both, whoever waits hears at once."""
        self._run_until(launches)
        self.grant()

    def _run_until(self, launches: int) -> None:
        self.knows_all()
        self.set_u64("run_until", self.u64("launch_seq") + launches if launches else 0)

    def launches(self) -> int:
        """Sum of the exact counts by identity."""
        return sum(self.u64("slot_launches", slot) for slot in range(SLOTS))

    def ring(self) -> list[Entry]:
        entries = []
        for i in range(min(self.u64("ring_head"), RING_ENTRIES)):
            stamp, t_ns, slot, kind, value = struct.unpack_from("<QqIIQ", self.bytes, self.at["ring"] + 32 * i)
            if stamp == i + 1:
                entries.append(Entry(t_ns, slot, kind, value))
        return entries

    def of_kind(self, kind: int) -> list[Entry]:
        return [entry for entry in self.ring() if entry.kind == kind]


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 10.0) -> Any:
    """Return the condition's value once it is true; fail with `what` after the timeout."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.001)
    raise AssertionError(f"after {timeout_s} s: no {what}")


@contextmanager
def granting(daemon: Daemon) -> Iterator[None]:
    """Whoever waits at a closed gate is let through, one launch after the other, some time after it came, however long all of it takes."""
    over = threading.Event()

    def grant() -> None:
        renewed_s = time.monotonic()
        while not over.wait(0.0002):
            if due := time.monotonic() - renewed_s > LONGEST_LEASE_S / 4:  # seldom: Python writes the word byte by byte
                renewed_s = time.monotonic()
            for page in list(daemon.pages):
                if due:
                    page.renew_lease(LONGEST_LEASE_S)
                if page.u32("waiting") and page.u32("request_seq") != page.u32("grant_seq"):
                    page.grant()

    thread = threading.Thread(target=grant)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Memory:
    """The memory page of the one job that the fake daemon knows."""

    def __init__(self, at: Layout, limit_bytes: int, host_bytes: int = 0) -> None:
        self.at = at
        self.memfd = os.memfd_create("fikit-test-memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memfd, at["memory_bytes"])
        fcntl.fcntl(self.memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.bytes = mmap.mmap(self.memfd, at["memory_bytes"])
        header = (0x464B4D4D, MEMORY_VERSION, at["memory_bytes"], 0, limit_bytes, host_bytes)
        struct.pack_into("<IIIIQQ", self.bytes, 0, *header)
        self.taken = 0

    def take(self) -> int:
        self.taken += 1
        struct.pack_into("<I", self.bytes, self.at["memory_shares"], self.taken)
        return self.taken - 1

    def word(self, share: int, number: int) -> int:
        return int(struct.unpack_from("<Q", self.bytes, self.at["memory_share"] + 64 * share + 8 * number)[0])

    def set_word(self, share: int, number: int, value: int) -> None:
        struct.pack_into("<Q", self.bytes, self.at["memory_share"] + 64 * share + 8 * number, value)

    def held(self, share: int = 0) -> int:
        return self.word(share, 0)

    def wanted(self, share: int = 0) -> int:
        return self.word(share, 1)

    def peak(self, share: int = 0) -> int:
        return self.word(share, 2)

    def plain(self, share: int = 0) -> int:
        return self.word(share, 3)


class Daemon:
    """Accepts shims on a socket. `answer` replaces WELCOME by other bytes, or by closing when b""."""

    def __init__(
        self,
        path: Path,
        at: Layout,
        *,
        measure: bool = False,
        closed: bool = False,
        lease_s: float = 5.0,
        spin_ns: int = 20_000,
        sample_every: int = 0,
        answer: bytes | None = None,
        limit_bytes: int = 0,
        host_bytes: int = 0,
        version: int = VERSION,
        collectives: bytes = b"",
        fills_ask: bool = False,
        copies_ask_from: int = 0,
        deaf: bool = False,
        late: bool = False,
        join: bytes | None = None,
    ) -> None:
        self.version = version  # the newest that it knows
        self.collectives, self.fills_ask, self.copies_ask_from = collectives, fills_ask, copies_ask_from  # of its pages
        self.join = join  # the answer to who asks to join MPS, empty: none; None: as a fikitd that knows of no MPS
        self.deaf = deaf  # after the hello: its node is busy
        self.path, self.at, self.answer = path, at, answer
        self.memory = Memory(at, limit_bytes, host_bytes)
        self.measure, self.closed, self.lease_s, self.spin_ns = measure, closed, lease_s, spin_ns
        self.sample_every = sample_every
        self.pages: list[Page] = []
        self.watchers: list[Page] = []
        self.pids: list[int] = []
        self.hellos: list[bytes] = []
        self.outside: list[tuple[int, int]] = []  # programs that the driver refused: CUDA's two errors
        self.kernels: dict[int, dict[str, Any]] = {}
        self.connections: list[socket.socket] = []
        self.welcomed: set[socket.socket] = set()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(16)
        self.stopping = os.eventfd(0)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        if not late:
            self.thread.start()

    def page(self, index: int = 0) -> Page:
        return wait_for(lambda: self.pages[index] if len(self.pages) > index else None, "client")

    def _serve(self) -> None:
        while True:
            heard = [c for c in self.connections if not self.deaf or c not in self.welcomed]
            ready, _, _ = select.select([self.listener, self.stopping, *heard], [], [])
            if self.stopping in ready:
                return
            for source in ready:
                if source is self.listener:
                    self.connections.append(self.listener.accept()[0])
                elif not self._receive(source):
                    self.connections.remove(source)
                    source.close()

    def _receive(self, client: socket.socket) -> bool:
        try:
            packet = client.recv(4096)
        except ConnectionError:
            return False
        if not packet:
            return False
        if (kind := struct.unpack_from("<I", packet)[0]) == HELLO:
            return self._hello(client, packet)
        if kind == OUTSIDE:
            self.outside.append(struct.unpack_from("<ii", packet, 8))
            return True
        assert kind == KERNEL
        self._describe(packet)
        return True

    def _hello(self, client: socket.socket, packet: bytes) -> bool:
        self.hellos.append(packet)
        if self.answer is not None:
            if self.answer:
                client.send(self.answer)
            return False
        oldest, purpose, newest = struct.unpack_from("<IHH", packet, 8)
        if purpose == MAY_JOIN and self.join is not None:
            if self.join:
                client.send(self.join)
            return True
        watches = purpose == WATCH
        version = min(self.version, newest or oldest)
        if version == 2:  # as a fikitd reads it that knows no other
            assert oldest == 2
            assert watches == (struct.unpack_from("<I", packet, 12)[0] == WATCH)
        page = Page(self.at, self.measure, int(self.lease_s * 1e9), self.spin_ns, self.sample_every, version)
        struct.pack_into(f"{len(self.collectives)}s", page.bytes, self.at["collective_names"], self.collectives)
        page.set_u32("fills_ask", self.fills_ask)
        struct.pack_into("<QQ", page.bytes, self.at["copies_ask_from"], *[self.copies_ask_from] * 2)
        if self.closed:
            page.close_gate(self.lease_s)
        pid = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        fds = array.array("i", [page.memfd, page.doorbell, self.memory.memfd])
        sizes = (self.at["welcome_bytes"], version, page.file_bytes, self.at["memory_bytes"])
        welcome = struct.pack("<IIIIII", WELCOME, *sizes, 0 if watches else self.memory.take())
        # Before the client hears of it: it may have launched all that it wants and be gone before this thread runs again.
        pages = (
            self.watchers if watches else self.pages
        )  # a watcher is neither a client nor a process that holds memory
        pages.append(page)
        if not watches:
            self.pids.append(pid)
        self.welcomed.add(client)
        try:
            client.sendmsg([welcome], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except BrokenPipeError:  # it did not wait for us
            pages.remove(page)
            if not watches:
                self.pids.remove(pid)
            return False
        return True

    def _describe(self, packet: bytes) -> None:
        _, _, slot, kind, module, *shape = struct.unpack_from("<IIIIQ7I", packet)
        name = packet[self.at["kernel_name"] :].split(b"\0", 1)[0].decode()
        self.kernels[slot] = {
            "name": name,
            "kind": kind,
            "module": module,
            "grid": tuple(shape[:3]),
            "block": tuple(shape[3:6]),
            "shared_bytes": shape[6],
        }

    def names(self) -> list[str]:
        """Of the kernels that programs have described, once all of these have ended: what they said last is read by then."""
        wait_for(lambda: not self.connections, "end of the programs")
        return [kernel["name"] for _, kernel in sorted(self.kernels.items())]

    def stop(self) -> None:
        """Go away as a killed daemon does: every socket closes at once."""
        os.eventfd_write(self.stopping, 1)
        self.thread.join()
        for each in [self.listener, *self.connections]:
            each.close()
        for fd in [
            self.stopping,
            self.memory.memfd,
            *(fd for page in [*self.pages, *self.watchers] for fd in (page.memfd, page.doorbell)),
        ]:
            os.close(fd)
        self.path.unlink(missing_ok=True)


def refusal(reason: str) -> bytes:
    """A REFUSED packet."""
    return struct.pack("<II256s", REFUSED, 264, reason.encode())


def place(entry: Entry) -> tuple[int, ...]:
    """(allocation, page in it, its pages), and how many pages are touched where that is known."""
    length = entry.slot // ALLOCATIONS
    return (entry.slot % ALLOCATIONS, entry.value & 0xFFFFFFFF, entry.value >> 32, *([length] if length else []))


def touches(page: Page) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Of each launch that was looked at: its number and its places."""
    ring = page.ring()
    said = [(entry.t_ns, entry.value) for entry in ring if entry.kind == TOUCHES]
    found = []
    for number, count in said:
        places = [place(entry) for entry in ring if entry.kind == TOUCH and entry.t_ns == number]
        assert len(places) == count
        found.append((number, places))
    return found
