"""A client of the dispatcher in Python: maps the page and does what the shim does, without a GPU or a process of its own."""

from __future__ import annotations

import ctypes as c
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fikitd._core import Dispatcher, bucket_of, make_page

MS = 1_000_000
LEASE = 100 * MS
LONG_LEASE = 5000 * MS  # where the test asks what happens before it is over, on a machine that may be busy
RING_ENTRIES = 4096
SLOTS = 4096
SINCE_PLANS, VERSION = 7, 8
OPEN, CLOSED = 0, 1
LAUNCH, GRANTED, DRAINED, DONE, SAMPLE, GAP, EXPIRED, MARK, MARK_GRANT, COPY, TOUCHES, TOUCH, FREED = range(1, 14)
IN, OUT = 1, 2  # enum fikit_copy
MARKS = 64


class Entry(c.Structure):
    _fields_ = [
        ("stamp", c.c_uint64), ("t_ns", c.c_int64), ("slot", c.c_uint32), ("kind", c.c_uint32), ("value", c.c_uint64),
    ]  # fmt: skip


class Moves(c.Structure):
    """struct fikit_moves; compared too."""

    _fields_ = [
        ("goal_bytes", c.c_uint64), ("goal", c.c_uint32), ("pad0", c.c_uint8 * 52),
        ("movable_bytes", c.c_uint64), ("resident_bytes", c.c_uint64), ("in_bytes", c.c_uint64), ("out_bytes", c.c_uint64),
        ("missed_bytes", c.c_uint64), ("moving_ns", c.c_uint64), ("reached", c.c_uint32), ("turns", c.c_uint32),
        ("failures", c.c_uint32), ("reserved", c.c_uint32),
    ]  # fmt: skip


