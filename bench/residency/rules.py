"""What moves when: a list of transfers (a plan of the product's, vDNN's rule, Capuchin's), and the oracle that knows all accesses."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Final

from bench.residency.machine import Machine
from bench.residency.placed import CHUNK, Program

NEVER: Final = 1 << 60


class NoRule:
    """Faults alone: the driver's own choice of who leaves."""

    def begins(self, machine: Machine, kernel: int) -> None: ...
    def ended(self, machine: Machine, kernel: int) -> None: ...
    def move(self, machine: Machine, at_ns: int) -> tuple[int, bool] | int | None:
        return None

    def announced(self, chunk: int) -> bool:
        return False

    def victim(self, machine: Machine) -> int | None:
        return None

    def wait_ns(self, machine: Machine) -> int:
        return 0


class Transfers(NoRule):
    """(kernel, delay, chunk, inward), each so long after the end of its kernel, in this order. waits (vDNN): what the next kernel only reads may leave
    while it runs, and the one behind that waits until it has left."""

    def __init__(self, transfers: Iterable[tuple[int, int, int, bool]], *, waits: bool = False) -> None:
        self._behind: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        for kernel, delay_ns, chunk, inward in transfers:
            self._behind[kernel].append((delay_ns, chunk, inward))
        self._queue: deque[tuple[int, int, bool]] = deque()
        self._waits, self._ended_ns = waits, 0

    def ended(self, machine: Machine, kernel: int) -> None:
        self._ended_ns = machine.now_ns
        self._queue += ((machine.now_ns + delay_ns, chunk, inward) for delay_ns, chunk, inward in self._behind[kernel])

    def move(self, machine: Machine, at_ns: int) -> tuple[int, bool] | int | None:
        full = machine.count >= machine.capacity
        for each in list(self._queue):
            from_ns, chunk, inward = each
            if inward == (chunk in machine.there) or (inward and chunk not in machine.content):
                self._queue.remove(each)  # there is nothing to move: a program that does not do what was learnt
            elif from_ns > at_ns:
                return from_ns
            elif not (full if inward else chunk in machine.pinned and not self._waits):
                self._queue.remove(each)
                return chunk, inward
        return None

    def announced(self, chunk: int) -> bool:
        """It is to come at once instead."""
        for each in self._queue:
            if each[2] and each[1] == chunk:
                self._queue.remove(each)
                return True
        return False

    def victim(self, machine: Machine) -> int | None:
        for each in self._queue:
            if not each[2] and each[1] in machine.there and each[1] not in machine.pinned:
                self._queue.remove(each)
                return each[1]
        return None

    def wait_ns(self, machine: Machine) -> int:
        if not self._waits:
            return 0
        waiting = sum(not inward and from_ns < self._ended_ns for from_ns, _, inward in self._queue)
        return waiting * machine.link.chunk_ns(False) + machine.leaving_ns()


class Oracle(NoRule):
    """Belady with transfer times: it knows every access. Whenever the link is free it brings in what is needed next, and for that, or for room that
    will be needed, sends away what is needed last, where that is later than what comes in (Cao et al., SIGMETRICS 1995: aggressive)."""

    def __init__(self, program: Program) -> None:
        self._count = len(program.uses)
        self._at: dict[int, list[int]] = defaultdict(list)
        for kernel, use in enumerate(program.uses):
            for chunk in use.touched:
                self._at[chunk].append(kernel)
        dead = {chunk for use in program.uses for chunk in use.freed}
        live: set[int] = set()
        self._fresh, self._freed = (
            [0] * self._count,
            [0] * self._count,
        )  # chunks that begin to have content, and whose content dies
        for _ in range(2):
            for kernel, use in enumerate(program.uses):
                self._fresh[kernel] = len(dead & set(use.touched) - live)
                live = (live | dead & set(use.touched)) - set(use.freed)
                self._freed[kernel] = len(use.freed)
        self._now = -1  # the kernel that runs or waits, counted through all iterations
        self._last: list[tuple[int, int]] = []  # heap of (-next use, chunk) of chunks that are there
        self._missing: list[tuple[int, int]] = []  # heap of (next use, chunk) of those that are not

    def begins(self, machine: Machine, kernel: int) -> None:
        self._now += 1
        self._keep(machine)

    def ended(self, machine: Machine, kernel: int) -> None:
        for chunk in machine.pinned:
            heapq.heappush(self._last, (-self._next_use(chunk), chunk))

    def _keep(self, machine: Machine) -> None:
        """The heap of those that are there stays short."""
        if len(self._last) > 20 * (machine.capacity + 100):
            self._last = [(-self._next_use(chunk), chunk) for chunk in machine.there]
            heapq.heapify(self._last)

    def _next_use(self, chunk: int) -> int:
        """Behind the kernel that runs."""
        turn, kernel = divmod(self._now, self._count)
        at = self._at[chunk]
        place = bisect_right(at, kernel)
        return turn * self._count + (at[place] if place < len(at) else self._count + at[0])

    def move(self, machine: Machine, at_ns: int) -> tuple[int, bool] | int | None:
        needed, chunk = self._first_missing(machine)
        slots = least = machine.capacity - machine.count
        if not machine.waiting:
            slots += self._freed[self._now % self._count]
        for kernel in range(self._now + 1, min(needed, self._now + self._count - 1) + 1):
            slots -= self._fresh[kernel % self._count]
            least = min(least, slots)
            if slots < 0:
                return self._send(machine, kernel)
            slots += self._freed[kernel % self._count]
        if chunk is None:
            return None
        if least >= 1:
            return chunk, True
        return self._send(machine, needed)

    def announced(self, chunk: int) -> bool:
        return True

    def victim(self, machine: Machine) -> int | None:
        found = self._send(machine, self._now)
        return None if found is None else found[0]

    def _first_missing(self, machine: Machine) -> tuple[int, int | None]:
        while self._missing:
            needed, chunk = self._missing[0]
            if chunk in machine.there or chunk not in machine.content:
                heapq.heappop(self._missing)
            elif needed <= self._now:  # its use has passed, by a fault
                heapq.heapreplace(self._missing, (self._next_use(chunk), chunk))
            else:
                return needed, chunk
        return NEVER, None

    def _send(self, machine: Machine, behind: int) -> tuple[int, bool] | None:
        """Away with what is needed last, if that is behind this kernel."""
        held = []
        found: tuple[int, bool] | None = None
        while self._last:
            use, chunk = heapq.heappop(self._last)
            if chunk not in machine.there or -use != self._next_use(chunk):
                continue
            if chunk in machine.pinned:
                held.append((use, chunk))
                continue
            if -use > behind:
                found = chunk, False
                heapq.heappush(self._missing, (-use, chunk))
            else:
                held.append((use, chunk))
            break
        for each in held:
            heapq.heappush(self._last, each)
        return found


