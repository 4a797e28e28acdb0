"""A high client whose host always takes the same time between its launches, and a low one, with a real dispatcher."""

from __future__ import annotations

import time

import core_fake_client as fake
from core_fake_client import MS, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher

STEP, FILLER = 1, 2
SEGMENT_NS = 100 * MS  # of the high client's host, from its launch to the end of its wait
LESSONS = 8


def meet(running: Dispatcher, **protection: float) -> tuple[FakeClient, FakeClient]:
    """A high client whose steps take 0.1 ms, and a low one whose kernels take 20 ms."""
    high, low = FakeClient(running, 1, 1, **protection), FakeClient(running, 2, 8)
    for client in (high, low):
        client.describe(STEP, "step")
        client.describe(FILLER, "filler")
    running.set_profile(1, [profile_entry("step", MS // 10, 0)])
    running.set_profile(2, [profile_entry("step", MS // 10, 0), profile_entry("filler", 20 * MS, 0)])
    return high, low


def notice(running: Dispatcher, high: FakeClient) -> None:
    """Until the dispatcher has read all that the client reported."""
    running.stats(high.number)  # has the same lock: it is not in the middle of a round
    high.ring()
    assert eventually(lambda: high.read)


def live_through_segments(
    running: Dispatcher, high: FakeClient, among: FakeClient | None = None, lose: bool = False, waited_ns: int = 0
) -> None:
    """Segments of the high client in the last second, one after the other; a kernel of another one in each."""
    time.sleep((LESSONS + 1) * SEGMENT_NS / 1e9)
    began = now() - LESSONS * SEGMENT_NS
    for number in range(LESSONS):
        if among is not None:
            among.launch(STEP, fake.EXPIRED)
            notice(running, among)
        high.launch(STEP, t_ns=began + number * SEGMENT_NS + 1)
        if lose:
            high.page.ring_head += 1  # claimed, and never finished
            high.page.launch_seq += 1
        high.put(fake.DRAINED, waited_ns, high.page.launch_seq, began + (number + 1) * SEGMENT_NS)
        notice(running, high)
