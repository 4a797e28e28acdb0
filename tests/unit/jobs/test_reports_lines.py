"""Report records and the line at the end of a job's output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from daemon_fakes import NOTHING
from fikitd.api import elapsed
from fikitd.api.elapsed import About
from fikitd.api.job_time import Sums
from fikitd.api.reports import NOT_STORED, ReportError, ReportStore, duration, gpu_time_bound, summary_line
from fikitd.jobs.totals import Totals

DEVICE = {"name": "NVIDIA H200", "uuid": "GPU-0", "memory_bytes": 1, "emulated": False}


def record(stats: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    counted = {**NOTHING, "kernels": 1834, "wait_count": 10, "wait_total_ns": 12_000_000, **(stats or {})}
    totals = Totals().plus(counted)
    sums = Sums(
        elapsed=counted["span_ns"], waited=max(counted["span_ns"] - (counted["span_alone_ns"] or counted["span_ns"]), 0)
    )
    about = About(
        priority=1,
        measured=facts.get("measured", False),
        kernels=counted["kernels"],
        max_slowdown=None,
        beside_others=False,
    )
    return {
        "format": "fikit-report", "version": 1, "job": "12", "name": "", "uid": os.getuid(), "node": "n1",
        "state": "ended", "priority": 1, "priority_name": "high", "policy": "budget", "measured": False, "device": DEVICE,
        "started": "2026-11-21T12:00:00Z", "ended": "2026-11-21T12:00:04Z", "processes": 1, **totals.fields(), **elapsed.fields(sums, [], about),
        "profile": {"key": "net", "found": True, "stored": None}, "warnings": [], **facts,
    }  # fmt: skip


KNOWN = {
    "gpu_time_ns": 3_200_000_000, "span_ns": 3_328_000_000, "under_way_ns": 3_328_000_000, "span_alone_ns": 3_200_000_000,
}  # fmt: skip


def test_the_line_of_a_job_with_a_profile() -> None:
    assert summary_line(record(KNOWN)) == (
        "fikit: job 12 high: 1.04x of its time alone, 1834 kernels, GPU time 3.2 s, waited 12 ms"
    )


@pytest.mark.parametrize(
    "place", [{"array": "10_3", "het": ""}, {"array": "", "het": "10+3"}, {"array": "", "het": ""}]
)
def test_a_task_and_a_component_are_said_by_the_number_that_users_know(place: dict[str, str]) -> None:
    known = f"({''.join(place.values())}) " if any(place.values()) else ""
    assert summary_line(record(KNOWN, **place)).startswith(f"fikit: job 12 {known}high: ")


def test_an_emulated_device_is_said() -> None:
    line = summary_line(record(KNOWN, device={**DEVICE, "emulated": True}))
    assert line.endswith("waited 12 ms (emulated GPU)")


@pytest.mark.parametrize(
    ("mode", "end"),
    [("slices", "waited 12 ms"), ("mps", "waited 12 ms, under MPS"), ("mixed", "waited 12 ms, partly under MPS"),
     ("other-mps", "waited 12 ms, under an MPS that is not fikit's")],
)  # fmt: skip
def test_the_line_says_when_a_job_ran_under_mps(mode: str, end: str) -> None:
    assert summary_line(record(KNOWN, device_mode=mode)).endswith(end)


def test_without_a_profile_the_line_says_how_to_get_one() -> None:
    line = summary_line(record(profile={"key": "net", "found": False, "stored": None}))
    assert line == "fikit: job 12 high: 1834 kernels, waited 12 ms, no profile yet; run once with --fikit-measure"


def test_a_job_that_was_killed_before_anything_was_complete_is_not_called_fast() -> None:
    killed = record({**KNOWN, "span_ns": 0, "under_way_ns": 300_000_000, "unfinished": 1834})
    assert (killed["slowdown"], killed["gpu_time_s"]) == (None, None)
    assert "job 12 high: 1834 kernels, GPU time at most 300 ms" in summary_line(killed)


@pytest.mark.parametrize("why", ["unfinished", "beside"])
def test_launches_without_a_time_of_their_own_make_the_sum_a_bound(why: str) -> None:
    """What was cancelled in the queue has used nothing, and of times taken beside others a part is the others'."""
    few, many = record({**KNOWN, why: 18}), record({**KNOWN, why: 19})
    assert (few["gpu_time_s"], few["gpu_time_at_most_s"], few[why]) == (3.2, None, 18)
    assert (many["gpu_time_s"], many["gpu_time_at_most_s"], many[why]) == (None, 3.2, 19)
    assert "1834 kernels, GPU time at most 3.2 s, waited" in summary_line(many)


def test_doubtful_times_are_the_jobs_own_and_make_no_bound() -> None:
    found = record({**KNOWN, "doubtful": 900})
    assert (found["gpu_time_s"], found["gpu_time_at_most_s"], found["doubtful"]) == (3.2, None, 900)


def test_a_running_client_may_yet_do_what_it_launched() -> None:
    stats = {**NOTHING, "kernels": 100, **KNOWN, "unfinished": 90}
    fields = Totals().plus(stats, gone=False).fields()
    assert (fields["gpu_time_s"], fields["unfinished"]) == (3.2, 0)


