"""The launch gate: open, closed, granted, expired, and what is written to the page."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

import pytest
from shim_daemon import DONE, DRAINED, EXPIRED, GRANTED, LAUNCH, LONGEST_LEASE_S, Daemon, wait_for
from shim_program import FOUR_THREADS, Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]


def test_open_gate_counts_every_launch_by_identity(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        """
context()
a, b = function("alpha"), function("beta")
for _ in range(10):
    check(launch(a)); check(launch(b, grid=2)); check(launch(b, grid=3))
check(cu.cuCtxSynchronize())
say(calls("cuLaunchKernel"))
""",
        fikitd,
    )
    out, err = run.finish()
    page = fikitd.page()
    assert out == "30\n"
    assert err == ""
    assert page.launches() == page.u64("launch_seq") == 30
    assert [page.u64("slot_launches", slot) for slot in (1, 2, 3)] == [10, 10, 10]
    assert [entry.kind for entry in page.ring()] == [LAUNCH] * 30 + [DRAINED]
    assert [entry.value for entry in page.of_kind(DRAINED)] == [30]
    assert page.u64("first_launch_ns") == page.ring()[0].t_ns
    assert page.u64("last_drained_ns") == page.of_kind(DRAINED)[0].t_ns
    wait_for(lambda: len(fikitd.kernels) == 3, "three descriptions")
    assert fikitd.names() == ["alpha", "beta", "beta"]
    assert fikitd.kernels[3]["grid"] == (3, 1, 1)
    assert fikitd.kernels[1]["module"] == fikitd.kernels[2]["module"] != 0


def test_launch_waits_at_a_closed_gate_until_it_opens(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program("context()\nf = function('k')\ncheck(launch(f))\nsay('launched', calls('cuLaunchKernel'))", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    assert page.u64("launch_seq") == 0
    page.open_gate()
    assert run.finish()[0] == "launched 1\n"
    assert page.u64("wait_count") == 1
    assert page.u64("wait_total_ns") > 0
    assert sum(page.u32("wait_histogram", bucket) for bucket in range(40)) == 1
    assert [entry.kind for entry in page.ring()] == [LAUNCH]
    assert page.u32("waiting") == 0


def test_grant_lets_exactly_one_launch_go(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program("context()\nf = function('k')\nfake.fake_hold(1)\nfor _ in range(3): check(launch(f))", fikitd)
    page = fikitd.page()
    for number in range(1, 4):
        wait_for(lambda n=number: page.u32("waiting") and page.u32("request_seq") == n, f"request {number}")
        assert page.u64("launch_seq") == number - 1
        assert page.u32("request_slot") == 1
        page.grant()
    run.finish()
    assert [(entry.kind, entry.value) for entry in page.of_kind(GRANTED)] == [(GRANTED, n) for n in (1, 2, 3)]
    assert page.of_kind(DONE) == []
    assert page.u64("marker_count") == 3


def test_waiting_thread_reports_the_completed_marker(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program("context()\nf = function('k')\nfor _ in range(2): check(launch(f))", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "first request")
    page.grant()
    wait_for(lambda: page.of_kind(DONE), "DONE while the second request waits")
    assert page.of_kind(DONE)[0].value == 1
    page.open_gate()
    run.finish()


def test_synchronisation_reports_the_completed_marker(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program("context()\ncheck(launch(function('k')))\ncheck(cu.cuCtxSynchronize())", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.grant()
    run.finish()
    assert [entry.value for entry in page.of_kind(DONE)] == [1]
    assert [entry.value for entry in page.of_kind(DRAINED)] == [1]


def test_refused_launch_gives_its_grant_back(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program("context()\nf = function('k')\nfake.fake_fail(b'cuLaunchKernel', 701)\nsay(launch(f))", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.grant()
    assert run.finish()[0] == "701\n"
    assert page.u64("launch_seq") == page.launches() == 0
    assert [(entry.kind, entry.value) for entry in page.ring()] == [(DONE, 1)]


def test_lease_opens_a_gate_that_nobody_renews(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=0.2)
    run = program("context()\nf = function('k')\nfor _ in range(5): check(launch(f))", fikitd)
    run.finish()
    page = fikitd.page()
    assert page.u64("expired_count") == 5
    assert [entry.kind for entry in page.ring()] == [EXPIRED] * 5
    assert page.u64("wait_count") <= 1


@pytest.mark.parametrize("lease_s", [2 * LONGEST_LEASE_S + 30, 9e9], ids=["longer than any", "for ever"])
def test_a_lease_that_no_fikitd_gives_is_none(lease_s: float, program: Start, daemon: StartDaemon) -> None:
    """A fikitd that has written nonsense may hang then, or be stopped: nobody would end that lease."""
    fikitd = daemon(closed=True, lease_s=lease_s)
    run = program("context()\nf = function('k')\nfor _ in range(3): check(launch(f))", fikitd)
    run.finish()
    assert fikitd.page().u64("expired_count") == 3


def test_one_that_waits_goes_on_when_its_lease_becomes_one_that_no_fikitd_gives(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True, lease_s=60.0)
    run = program(FOUR_THREADS, fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.close_gate(lease_s=9e9)
    run.finish()
    assert page.u64("launch_seq") == page.u64("expired_count") == 4


def test_renewed_lease_keeps_holding(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=3.0)  # in which the program must have come to its launch
    run = program("context()\ncheck(launch(function('k')))\nsay('launched')", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    first_until_ns = page.u64("gate_until_ns")
    page.close_gate(lease_s=10.0)
    wait_for(lambda: time.monotonic_ns() > first_until_ns + 50_000_000, "end of the first lease")
    assert page.u64("launch_seq") == 0
    page.open_gate()
    run.finish()
    assert page.u64("expired_count") == 0


def test_threads_queue_behind_one_request(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(FOUR_THREADS, fikitd)
    page = fikitd.page()
    for number in range(1, 5):
        wait_for(lambda n=number: page.u32("waiting") and page.u32("request_seq") == n, f"request {number}")
        page.grant()
        wait_for(lambda n=number: page.u64("launch_seq") == n, f"launch {number}")
    run.finish()
    assert page.u64("wait_count") == 4


def test_doorbell_rings_only_when_the_dispatcher_sleeps(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        "context()\nf = function('k')\nsay('ready')\npause()\ncheck(launch(f))\npause()\ncheck(launch(f))", fikitd
    )
    run.line()
    page = fikitd.page()
    page.set_u32("awake", 1)
    page.close_gate()
    run.go()
    wait_for(lambda: page.u32("waiting"), "first request")
    assert not select.select([page.doorbell], [], [], 0.05)[0]
    page.set_u32("awake", 0)
    page.grant()
    run.go()
    wait_for(lambda: page.u32("request_seq") == 2, "second request")
    assert select.select([page.doorbell], [], [], 5)[0]
    page.open_gate()
    run.finish()


def test_synchronisation_is_never_held(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(
        """