def vdnn(program: Program) -> Transfers:
    """vDNN's rule for convolutions (arXiv 1602.08124): the input of each leaves while the convolution runs, whose successor waits for that, and comes back
    when the backward pass begins with the convolution behind it. No budget: what it leaves on the GPU is its peak."""
    kernels = program.kernels
    backward = [at for at, kernel in enumerate(kernels) if not kernel.forward and kernel.kind == "convolution"]
    moved = {kernel.reads[0].number for kernel in kernels if kernel.convolves}
    transfers = []
    for number in sorted(moved):
        at = [k for k, kernel in enumerate(kernels) if any(tensor.number == number for tensor in kernel.touched)]
        out = max(k for k in at if kernels[k].forward)
        back = next((k for k in at if not kernels[k].forward), None)
        if back is None:
            continue
        before = [k for k in backward if k < back]
        start = (before[-1] if before else back) - 1
        for chunk in program.tensors[number]:
            transfers += [(out - 1, 0, chunk, False), (max(start, out), 0, chunk, True)]
    return Transfers(sorted(transfers), waits=True)


def capuchin(program: Program, budget: int, chunk_ns: int) -> Transfers:
    """Capuchin's rule (ASPLOS 2020) without recomputation: of the tensors that are there at the peak and not used then, those leave first that have most
    time to spare between leaving and coming back; each comes back so early as its copy takes. budget: chunks."""
    begins = list(accumulate((use.duration_ns for use in program.uses), initial=0))
    touches: dict[int, list[int]] = defaultdict(list)
    for k, kernel in enumerate(program.kernels):
        for number in {tensor.number for tensor in kernel.touched if not tensor.parameter}:
            touches[number].append(k)
    live = [
        sum(len(program.tensors[n]) for n, at in touches.items() if at[0] <= k <= at[-1])
        for k in range(len(begins) - 1)
    ]
    peak = max(range(len(live)), key=live.__getitem__)
    fixed = {tensor.number for kernel in program.kernels for tensor in kernel.touched if tensor.parameter}
    excess = live[peak] + sum(len(program.tensors[n]) for n in fixed) - budget
    spare = []
    for number, at in touches.items():
        for a, b in pairwise(at):
            if a < peak < b:
                swap_ns = len(program.tensors[number]) * chunk_ns
                spare.append((begins[b] - begins[a + 1] - 2 * swap_ns, number, a, begins[b] - swap_ns))
    transfers = []
    for free_ns, number, a, in_ns in sorted(spare, reverse=True):
        if excess <= 0 or free_ns <= 0:
            break
        excess -= len(program.tensors[number])
        behind = bisect_right(begins, in_ns) - 2
        for chunk in program.tensors[number]:
            transfers += [(begins[a + 1], a, 0, chunk, False), (in_ns, behind, in_ns - begins[behind + 1], chunk, True)]
    return Transfers(each[1:] for each in sorted(transfers))


def fewest_bytes(program: Program, capacity: int) -> int:
    """Belady's MIN, demand by demand, of an iteration in its rhythm: out and in. No schedule brings in fewer chunks where all have content all the
    time (known_lifetimes: nearly so)."""
    count, uses = len(program.uses), program.uses
    at: dict[int, list[int]] = defaultdict(list)
    for k, use in enumerate(uses):
        for chunk in use.touched:
            at[chunk].append(k)
    there: set[int] = set()
    content: set[int] = set()
    moved = 0
    for _ in range(3):
        moved = 0
        for k, use in enumerate(uses):
            missing = [chunk for chunk in use.touched if chunk not in there]
            lacking = len(there) + len(missing) - capacity
            if lacking > 0:

                def wait(chunk: int, k: int = k) -> int:
                    place = bisect_right(at[chunk], k)
                    return at[chunk][place] if place < len(at[chunk]) else count + at[chunk][0]

                leaving = heapq.nlargest(lacking, there - set(use.touched), key=wait)
                there.difference_update(leaving)
                moved += len(leaving)
            moved += sum(chunk in content for chunk in missing)
            there.update(use.touched)
            content.update(use.touched)
            there.difference_update(use.freed)
            content.difference_update(use.freed)
    return moved * CHUNK
