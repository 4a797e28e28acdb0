"""Jobs whose memory does not fit at once: which would in turns or with a budget, and at what cost."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from fikit.advice import offers, rules
from fikit.advice.facts import Busy, Expectation, Facts, Gpu, Neighbour, Request
from fikit.advice.residency import LINK_BYTES_PER_S, arrange, beside, residency
from fikit.advice.situation import Situation
from fikit.api.advice import Advice
from fikitd.history import Known
from hypothesis import given
from hypothesis import strategies as st

H = 3600.0
GIB = 2**30


def neighbour(job: str, shards: int, priority: int = 5, peak_gib: float | None = None) -> Neighbour:
    peak = None if peak_gib is None else int(peak_gib * GIB)
    return Neighbour(job, 1001, shards, Expectation(H, "name", 5), Busy(0.5, "name"), priority, peak_bytes=peak)


def said(
    *gpus: tuple[int, list[Neighbour]], shards: int, peak_gib: float | None = None, **request: Any
) -> Advice | None:
    """gpus: their GiB and who is there."""
    asked = Request("train", 1000, **{"shards": shards, "shards_source": "asked", "priority": 5, "script": "j.sh", **request})  # fmt: skip
    known = None if peak_gib is None else Known(3, (H,) * 3, 0.5, int(peak_gib * GIB), None, None, False)
    there = tuple(Gpu("n1", n, "h200", size, tuple(jobs)) for n, (size, jobs) in enumerate(gpus))
    facts = Facts(asked, Expectation(H, "name", 5), Busy(0.5, "name"), known, there)
    return residency(Situation(facts, offers.offers(facts), offers.alone(facts)))


def test_nothing_is_said_where_there_is_room() -> None:
    assert said((16, [neighbour("1", 8)]), shards=8) is None
    assert said((16, [neighbour("1", 16)]), (16, []), shards=8) is None


def test_by_what_runs_needed_they_fit_together() -> None:
    found = said((16, [neighbour("1", 12, peak_gib=6.0)]), shards=10, peak_gib=7.0)
    assert found is not None
    assert found.text == "by what runs needed, it (8 GiB) and job 1 (7) fit together on n1:0, which has 16 GiB: they ask for more than they need"  # fmt: skip
    assert found.line == "sbatch --fikit-mem=8G j.sh"
    assert found.figure["how"] == "together"


def test_jobs_of_which_each_fits_beside_the_one_above_would_take_turns() -> None:
    found = said((16, [neighbour("1", 6, priority=1), neighbour("2", 8)]), shards=8)
    assert found is not None
    assert found.text.startswith("on n1:0 it (8 GiB) and job 2 (8) do not fit together into the 10 of 16 GiB that jobs above it leave, but each alone does, in turns: ")  # fmt: skip
    assert "at 24 GB/s (assumed)" in found.text
    assert found.line == ""
    # 2 of the 10 GiB are free and of the one that is away 2 stay: 6 out, 6 in.
    assert found.figure["moved_bytes"] == 12 * GIB
    assert found.figure["moved_s"] == pytest.approx(12 * GIB / 24e9)
    assert found.figure["share"] == pytest.approx(12 * GIB / 24e9 / (12 * GIB / 24e9 + 30), rel=1e-3)


def test_what_moves_while_others_run_costs_no_change_its_time() -> None:
    """Of three jobs of 6 GiB in a room of 9 the 3 beside the running one are the next one's by the time that it runs."""
    found = arrange(9 * GIB, [6 * GIB] * 3)
    assert found is not None
    assert found.moved_bytes == 2 * 3 * GIB
    assert found.share == pytest.approx(found.moved_s / (found.moved_s + 30), rel=0.01)


def test_a_job_above_does_not_move_for_one_below() -> None:
    """With the same two jobs, the one that is there above: only a budget of what it leaves."""
    found = said((16, [neighbour("1", 8, priority=1)]), shards=10)
    assert found is not None
    assert found.figure["how"] == "budget"
    assert found.text == (
        "on n1:0 it would have 8 of its 10 GiB at a time in the 8 of 16 GiB that jobs above it leave: each iteration moves 4.0 GiB or more, "
        "and takes at least 179 ms at 24 GB/s (assumed). A job below high that asks for --fikit-mem-host runs so once fikit knows its iteration, where the site allows it"
    )


@pytest.mark.parametrize(("shards", "how"), [(11, "budget"), (12, None)])
def test_a_budget_of_less_than_seven_tenths_is_none(shards: int, how: str | None) -> None:
    found = said((16, [neighbour("1", 8, priority=1)]), shards=shards)
    assert (found.figure["how"] if found else None) == how


def test_of_several_gpus_the_one_where_least_moves() -> None:
    found = said((16, [neighbour("1", 12)]), (16, [neighbour("2", 10)]), (16, [neighbour("3", 12, peak_gib=4.0)]), shards=11)  # fmt: skip
    assert found is not None
    assert (found.figure["gpu"], found.figure["how"]) == ("n1:2", "together")
    found = said((16, [neighbour("1", 12)]), (16, [neighbour("2", 10)]), shards=11)
    assert found is not None
    assert (found.figure["gpu"], found.figure["how"]) == ("n1:1", "turns")


def test_nothing_is_said_to_a_job_that_shares_nothing_or_runs() -> None:
    there = (16, [neighbour("1", 12)])
    assert said(there, shards=8) is not None
    assert said(there, shards=8, shares=False) is None
    assert said(there, shards=8, running=True) is None
    whole = (16, [replace(neighbour("1", 0), whole=True)])
    assert said(whole, shards=8) is None


def test_a_job_without_end_there_changes_nothing_of_it() -> None:
    endless = replace(neighbour("1", 12), expected=Expectation(inf, "nothing"))
    found = said((16, [endless]), shards=8)
    assert found is not None
    assert found.figure["how"] == "turns"


def test_it_is_one_of_the_rules() -> None:
    asked = Request("train", 1000, shards=8, shards_source="asked", priority=5, script="j.sh")
    facts = Facts(asked, Expectation(H, "name", 5), Busy(0.5, "name"), None, (Gpu("n1", 0, "", 16, (neighbour("1", 12),)),))  # fmt: skip
    found = rules.advise(Situation(facts, offers.offers(facts), offers.alone(facts)))
    assert "residency" in [each.rule for each in found]


needs = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(st.integers(0, 64), needs)
def test_an_arrangement_is_the_first_that_is_possible_and_costs_no_more_than_a_whole_swap(
    room: int, needs: list[int]
) -> None:
    found = arrange(room * GIB, [each * GIB for each in needs])
    if sum(needs) <= room:
        assert found is not None
        assert (found.how, found.moved_bytes) == ("together", 0)
    elif max(needs) <= room:
        assert found is not None
        assert found.how == "turns"
        assert 0 < found.moved_bytes <= 2 * room * GIB
        assert found.share is not None
        assert 0 < found.share <= 0.1 + 1e-9
    elif len(needs) == 1 and room >= 0.7 * needs[0]:
        assert found is not None
        assert (found.how, found.moved_bytes) == ("budget", 2 * (needs[0] - room) * GIB)
    else:
        assert found is None
    assert found is None or found.moved_s == pytest.approx(found.moved_bytes / LINK_BYTES_PER_S)


def test_programs_beside_each_other_by_their_peaks() -> None:
    found = {each["key"]: each["how"] for each in beside(8 * GIB, 16 * GIB, {"small": 8 * GIB, "large": 9 * GIB, "huge": 17 * GIB})}  # fmt: skip
    assert found == {"small": "together", "large": "turns", "huge": "none"}
