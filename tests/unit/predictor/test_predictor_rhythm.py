"""Where a host waits: slack by position, segments, idle times."""

from __future__ import annotations

from fikitd._core import Rhythm
from hypothesis import given
from hypothesis import strategies as st

US, MS = 1_000, 1_000_000
KERNELS = (11, 12, 13)


def request(
    rhythm: Rhythm, begin: int, *, gap: int = 100 * US, length: int = 10 * US, alone: bool = True
) -> list[list[int]]:
    """Three kernels with pauses of the host between them; the host waits right after the last. Their slacks."""
    slacks = [rhythm.launched(begin + n * gap, kernel, length) for n, kernel in enumerate(KERNELS)]
    rhythm.waited(begin + 2 * gap + length, alone)
    return slacks


def test_nothing_is_known_of_what_was_never_seen() -> None:
    rhythm = Rhythm()
    assert request(rhythm, 0) == [[0] * 8] * 3
    assert Rhythm().waited(0, True)["slack_ns"] == [0] * 8


def test_slack_is_the_idle_time_until_the_next_wait() -> None:
    rhythm = Rhythm()
    request(rhythm, 1 * MS)
    assert request(rhythm, 2 * MS) == [[180 * US] * 8, [90 * US] * 8, [0] * 8]


def test_a_pause_says_what_the_next_segment_offers() -> None:
    rhythm = Rhythm()
    for n in range(5):
        request(rhythm, (n + 1) * 10 * MS)
    for n, kernel in enumerate(KERNELS):
        rhythm.launched(60 * MS + n * 100 * US, kernel, 10 * US)
    pause = rhythm.waited(60 * MS + 210 * US, True)
    assert pause["span_ns"] == 210 * US
    assert pause["tail_ns"] == 10 * US
    assert pause["slack_ns"] == [180 * US] * 8
    assert all(abs(ns - 9_790 * US) < 1_300 * US for ns in pause["idle_ns"])
    assert not pause["open"]


def test_of_a_segment_of_any_kind_the_least_slack_is_known() -> None:
    """Two kinds in turn, of which each says what the other one offers."""
    rhythm = Rhythm()
    assert rhythm.any_slack() == [0] * 8
    for n in range(8):
        request(rhythm, 10 * n * MS, gap=100 * US)
        rhythm.launched(10 * n * MS + 5 * MS, 21, 10 * US)
        rhythm.waited(10 * n * MS + 5 * MS + 60 * US, True)
    assert rhythm.any_slack() == [50 * US] * 8


def test_a_wait_takes_longer_than_the_work_and_its_own_beginning_explain() -> None:
    rhythm = Rhythm()
    for n in range(3):
        rhythm.launched(n * MS, KERNELS[0], 100 * US)
        # The work is over at 100 us, the host comes at 120 us.
        pause = rhythm.waited(n * MS + 150 * US, True, n * MS + 120 * US)
    assert pause["after_ns"] == 30 * US
    rhythm.launched(4 * MS, KERNELS[0], 100 * US)
    assert rhythm.waited(4 * MS + 900 * US, False, 4 * MS)["after_ns"] == 30 * US  # disturbed: teaches nothing


def test_work_that_is_reckoned_too_long_shows_in_when_waits_end() -> None:
    """A profile's times hold what timing costs: without this every wait could come so much later before that was noticed."""
    rhythm = Rhythm()
    for n in range(3):
        rhythm.launched(n * MS, KERNELS[0], 100 * US)
        pause = rhythm.waited(n * MS + 80 * US, True, n * MS + 10 * US)
    assert pause["after_ns"] == -20 * US
    later = Rhythm()
    later.expect(rhythm.learnt())
    later.launched(0, KERNELS[0], 100 * US)
    assert later.waited(80 * US, True)["after_ns"] == -20 * US


