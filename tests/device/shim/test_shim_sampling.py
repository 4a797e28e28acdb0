"""Samples of unmeasured runs: how many, which, and that they cost what does not matter."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from shim_daemon import GAP, LAUNCH, RING_ENTRIES, SAMPLE, Daemon, Entry, Page, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

# The pauses earn the time that samples take, however slow the machine is.
CYCLE = (
    "import time\ncontext()\nf = function('k')\n"
    "for i in range({launches}):\n check(launch(f, grid=1 + i % 3))\n"
    " if i % 10 == 9: check(cu.cuCtxSynchronize()); time.sleep(0.002)\n"
)


def before(entry: Entry) -> tuple[int, ...]:
    """Slots of the three launches before a sample, oldest first."""
    return tuple(entry.t_ns >> 16 * back & 0xFFFF for back in (2, 1, 0))


def run(program: Start, daemon: StartDaemon, code: str, **options: object) -> Page:
    fikitd = daemon(**options)
    program(code, fikitd).finish()
    return fikitd.page()


def test_few_launches_are_timed_and_their_neighbours(program: Start, daemon: StartDaemon) -> None:
    page = run(program, daemon, CYCLE.format(launches=2500), sample_every=8)
    assert page.u64("ring_head") < RING_ENTRIES
    samples, gaps = page.of_kind(SAMPLE), page.of_kind(GAP)
    assert 2 <= len(samples) <= 2500 / 8
    # Each timed launch has a neighbour, and the gap between both; the first launches of the three kernels are timed in a row.
    doubtful = sum(entry.t_ns >> 49 & 1 for entry in samples)
    assert -1 <= len(samples) - 2 * len(gaps) <= 1 + 2 * doubtful
    assert {entry.value for entry in samples if not entry.t_ns >> 49 & 1} == {500_000}
    # A launch whose call took unusually long, and the first one of a kernel, blurs the gap before it by as much as the call, or no gap is told.
    blurred = [entry.value for entry in gaps if entry.value != 500_000]
    assert len(blurred) <= doubtful < len(gaps)
    assert all(0 <= value - 500_000 < 50_000 for value in blurred)


def test_a_kernels_first_launch_is_timed_for_it_may_be_the_only_one(program: Start, daemon: StartDaemon) -> None:
    code = (
        "context()\nf = function('k')\nfor i in range(40):\n check(launch(f, grid=1 + i))\n check(cu.cuCtxSynchronize())\n"
        "for i in range(400): check(launch(f, grid=1))"
    )
    page = run(program, daemon, code, sample_every=64)
    samples = page.of_kind(SAMPLE)
    assert {entry.slot for entry in samples} == set(range(1, 41))
    assert len(samples) < 40 + 400 / 8, "and no more than before of those that follow"


def test_a_sample_says_which_launches_came_before_it(program: Start, daemon: StartDaemon) -> None:
    page = run(program, daemon, CYCLE.format(launches=2500), sample_every=4)
    after = {1: (1, 2, 3), 2: (2, 3, 1), 3: (3, 1, 2)}
    early = 3  # the first ones have fewer before them
    samples = page.of_kind(SAMPLE)[early:]
    assert samples
    assert [before(entry) for entry in samples] == [after[entry.slot] for entry in samples]
    assert all(before(entry) == after[entry.slot] for entry in page.of_kind(GAP)[early:])


def test_launches_at_the_end_of_a_burst_are_sampled_as_those_at_its_begin(program: Start, daemon: StartDaemon) -> None:
    """What a sample costs is earned while the host waits, between two bursts."""
    code = (
        "import time\ncontext()\nf = function('k')\n"
        "for _ in range(38):\n"
        " for i in range(90): check(launch(f, grid=1 + i // 9))\n"
        " check(cu.cuCtxSynchronize()); time.sleep(0.05)\n"
    )
    page = run(program, daemon, code, sample_every=2)
    slots = [entry.slot for entry in page.of_kind(SAMPLE)]
    assert page.u64("ring_head") < RING_ENTRIES
    assert len(slots) >= 20, "of each kernel the first one, and pairs"
    late = sum(slot > 5 for slot in slots[10:])
    assert late >= len(slots[10:]) / 6, slots


def test_no_launch_is_timed_unless_asked(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    out, _ = program(CYCLE.format(launches=100) + "say(calls('cuEventCreate'))", fikitd).finish()
    assert out == "0\n"
    assert fikitd.page().of_kind(SAMPLE) == []


def test_sampling_makes_no_event_on_the_launch_path(program: Start, daemon: StartDaemon) -> None:
    code = "context()\nf = function('k')\ncheck(launch(f))\nmade = calls('cuEventCreate')\n"
    code += "fake.fake_hold(1)\nfor _ in range(3000): check(launch(f))\nsay(made, calls('cuEventCreate') - made)"
    out, _ = program(code, daemon(sample_every=1)).finish()
    assert re.fullmatch(r"32 0\n", out)


def test_sampling_takes_a_small_share_of_the_time(program: Start, daemon: StartDaemon) -> None:
    """A driver whose event calls take 1 ms: a sample is paid for before the next one."""
    code = (
        "context()\nf = function('k')\nimport time\n"
        "fake.fake_delay(b'cuEventRecord', 1000)\nstart = time.monotonic()\n"
        "for _ in range(20000): check(launch(f))\n"
        "say(calls('cuEventRecord'), time.monotonic() - start)"
    )
    out, _ = program(code, daemon(sample_every=2)).finish()
    records, seconds = out.split()
    assert 4 <= int(records) <= 12 + 4 * float(seconds) / 0.4


def test_nothing_is_timed_while_a_stream_captures(program: Start, daemon: StartDaemon) -> None:
    code = (
        "context()\nf = function('k')\nhere = stream()\n"
        "check(cu.cuStreamBeginCapture_v2(here, 0))\nfor _ in range(500): check(launch(f, here))\n"
        "say(calls('cuEventRecord'), calls('cuEventQuery'), calls('cuEventElapsedTime'))"
    )
    out, _ = program(code, daemon(sample_every=1)).finish()
    assert out == "0 0 0\n"


def test_a_launch_that_waited_at_the_gate_has_no_gap_before_it(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, sample_every=1)
    started = program(
        "context()\nf = function('k')\nfor _ in range(40): check(launch(f))\ncu.cuCtxSynchronize()", fikitd
    )
    page = fikitd.page()
    for number in range(1, 41):
        wait_for(lambda n=number: page.u32("waiting") and page.u32("request_seq") == n, f"request {number}")
        page.grant()
    started.finish()
    assert page.of_kind(SAMPLE)
    assert page.of_kind(GAP) == []


def test_sampling_goes_on_in_the_context_after_the_first(program: Start, daemon: StartDaemon) -> None:
    code = (
        "one = context()\nf = function('k')\nfor _ in range(50): check(launch(f))\n"
        "check(cu.cuCtxDestroy_v2(one))\ncontext()\ng = function('other')\n"
        "for _ in range(1500): check(launch(g)); check(cu.cuCtxSynchronize())"
    )
    page = run(program, daemon, code, sample_every=1)
    assert [entry for entry in page.of_kind(SAMPLE) if entry.slot == 2]


@pytest.mark.parametrize("call", ["cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuEventQuery"])
def test_a_driver_call_that_fails_costs_samples_and_nothing_else(
    program: Start, daemon: StartDaemon, call: str
) -> None:
    code = f"fake.fake_fail(b'{call}', 2)\n" + CYCLE.format(launches=500)
    page = run(program, daemon, code, sample_every=2)
    assert page.launches() == len(page.of_kind(LAUNCH)) == 500
    assert page.of_kind(SAMPLE) == []
