"""The windows of a cell on a GPU (bench/gpu/sharing/windows.py): which requests count, on requests whose truth is known; and the worker that keeps the windows."""

from __future__ import annotations

import pytest

from bench.gpu.sharing import windows, worker
from bench.gpu.sharing.windows import Schedule

MS = 1_000_000
UNIT = 200 * MS
PLAN = Schedule(UNIT, 3)
Requests = list[list[int]]


def closed(begin: int, end: int, each: int) -> Requests:
    """One after another from begin on; the last one begins before the end."""
    return [[at, at, at + each] for at in range(begin, end, each)]


def high(length: int, shared: int) -> Requests:
    """Requests of this length alone, and of that one in shared spans."""
    found: Requests = []
    at, end = PLAN.high
    while at < end:
        beside = any(begin <= at < over for begin, over in PLAN.low[1:])
        took = shared if beside else length
        found.append([at, at, at + took])
        at += took
    return found


def low(length: int = 10 * MS, shared: int = 20 * MS) -> list[Requests]:
    return [closed(*PLAN.low[0], length), *(closed(*span, shared) for span in PLAN.low[1:])]


def test_a_cell_of_three_seconds_and_a_half_has_three_cycles() -> None:
    plan = Schedule.of(3.65)
    assert (plan.cycles, plan.unit) == (3, UNIT)
    assert plan.high == (450 * MS, 3650 * MS)
    assert plan.low == [(0, 400 * MS), (650 * MS, 1450 * MS), (1650 * MS, 2450 * MS), (2650 * MS, 3450 * MS)]
    assert Schedule.of(0.45).high[1] == 450 * MS


def test_a_cell_is_the_ratio_of_shared_to_alone_windows() -> None:
    found = windows.cell(PLAN, 0, high(10 * MS, 12 * MS), low(), (4 * MS, 10 * MS))
    assert found["jct_ratio"] == pytest.approx(1.2, abs=0.01)
    assert found["low_alone"]["per_s"] == pytest.approx(100)
    assert found["low_speed"] == pytest.approx(0.5, rel=0.02)
    assert found["low_jct_ratio"] == pytest.approx(2, rel=0.02)
    assert found["harvest"] == pytest.approx(0.5 / (1 - 4 / 12), rel=0.03)
    assert 1 < found["whole_ratio"] < found["jct_ratio"]
    kinds = [window["kind"] for window in found["windows"]]
    assert kinds == ["low alone", "alone", "shared", "alone", "shared", "alone", "shared", "alone"]


def test_what_the_low_program_still_has_on_the_gpu_at_a_border_is_shared() -> None:
    requests = high(10 * MS, 10 * MS)
    late = low()
    border = PLAN.low[1][1]
    late[1][-1][2] = border + 150 * MS  # its last request drags on through three quarters of the alone window
    for request in requests:
        if border <= request[0] < border + 150 * MS:
            request[2] += 90 * MS
    found = windows.cell(PLAN, 0, requests, late, (None, None))
    assert found["high_alone"]["mean_ns"] == 10 * MS
    assert found["high"]["mean_ns"] > 11 * MS


def test_a_request_that_queues_behind_shared_ones_does_not_count_as_alone() -> None:
    over = PLAN.low[1][1]
    requests = [[at, at, at + 2 * MS] for at in range(PLAN.high[0], over - 40 * MS, 20 * MS)]
    done = over - 20 * MS
    for arrival in range(over - 20 * MS, PLAN.high[1], 5 * MS):  # a backlog that lasts until 133 ms after the border
        begin = max(arrival, done)
        done = begin + (40 * MS if arrival < over else 2 * MS)
        requests.append([arrival, begin, done])
    found = windows.cell(PLAN, 0, requests, low(), (None, None))
    assert found["high_alone"]["mean_ns"] == 2 * MS
    assert found["high_alone"]["p99_ns"] == 2 * MS


def test_a_request_at_the_end_of_an_alone_window_counts_nowhere() -> None:
    requests = high(10 * MS, 10 * MS)
    begin = PLAN.low[1][0]
    straddles = max(r for r in requests if r[0] < begin)
    straddles[2] += 500 * MS
    found = windows.cell(PLAN, 0, requests, low(), (None, None))
    assert found["jct_ratio"] == 1


def test_a_request_of_the_low_program_that_outlives_the_high_one_counts_by_what_it_did_beside_it() -> None:
    end = PLAN.high[1]
    starved = [low()[0], [[PLAN.low[1][0], PLAN.low[1][0], end + 8 * MS]]]  # 10 ms alone, of which 8 came afterwards
    found = windows.cell(PLAN, 0, high(10 * MS, 10 * MS), starved, (None, None))
    seconds = (end - PLAN.low[1][0]) / 1e9
    assert found["low_per_s"] == pytest.approx(0.2 / seconds, rel=0.01)


@pytest.mark.parametrize(
    ("requests", "bursts", "when"),
    [
        ([[10**10, 10**10, 10**10 + 1]], low(), "paused"),
        (high(10 * MS, 10 * MS), low()[:1], "the low program ran"),
        (high(10 * MS, 10 * MS), [[], *low()[1:]], "had not begun"),
    ],
)
def test_a_kind_of_window_without_requests_is_no_figure(requests: Requests, bursts: list[Requests], when: str) -> None:
    with pytest.raises(ValueError, match=when):
        windows.cell(PLAN, 0, requests, bursts, (None, None))


def test_there_is_no_harvest_where_the_high_program_leaves_nothing_or_nobody_knows() -> None:
    for device in ((12 * MS, 10 * MS), (None, 10 * MS), (4 * MS, None)):
        found = windows.cell(PLAN, 0, high(10 * MS, 12 * MS), low(), device)
        assert found["harvest"] is None


def test_arrivals_of_an_alone_window_come_again_in_the_shared_one() -> None:
    due = PLAN.arrivals("decode", 5 * MS)
    assert due == sorted(due)
    assert len(due) == pytest.approx(PLAN.high[1] / (5 * MS) * 3.2 / 3.65, rel=0.15)
    alone, shared = ([at % UNIT for at in due if at // UNIT == unit] for unit in (0, 3))
    assert alone == shared != [at % UNIT for at in due if at // UNIT == 5]
    found = windows.cell(PLAN, 0, high(10 * MS, 10 * MS), low(), (None, None), due=[*range(1000)])
    assert found["unfinished"] == 1000 - len(high(10 * MS, 10 * MS))


class Clock:
    """time, as far as the worker looks at it."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_ns(self) -> int:
        self.now += 1000
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


def test_a_worker_keeps_its_pause_behind_a_request_that_came_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(worker, "time", clock)
    took = iter([10, 70, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10])
    windows_ns = [[0, 20 * MS], [40 * MS, 60 * MS], [80 * MS, 120 * MS]]
    found, host = worker.run(lambda: clock.sleep(next(took) / 1e3), windows_ns, None)
    assert [len(requests) for requests in found] == [2, 2, 0]  # the third would begin after the end of all
    assert found[0][-1][2] == pytest.approx(80 * MS, abs=MS)
    assert found[1][0][1] == pytest.approx(100 * MS, abs=MS)
    assert host == []


def test_a_worker_begins_a_request_when_it_arrives_and_none_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(worker, "time", clock)
    (found,), _ = worker.run(lambda: clock.sleep(0.03), [[0, 60 * MS]], [10 * MS, 20 * MS, 50 * MS, 55 * MS, 90 * MS])
    assert [arrival for arrival, _, _ in found] == [10 * MS, 20 * MS]
    assert found[1][1] == pytest.approx(40 * MS, abs=MS)
