"""Whether a gap was a pause of the program or a host without a processor core, by a count that fikitd reads when it learns of something."""

from __future__ import annotations

from collections.abc import Sequence

from fikitd._core import HostCores

MS = 1_000_000


class Host:
    """A host whose count of the time without a core is known at each moment, and how often it was read."""

    def __init__(self, *without_core: tuple[int, int]) -> None:
        self.without_core, self.cores, self.reads = without_core, HostCores(), 0

    def _count(self, now_ms: int) -> int:
        self.reads += 1
        return sum(max(min(now_ms, until) - since, 0) * MS for since, until in self.without_core)

    def all_done(self, t_ms: int, now_ms: int) -> None:
        self.cores.all_done(t_ms * MS, now_ms * MS, lambda: self._count(now_ms))

    def launched(self, t_ms: int, now_ms: int) -> int:
        """For how many ms of the gap before it the host had no core."""
        return self.cores.launched(t_ms * MS, now_ms * MS, lambda: self._count(now_ms)) // MS

    def gaps(self, gaps: Sequence[tuple[int, int]], now_ms: int) -> list[int]:
        """Of gaps that fikitd learns of together."""
        found = []
        for since, until in gaps:
            self.all_done(since, now_ms)
            found.append(self.launched(until, now_ms))
        return found


def test_a_gap_without_a_core_is_told_from_a_pause() -> None:
    for without_core, found in (((102, 700), 598), ((102, 102), 0), ((0, 100), 0)):
        host = Host(without_core)
        host.all_done(100, 101)
        assert host.launched(710, 711) == found


def test_a_gap_that_fikitd_learns_of_at_its_end_counts_from_the_reading_before() -> None:
    host = Host((120, 700))
    host.all_done(90, 91)
    assert host.launched(92, 720) == 0, "no gap"
    host.all_done(110, 720)
    assert host.launched(710, 720) == 580 * 600 // 609, "of 29 ms of other time 9 are more than need not be told apart"


def test_a_gap_that_fikitd_learns_of_in_its_midst_counts_from_the_reading_before() -> None:
    host = Host((120, 700))
    host.all_done(90, 91)
    host.launched(92, 400)
    host.all_done(110, 400)
    assert host.launched(710, 720) == 580 * 600 // 609


def test_what_is_read_soon_after_a_gap_began_stands_for_its_beginning() -> None:
    host = Host((0, 90), (120, 700))
    host.all_done(-100, -100)
    host.launched(-99, 111)
    host.all_done(110, 111)
    assert host.launched(710, 720) == 580, "and not the wait before it"


def test_no_wait_counts_in_two_gaps() -> None:
    host = Host((120, 700))
    host.all_done(90, 91)
    assert host.launched(92, 900) == 0
    found = host.gaps([(100, 200), (210, 710), (720, 800)], 900)
    assert sum(found) <= 580
    assert found == [73, 372, 63], "shares by length: it is not known which of them had the wait"


def test_what_fikitd_hears_late_of_does_not_turn_a_pause_into_lateness_nor_lateness_into_a_pause() -> None:
    """The readings are 1.2 s apart, of which the gap is a half."""
    for without_core, at_least, at_most in (((720, 1220), 0, 300), ((102, 700), 290, 598)):
        host = Host(without_core)
        host.all_done(100, 101)
        assert at_least <= host.launched(700, 1300) <= at_most


def test_waits_of_gaps_that_were_told_are_not_those_of_later_ones() -> None:
    host = Host((120, 700))
    host.all_done(100, 101)
    assert host.launched(710, 720) == 580
    host.all_done(721, 722)
    assert host.launched(900, 901) == 0


def test_the_first_gap_counts_from_the_first_reading() -> None:
    host = Host((120, 700))
    host.all_done(110, 400)
    assert host.launched(710, 720) == 300


def test_nothing_is_read_for_short_gaps_but_once_in_20_ms() -> None:
    host = Host()
    for t_ms in range(0, 1000, 2):
        host.all_done(t_ms, t_ms)
        host.launched(t_ms + 1, t_ms + 1)
    assert host.reads == 50
    host.gaps([(t_ms, t_ms + 1) for t_ms in range(1000, 2000, 2)], 2000)
    assert host.reads == 51


def test_of_a_host_whose_count_cannot_be_read_nothing_is_said() -> None:
    cores = HostCores()
    cores.all_done(0, 0, lambda: -1)
    assert cores.launched(700 * MS, 700 * MS, lambda: 600 * MS) == 0
    cores.all_done(800 * MS, 800 * MS, lambda: 600 * MS)
    assert cores.launched(1500 * MS, 1500 * MS, lambda: -1) == 0, "it has ended"
