"""What the live bench of turns makes of its runs; the runs themselves start programs."""

from __future__ import annotations

import pytest

from bench.residency import live
from bench.residency.live import Outcome
from bench.residency.live_job import WARM_UP_S


def outcome(
    high_s: float, kernels: int, swaps: list[tuple[float, float, float]] | None = None, *, right: bool = True
) -> Outcome:
    return Outcome([high_s] * 4, [kernels] * 3, right, swaps or [], 80.0)


def test_figures_are_beside_the_high_job_alone_and_the_same_low_jobs_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {
        ("turns", 0): outcome(1.0, 0),
        ("turns", 3): outcome(1.05, 400, [(15.0, 0.5, 0.4), (15.0, 0.5, 0.6)]),
        ("faults", 3): outcome(1.1, 380),
        ("paging", 3): outcome(1.2, 100, right=False),
    }
    monkeypatch.setattr(live, "run", lambda how, lows, seconds: runs[how, lows])
    found = {each["figure"]: each for each in live.rows(80.0)}
    assert found["high JCT"]["value"] == pytest.approx(1.05)
    lost = 1.0 / (WARM_UP_S + 80.0)
    assert found["time lost to moves / (c / (E + c))"]["value"] == pytest.approx(lost / (1.0 / 31.0))
    assert found["low work / that of paging (TGS) at 30 us per batch"]["value"] == pytest.approx(4.0)
    assert found["low work / that of turns without moves (nvshare) at 30 us per batch"]["holds"]
    assert found["low jobs whose buffers are all right"]["holds"] is False
    assert all(each["case"] == "A: 1 GiB, live, emulated" for each in found.values())


def test_the_daemons_line_about_a_change_is_read() -> None:
    line = (
        "fikitd: info: GPU-1: it is the turn of the memory of job 3, 4 for 15.0 s at least; the change took 1.060 s, of which moves were "
        "to take 0.201 s"
    )
    assert live._SWAP.findall(line) == [("15.0", "1.060", "0.201")]