def test_no_job_used_the_gpu_for_longer_than_it_had_work_there() -> None:
    fields = record({**KNOWN, "under_way_ns": 1_000_000_000})
    assert (fields["gpu_time_s"], gpu_time_bound(fields)) == (1.0, None)


def test_where_not_all_kernels_were_timed_the_line_says_what_their_time_is_at_most() -> None:
    unknown = record({"span_ns": 12_000_000_000, "under_way_ns": 12_500_000_000})
    assert gpu_time_bound(unknown) == 12.5
    assert "1834 kernels, GPU time at most 12.5 s, waited" in summary_line(unknown)
    assert gpu_time_bound({"gpu_time_s": None, "span_s": 12.0}) == 12.0, "a report of before"
    assert gpu_time_bound(record()) is None, "nothing is known to have completed"


def test_a_profile_that_does_not_cover_the_job_is_said() -> None:
    assert "profile net does not know all its kernels" in summary_line(record())


def test_the_line_of_a_measured_job() -> None:
    measured = record(KNOWN, measured=True, profile={"key": "net", "found": False, "stored": True})
    assert summary_line(measured) == "fikit: job 12 high: measured 1834 kernels, GPU time 3.2 s, profile net stored"
    measured["profile"]["stored"] = False
    measured["warnings"] = ["its profile could not be stored"]
    assert summary_line(measured).endswith("profile net not stored, 1 warning, see fikit-report 12")


def test_the_line_of_a_job_without_a_stored_report_does_not_point_to_it() -> None:
    sentence = f"{NOT_STORED} in /shared: No space left on device"
    line = summary_line(record(KNOWN, warnings=["its profile could not be stored", sentence]))
    assert line.endswith(f"waited 12 ms, {sentence}")


def test_a_priority_without_a_name_is_called_priority() -> None:
    assert summary_line(record(priority_name="3")).startswith("fikit: job 12 priority 3: ")


def test_one_kernel_is_not_kernels() -> None:
    assert "measured 1 kernel," in summary_line(record({"kernels": 1}, measured=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 us"), (0.00087, "870 us"), (0.012, "12 ms"), (3.21, "3.2 s"), (99.94, "99.9 s"), (250, "4 min 10 s")],
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counters_of_clients_add_up() -> None:
    one = {**NOTHING, "kernels": 2, **KNOWN, "wait_count": 1, "wait_total_ns": 1000, "wait_p99_ns": 700.0,
           "gaps_offered": 1, "predicted_gap_ns": 100, "actual_gap_ns": 120, "gap_error_p50_ns": 10.0}  # fmt: skip
    two = {**one, "wait_p99_ns": 900.0, "gaps_offered": 3, "gap_error_p50_ns": 30.0}
    fields = Totals().plus(one).plus(two).fields()
    assert (fields["kernels"], fields["gpu_time_s"]) == (4, 6.4)
    assert fields["wait"] == {"count": 2, "total_s": 2e-6, "mean_us": 1.0, "p99_us": 0.9}
    assert fields["gaps"]["offered"] == 4
    assert fields["gaps"]["predicted_us"] == pytest.approx(0.05)
    assert fields["gaps"]["error_p50_us"] == pytest.approx(0.025)


def test_a_time_that_one_client_does_not_know_is_unknown() -> None:
    known, unknown = {**NOTHING, "kernels": 1, **KNOWN}, {**NOTHING, "kernels": 1}
    for order in ([known, unknown], [unknown, known]):
        fields = Totals().plus(order[0]).plus(order[1]).fields()
        assert (fields["gpu_time_s"], fields["span_alone_s"]) == (None, None)


def test_a_client_that_launched_nothing_does_not_hide_the_others_times() -> None:
    fields = Totals().plus(NOTHING).plus({**NOTHING, "kernels": 1, **KNOWN}).plus(NOTHING).fields()
    assert (fields["gpu_time_s"], fields["span_alone_s"]) == (3.2, 3.2)


def test_a_stored_report_is_loaded_and_replaced(tmp_path: Path) -> None:
    store = ReportStore(tmp_path)
    store.save(record())
    path = store.save(record(KNOWN))
    assert store.load("12") == record(KNOWN)
    assert store.list() == [record(KNOWN)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_reports_are_listed_in_order_of_start_without_broken_ones(tmp_path: Path) -> None:
    store = ReportStore(tmp_path)
    store.save(record(job="9", started="2026-11-22T12:00:00Z"))
    store.save(record(job="10"))
    (tmp_path / "11.json").write_text("{")
    assert [report["job"] for report in store.list()] == ["10", "9"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": "x"}', json.dumps({"format": "fikit-report", "version": 9})]
)
def test_a_broken_report_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "12.json").write_text(content)
    with pytest.raises(ReportError, match=f"report {tmp_path}/12.json "):
        ReportStore(tmp_path).load("12")


def test_a_job_without_report_has_none(tmp_path: Path) -> None:
    assert ReportStore(tmp_path).load("12") is None
    assert ReportStore(tmp_path).load("../12") is None
    assert ReportStore(tmp_path / "no").list() == []


def test_the_line_says_whose_times_stood_in() -> None:
    borrowed = {"run": "train.py --lr 1", "kernels": 42, "known": 41, "borrowed": 40}
    line = summary_line(record(KNOWN, profile={"key": "net", "found": True, "stored": None, "borrowed": borrowed}))
    assert "times from train.py --lr 1 (41 of 42 kernels known)" in line