context()
buffer = ctypes.create_string_buffer(8)
e = ctypes.c_void_p(); check(cu.cuEventCreate(ctypes.byref(e), 0))
for result in (cu.cuCtxSynchronize(), cu.cuStreamSynchronize(None), cu.cuEventRecord(e, None), cu.cuEventQuery(e),
               cu.cuMemcpyDtoH_v2(buffer, ctypes.c_void_p(1), 8)):
    check(result)
""",
        fikitd,
    )
    run.finish()
    assert fikitd.page().u32("request_seq") == 0


def test_threads_on_streams_of_their_own_lose_no_launch(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        """
import threading
ctx = context()
f = function("k")
def work(on, grid):
    check(cu.cuCtxSetCurrent(ctx))
    for _ in range(2000): check(launch(f, on, grid))
threads = [threading.Thread(target=work, args=(stream(), n + 1)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
check(cu.cuCtxSynchronize())
""",
        fikitd,
    )
    run.finish()
    page = fikitd.page()
    assert sorted(page.u64("slot_launches", slot) for slot in range(1, 5)) == [2000] * 4
    assert page.u64("launch_seq") == 8000
    assert page.u64("ring_head") == 8001


def test_each_gpu_has_a_gate_of_its_own_for_all_threads(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        """
import threading
contexts = [context(0), context(1)]
f = function("k")
say()
pause()
def work(ctx):
    check(cu.cuCtxSetCurrent(ctx))
    for _ in range(50): check(launch(f))
threads = [threading.Thread(target=work, args=(ctx,)) for ctx in contexts * 2]
[t.start() for t in threads]; [t.join() for t in threads]
""",
        fikitd,
    )
    run.line()
    first, second = fikitd.page(0), fikitd.page(1)
    first.close_gate(lease_s=LONGEST_LEASE_S)
    run.go()
    wait_for(lambda: first.u32("waiting") and second.u64("launch_seq") == 100, "launches on the other GPU")
    assert first.u64("launch_seq") == 0
    first.open_gate()
    run.finish()
    assert first.u64("launch_seq") == second.u64("launch_seq") == 100
    assert second.u64("wait_count") == 0