class Page(c.Structure):
    """struct fikit_page; test_core_page.py compares it with the header."""

    _fields_ = [
        ("magic", c.c_uint32), ("version", c.c_uint32), ("page_bytes", c.c_uint32), ("measure", c.c_uint32),
        ("lease_ns", c.c_int64), ("spin_ns", c.c_int64), ("sample_every", c.c_uint32), ("pad0", c.c_uint8 * 28),
        ("gate", c.c_uint32), ("wake", c.c_uint32), ("grant_seq", c.c_uint32), ("awake", c.c_uint32),
        ("gate_until_ns", c.c_int64), ("ring_tail", c.c_uint64), ("marker_interval", c.c_uint32), ("fills_ask", c.c_uint32),
        ("run_until", c.c_uint64), ("copies_ask_from", c.c_uint64 * 2),
        ("ring_head", c.c_uint64), ("launch_seq", c.c_uint64), ("pad3", c.c_uint8 * 48),
        ("request_seq", c.c_uint32), ("waiting", c.c_uint32), ("request_slot", c.c_uint32), ("request_copy", c.c_uint32),
        ("request_ns", c.c_int64), ("wait_count", c.c_uint64), ("wait_total_ns", c.c_uint64),
        ("expired_count", c.c_uint64), ("marker_count", c.c_uint64), ("request_bytes", c.c_uint64),
        ("wait_histogram", c.c_uint32 * 40), ("first_launch_ns", c.c_int64), ("last_drained_ns", c.c_int64),
        ("pad5", c.c_uint8 * 80),
        ("slot_launches", c.c_uint64 * SLOTS), ("ring", Entry * RING_ENTRIES),
        ("known_slots", c.c_uint32 * (SLOTS // 32)), ("gap_slots", c.c_uint32 * (SLOTS // 32)),
        ("collective_names", c.c_char * 2048), ("moves", Moves), ("most_movable_bytes", c.c_uint64),
        ("most_movable_ns", c.c_int64), ("moves_per_s", c.c_uint64 * 2), ("pad6", c.c_uint8 * 352),
        ("marks", c.c_uint32 * MARKS), ("pad7", c.c_uint8 * 3840),
    ]  # fmt: skip


class PlanMove(c.Structure):
    """struct fikit_plan_move; compared too."""

    _fields_ = [
        ("after", c.c_uint32), ("before", c.c_uint32), ("chunk", c.c_uint32), ("allocation", c.c_uint16), ("chunks", c.c_uint8),
        ("copy", c.c_uint8),
    ]  # fmt: skip


class Plan(c.Structure):
    """struct fikit_plan, behind the page; compared too."""

    _fields_ = [
        ("number", c.c_uint32), ("launches", c.c_uint32), ("first_launch", c.c_uint64), ("until_ns", c.c_int64),
        ("count", c.c_uint32), ("first_uses", c.c_uint32), ("taken", c.c_uint32), ("refused", c.c_uint32),
        ("carried_out", c.c_uint64), ("skipped", c.c_uint64), ("bytes_per_s", c.c_uint64), ("moves", PlanMove * 8192),
    ]  # fmt: skip


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def eventually(condition: Callable[[], Any], seconds: float = 5.0) -> bool:
    """Whether the condition came true in time; asks every 50 us, because the dispatcher is another thread."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.00005)
    return bool(condition())


class FakeClient:
    def __init__(
        self,
        dispatcher: Dispatcher,
        number: int,
        priority: int,
        measure: bool = False,
        version: int = VERSION,
        **more: Any,
    ) -> None:
        self.dispatcher, self.number = dispatcher, number
        self.memfd = memfd = make_page(measure, LEASE, 20_000, version=version)
        self.doorbell = os.eventfd(0)
        self.memory = mmap.mmap(memfd, os.fstat(memfd).st_size)
        self.page = Page.from_buffer(self.memory)
        self.plan = Plan.from_buffer(self.memory, c.sizeof(Page)) if version >= SINCE_PLANS else None
        dispatcher.add_client(number, memfd, self.doorbell, priority, measure, **more)

    def __del__(self) -> None:
        os.close(self.memfd)

    def go_on_with(self, dispatcher: Dispatcher, priority: int) -> None:
        """The dispatcher died; another one has the page and the doorbell now."""
        dispatcher.add_client(self.number, self.memfd, self.doorbell, priority, False, resume=True)
        self.dispatcher = dispatcher

    def describe(self, slot: int, name: str, kind: int = 0) -> None:
        self.dispatcher.describe(self.number, slot, name, 7, (1, 1, 1), (64, 1, 1), 0, kind)

    def put(self, kind: int, slot: int = 0, value: int = 0, t_ns: int | None = None) -> None:
        """One ring entry, claimed when it is whole: were this thread held up in between for 20 ms, it would be lost."""
        head = int(self.page.ring_head)
        self.page.ring[head % RING_ENTRIES].stamp = 0
        self.finish(head, kind, slot, value, t_ns)
        self.page.ring_head = head + 1

    def claim(self) -> int:
        """An entry of the ring, as a thread that loses its core right then leaves it; its number, for finish()."""
        head = int(self.page.ring_head)
        self.page.ring[head % RING_ENTRIES].stamp = 0
        self.page.ring_head = head + 1
        return head

    def finish(self, number: int, kind: int, slot: int = 0, value: int = 0, t_ns: int | None = None) -> None:
        entry = self.page.ring[number % RING_ENTRIES]
        entry.t_ns = now() if t_ns is None else t_ns
        entry.slot, entry.kind, entry.value = slot, kind, value
        entry.stamp = number + 1

    def launch(self, slot: int = 0, kind: int = LAUNCH, value: int = 0, t_ns: int | None = None) -> None:
        self.put(kind, slot, value, t_ns)
        self.page.first_launch_ns = self.page.first_launch_ns or now()
        self.page.slot_launches[slot] += 1
        self.page.launch_seq += 1

    def sample(self, slot: int, ns: int, before: tuple[int, ...] = (), kind: int = SAMPLE, how: int = 0) -> None:
        """A measured time of `slot`, launched after the slots `before` (oldest first). how: FIKIT_TIMED_*."""
        self.put(kind, slot, ns, how | sum(b << 16 * back for back, b in enumerate(reversed(before))))

    def mark(self, number: int, value: int, kind: int = MARK) -> None:
        """Announce mark `number`; the device has yet to reach it."""
        self.put(kind, number, value)

    def reach(self, number: int) -> None:
        """The device writes the mark."""
        self.page.marks[number % MARKS] = number

    def knows(self, slot: int) -> bool:
        return bool(self.page.known_slots[slot // 32] >> slot % 32 & 1)

    def expects_gap(self, slot: int) -> bool:
        return bool(self.page.gap_slots[slot // 32] >> slot % 32 & 1)

    def drained(self) -> None:
        self.page.last_drained_ns = now()
        self.put(DRAINED, value=self.page.launch_seq)

    def ask(self, slot: int = 0, copy: int = 0, size: int = 0) -> int:
        """Post a request as at a closed gate; returns its sequence number. copy: IN or OUT, of `size` bytes."""
        page = self.page
        page.request_slot, page.request_ns = slot, now()
        page.request_copy, page.request_bytes = copy, size
        page.request_seq += 1
        page.waiting = 1
        if not page.awake:
            self.ring()
        return int(page.request_seq)

    def ring(self) -> None:
        os.eventfd_write(self.doorbell, 1)

    def granted(self, request: int) -> bool:
        return bool(self.page.grant_seq == request)

    def take(self, request: int, slot: int = 0) -> None:
        """Launch under a grant."""
        self.page.waiting = 0
        self.launch(slot, GRANTED, request)

    def passes_without_asking(self) -> bool:
        """Whether the next launch is one of a run that was granted."""
        return bool(self.page.launch_seq < self.page.run_until)

    def pass_gate(self, slot: int = 0) -> None:
        """Ask, wait for the grant, launch, and report completion."""
        request = self.ask(slot)
        assert eventually(lambda: self.granted(request))
        self.take(request, slot)
        self.put(DONE, slot, request)

    @property
    def read(self) -> bool:
        """The dispatcher has read all reports."""
        return bool(self.page.ring_tail == self.page.ring_head)

    @property
    def closed(self) -> bool:
        return bool(self.page.gate == CLOSED)


def profile_entry(name: str, duration_ns: int, gap_ns: int, count: int = 10) -> dict[str, Any]:
    """What a profile says of a kernel that `FakeClient.describe` describes."""

    def statistics(ns: int) -> dict[str, Any]:
        return {"count": count, "mean_ns": float(ns), "m2": 0.0, "histogram": {str(bucket_of(ns)): count}}

    return {
        "name": name, "module": f"{7:016x}", "grid": [1, 1, 1], "block": [64, 1, 1], "shared_bytes": 0, "kind": 0,
        "context": [], "duration": statistics(duration_ns), "gap": statistics(gap_ns),
    }  # fmt: skip


@contextmanager
def dispatcher(
    policy: str, lease_ns: int = LEASE, spin_ns: int = 20_000, run_ahead_ns: int = 500_000, **terms: Any
) -> Iterator[Dispatcher]:
    running = Dispatcher(policy, lease_ns, 20_000, run_ahead_ns, 2_000_000, spin_ns, **terms)
    try:
        yield running
    finally:
        running.stop()