def test_a_disturbed_wait_is_told_when_it_would_have_ended_alone() -> None:
    rhythm = Rhythm()
    assert rhythm.waited(0, True)["end_ns"] is None  # it waited for nothing
    for n in range(3):
        rhythm.launched(n * MS, KERNELS[0], 100 * US)
        rhythm.waited(n * MS + 150 * US, True, n * MS + 120 * US)
    late = 5 * MS + 900 * US
    for began_ns, end_ns in [
        (5 * MS, 5 * MS + 130 * US),  # it waits 30 us longer than the work takes
        (5 * MS + 200 * US, 5 * MS + 230 * US),  # and than nothing, where the work is over already
        (None, 5 * MS + 150 * US),  # nobody knows when it came: the usual time after the launch
    ]:
        rhythm.launched(5 * MS, KERNELS[0], 100 * US)
        assert rhythm.waited(late, False, began_ns)["end_ns"] == end_ns
    for kernel in KERNELS:  # of a kind never seen
        rhythm.launched(6 * MS, kernel, 100 * US, 2 * US)
    assert rhythm.waited(7 * MS, False, 6 * MS)["end_ns"] == 6 * MS + 304 * US


def test_of_a_kind_of_segment_never_seen_it_is_not_known_when_waits_end() -> None:
    rhythm = Rhythm()
    rhythm.launched(0, KERNELS[0], 100 * US)
    assert rhythm.waited(150 * US, False, 0)["after_ns"] is None


def test_requests_that_sometimes_queue_come_from_outside() -> None:
    rhythm = Rhythm()
    now = 0
    for n in range(40):
        now += 20 * MS if n % 3 == 0 else 30 * US
        request(rhythm, now)
        now += 210 * US
    rhythm.launched(now, KERNELS[0], 10 * US)
    assert not rhythm.waited(now + 10 * US, True)["open"]  # this segment was never seen
    for n, kernel in enumerate(KERNELS):
        rhythm.launched(now + MS + n * 100 * US, kernel, 10 * US)
    assert rhythm.waited(now + MS + 210 * US, True)["open"]


def test_how_long_an_idle_time_between_requests_is_at_least_can_be_told() -> None:
    """A program that is played ten times as slowly has idle times that are ten times as long."""

    def is_open(long_idle_ns: int) -> bool:
        rhythm, now, pause = Rhythm(), 0, False
        rhythm.set_long_idle(long_idle_ns)
        for n in range(40):
            now += 5 * MS if n % 3 == 0 else 30 * US
            for at, kernel in enumerate(KERNELS):
                rhythm.launched(now + at * 100 * US, kernel, 10 * US)
            now += 210 * US
            pause = rhythm.waited(now, True)["open"]
        return pause

    assert is_open(1 * MS)
    assert not is_open(10 * MS)


def test_a_disturbed_segment_teaches_nothing_about_the_client_alone() -> None:
    rhythm = Rhythm()
    request(rhythm, 1 * MS)
    for n in range(20):
        request(rhythm, (n + 2) * MS, gap=300 * US, alone=False)
    assert request(rhythm, 30 * MS)[0] == [180 * US] * 8


def test_a_changed_program_is_learnt_within_eight_requests() -> None:
    rhythm = Rhythm()
    for n in range(20):
        request(rhythm, (n + 1) * MS)
    for n in range(8):
        request(rhythm, (n + 40) * MS, gap=300 * US)
    assert request(rhythm, 60 * MS)[0] == [580 * US] * 8


def test_an_unknown_kernel_makes_its_segment_teach_nothing() -> None:
    rhythm = Rhythm()
    request(rhythm, 1 * MS, length=-1)
    assert request(rhythm, 2 * MS)[0] == [0] * 8


def test_what_stands_in_line_costs_the_device_a_little_more() -> None:
    rhythm = Rhythm()
    for _ in range(2):
        first = rhythm.launched(0, 1, 10 * US, 2 * US)
        rhythm.launched(1 * US, 2, 10 * US, 2 * US)
        rhythm.waited(30 * US, True)
    assert first == [8 * US] * 8


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 10**18), st.integers(0, 10**15)), max_size=60))
def test_nothing_that_a_client_reports_breaks_it(steps: list[tuple[int, int, int]]) -> None:
    rhythm, twin, now = Rhythm(), Rhythm(), 0
    for kernel, length, pause in steps:
        now += pause
        if kernel == 0:
            said = rhythm.waited(now, True)
            assert said == twin.waited(now, True)
            assert said["slack_ns"] == sorted(said["slack_ns"])
        else:
            slack = rhythm.launched(now, kernel, length)
            assert slack == twin.launched(now, kernel, length)
            assert slack == sorted(slack)
            assert slack[0] >= 0
