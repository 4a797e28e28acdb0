"""What is advised of a run by its report: each rule with its figure and its line, and nothing where the report does not say it."""

from __future__ import annotations

from math import isfinite
from typing import Any

import pytest
from cli_samples import MEASURED, MOVED, REPORT
from fikit.advice import of_run
from fikit.api import job_report
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30


def told(
    record: dict[str, Any] = REPORT, peaks_bytes: tuple[int, ...] = (), highest: int = 0, **facts: Any
) -> dict[str, tuple[str, str]]:
    """By rule: the sentence and the line."""
    quiet = {
        "memory": {"limit_bytes": None, "peak_bytes": 5 * GIB, "refused": 0},
        "wait_reasons": [],
        "host": {**REPORT["host"], "late_s": 0.0},
    }
    run = job_report.of({**record, "name": "serve.sh", **quiet, **facts})
    return {each.rule: (each.text, each.line) for each in of_run.advise(run, peaks_bytes, highest)}


def held(reason: str, cost_s: float, priority: int | None = 1, **facts: Any) -> dict[str, Any]:
    return {
        "reason": reason,
        "job": "17",
        "priority": priority,
        "kernel": "",
        "p90_us": None,
        "total_s": cost_s,
        "cost_s": cost_s,
        "count": 3,
        **facts,
    }


LOW: dict[str, Any] = {**REPORT, "priority": 8, "priority_name": "low", "waited_s": 2.0, "alone_s": 6.667}


def test_of_a_run_in_which_all_went_well_nothing_is_said() -> None:
    assert told() == {}


def test_who_had_the_gpu_alone_and_left_it_idle_can_share_it() -> None:
    text, line = told({**MEASURED, "job": "12"})["share"]
    assert text == "it had the GPU alone and kept it busy 36 % of its time: beside others it leaves 64 % to them"
    assert line == "sbatch --gres=gpu:1 --fikit-priority=high serve.sh"


def test_a_program_without_slurm_is_started_without_slurm() -> None:
    assert told(MEASURED)["share"][1] == "fikit run --priority=high -- PROGRAM"


@pytest.mark.parametrize("gpu_time_s", [None, 8.0])
def test_who_kept_it_busy_or_whose_use_nobody_knows_is_not_told_to_share(gpu_time_s: float | None) -> None:
    assert "share" not in told(MEASURED, gpu_time_s=gpu_time_s)


def test_waiting_for_higher_jobs_is_a_reason_for_a_higher_priority() -> None:
    text, line = told(LOW, wait_reasons=[held("behind", 1.8)])["raise priority"]
    assert (
        text
        == "it waited 1.80 s, 20 % of its time, for jobs of higher priority, longest for job 17: if it is as urgent, take priority high"
    )
    assert line == "sbatch --fikit-priority=high serve.sh"
    assert (
        told(LOW, wait_reasons=[held("behind", 1.8)], highest=5)["raise priority"][1]
        == "sbatch --fikit-priority=normal serve.sh"
    )


@pytest.mark.parametrize(("held_s", "priority", "highest"), [(0.5, 1, 0), (1.8, 8, 0), (1.8, None, 0), (1.8, 1, 8)])
def test_little_waiting_equals_and_what_the_site_refuses_are_none(
    held_s: float, priority: int | None, highest: int
) -> None:
    assert "raise priority" not in told(LOW, wait_reasons=[held("behind", held_s, priority)], highest=highest)


def test_only_waits_for_higher_jobs_count() -> None:
    waits = [held("behind", 1.0, 1), held("turn", 0.9, 8)]
    assert "it waited 1.00 s, 11 % of its time" in told(LOW, wait_reasons=waits)["raise priority"][0]


def test_reasons_never_cost_more_than_what_was_waited() -> None:
    assert "it waited 2.00 s, 22 % of" in told(LOW, wait_reasons=[held("behind", 5.0)])["raise priority"][0]


def test_a_running_job_is_told_nothing_that_only_its_end_decides() -> None:
    running = {"state": "running", "ended": None}
    assert told(LOW, wait_reasons=[held("behind", 1.8)], **running)["raise priority"][1] == "", "only root may raise it"
    memory = {"limit_bytes": 20 * GIB, "peak_bytes": 5 * GIB, "refused": 0}
    profile = {"key": "a", "found": False, "stored": None}
    assert told(memory=memory, profile=profile, kept=False, **running) == {}
    assert set(told(memory=memory, profile=profile, kept=False)) == {"memory", "measure", "promise"}


def test_who_takes_all_of_the_gpu_and_is_not_urgent_lets_others_run() -> None:
    text, line = told(gpu_time_s=8.5)["lower priority"]
    assert text.startswith("its kernels kept the GPU busy 98 % of its time, so jobs below it got next to nothing")
    assert line == "sbatch --fikit-priority=low serve.sh"
    assert "lower priority" not in told(gpu_time_s=8.5, delays=[]), "nobody was there"
    assert "lower priority" not in told(LOW, gpu_time_s=8.5)
    running = told(gpu_time_s=8.5, state="running", ended=None)["lower priority"]
    assert running[1] == "srun --overlap --jobid=12 fikit priority 12 low"


def test_a_kernel_that_does_not_fit_is_named() -> None:
    entry = held("does_not_fit", 0.9, kernel="gemm", p90_us=5700.0)
    text, line = told(LOW, wait_reasons=[entry, held("behind", 0.1)])["long kernel"]
    assert text == (
        "its kernel `gemm` (p90 5.70 ms) waited 900 ms, 10 % of its time, because it does not fit what job 17 can spare: "
        "smaller steps make it shorter, the same priority gives it turns"
    )
    assert line == "sbatch --fikit-priority=high serve.sh"
    assert told(LOW, wait_reasons=[{**entry, "priority": None}])["long kernel"][1] == ""
    assert told(LOW, wait_reasons=[{**entry, "cost_s": 0.1}]) == {}


def test_memory_is_asked_for_by_the_most_that_a_run_of_the_name_needed() -> None:
    wide = {"limit_bytes": 20 * GIB, "peak_bytes": 5 * GIB, "refused": 0}
    assert told(memory=wide)["memory"] == (
        "it asks for 20 GiB, and no run needed more than 5.0", "sbatch --fikit-mem=6G serve.sh",
    )  # fmt: skip
    assert told(memory=wide, peaks_bytes=(9 * GIB,))["memory"][1] == "sbatch --fikit-mem=10G serve.sh"
    tiny = {"limit_bytes": 4 * GIB, "peak_bytes": 2**20, "refused": 0}
    assert told(memory=tiny)["memory"][0] == "it asks for 4 GiB, and no run needed more than 1 MiB"
    narrow = {"limit_bytes": 10 * GIB, "peak_bytes": int(9.9 * GIB), "refused": 3}
    assert set(told(memory=narrow)) == {"memory"}, "one says it"
    assert told(memory=narrow)["memory"][1] == "sbatch --fikit-mem=11G serve.sh"


def test_requests_that_were_refused_are_told() -> None:
    memory = {"limit_bytes": 10 * GIB, "peak_bytes": 8 * GIB, "refused": 3}
    assert told(memory=memory) == {
        "refused memory": (
            "3 requests for GPU memory were beyond its 10.0 GiB, of which it held 8.00 GiB at most: if it failed for that, ask for more",
            "sbatch --fikit-mem=11G serve.sh",
        )
    }


def planned(expected_loss: float, peak_gib: float = 5.05, limit_gib: int = 8) -> dict[str, Any]:
    """Of a job with 4 GiB of its memory on the GPU."""
    plan = {
        "budget_bytes": int(3.2 * GIB),
        "peak_bytes": int(peak_gib * GIB),
        "moved_bytes_per_pass": GIB,
        "passes": 9,
        "skipped": 0,
    }
    moved = {**MOVED["moved"], "host_limit_bytes": (limit_gib - 4) * GIB}
    return {
        "limit_bytes": limit_gib * GIB, "peak_bytes": int(peak_gib * GIB), "refused": 0, "moved": moved,
        "plan": {**plan, "expected_loss": expected_loss},
    }  # fmt: skip


def test_a_job_whose_memory_moves_take_longer_than_its_kernels_is_told_how_much_memory_it_needs() -> None:
    text, line = told(memory=planned(12.57))["memory moves"]
    assert text == (
        "by its memory's plan, 3.20 of 5.05 GiB on the GPU, its passes are expected to take 13.6 times as long: "
        "give it 5.05 GiB on the GPU (--fikit-mem=6G)"
    )
    assert line == "sbatch --fikit-mem=6G serve.sh"
    assert "to take 11 % longer:" in told(memory=planned(0.11))["memory moves"][0]
    assert "memory moves" not in told(memory=planned(0.1)), "who shares a GPU may lose as much"
    running = told(memory=planned(12.57), state="running")["memory moves"]
    assert running[0] == text
    assert running[1] == "", "it is in the queue already"


def test_where_no_gpu_of_its_kind_has_so_much_memory_that_is_said() -> None:
    gpu = {**REPORT["device"], "memory_bytes": 16 * GIB}
    text, line = told(memory=planned(2.0, peak_gib=20, limit_gib=24), device=gpu)["memory moves"]
    assert text.endswith(
        "its passes are expected to take 3.0 times as long: it needs a GPU with more than 16.0 GiB, or smaller steps"
    )
    assert line == ""


def test_more_memory_for_a_job_that_has_some_on_the_host_is_more_on_the_host() -> None:
    moved = {**MOVED["moved"], "host_limit_bytes": 6 * GIB}
    refused = {"limit_bytes": 10 * GIB, "peak_bytes": 8 * GIB, "refused": 3, "moved": moved}
    assert told(memory=refused)["refused memory"][1] == "sbatch --fikit-mem-host=7G serve.sh"
    full = {**refused, "peak_bytes": int(9.9 * GIB)}
    assert told(memory=full)["memory"][1] == "sbatch --fikit-mem-host=7G serve.sh"
    assert "memory" not in told(memory={**refused, "peak_bytes": 5 * GIB, "refused": 0}), "it would not fit without"
    fits = told(memory={**refused, "peak_bytes": 2 * GIB, "refused": 0})["memory"]
    assert fits[0].startswith("no run needed more than 2.00 GiB: it fits into the 4 GiB")
    assert fits[1] == ""


def test_a_host_that_is_late_needs_cores() -> None:
    text, line = told(host={**REPORT["host"], "late_s": 0.9})["late host"]
    assert text.startswith("its host was late by 900 ms between launches, 10 % of its time")
    assert line == "sacct -j 12 --format=AllocCPUS,TotalCPU,Elapsed"
    assert told(MEASURED, host={**REPORT["host"], "late_s": 0.9}, gpu_time_s=None)["late host"][1] == "", (
        "no job of Slurm's"
    )
    assert "late host" not in told(host={**REPORT["host"], "late_s": 0.1})


def test_kernels_that_nothing_knows_are_measured() -> None:
    lines = {
        "none": told(profile={"key": "a", "found": False, "stored": False}),
        "gaps": told(span_alone_s=None),
        "unexplained": told(slowdown=None, no_slowdown="unexplained", unexplained_s=2.0),
    }
    assert {key: each["measure"][1] for key, each in lines.items()} == dict.fromkeys(
        lines, "sbatch --gres=gpu:1 --fikit-measure serve.sh"
    )
    assert lines["unexplained"]["measure"][0].startswith("22 % of its time is not explained")
    assert "measure" not in told(profile={"key": "a", "found": False, "stored": True}), "this run has taught them"


def test_a_promise_that_was_not_kept_names_the_job_that_cost_most() -> None:
    text, line = told(kept=False)["promise"]
    assert text == (
        "lower jobs cost it more than the 5 % of its time alone that they may, most of it job 18: with a GPU to itself, and without its "
        "fikit options, nobody does"
    )
    assert line == "sbatch --gres=gpu:1 serve.sh"


@pytest.mark.parametrize(
    ("name", "script"), [("a; rm -rf ~", "SCRIPT"), ("train", "SCRIPT"), ("-x.sh", "SCRIPT"), ("$(id).sh", "SCRIPT"), ("t-1.sbatch", "t-1.sbatch")]
)  # fmt: skip
def test_a_name_goes_into_a_line_to_type_only_where_it_is_a_scripts(name: str, script: str) -> None:
    run = job_report.of({**REPORT, "name": name, "kept": False})
    assert [each.line for each in of_run.advise(run) if each.rule == "promise"] == [f"sbatch --gres=gpu:1 {script}"]


def test_a_report_of_before_has_advice_too() -> None:
    before = {
        key: value for key, value in REPORT.items() if key in ("memory", *REPORT.keys()) and not key.endswith("_s")
    }
    before |= {"gpu_time_s": None, "span_s": 1.0, "span_alone_s": None}
    for key in ("host", "kept", "wait_reasons", "delays"):
        before.pop(key, None)
    assert {each.rule for each in of_run.advise(job_report.of(before))} == {"refused memory", "measure"}


TIMES = st.floats(0, 1e12)
PARTS = ("elapsed_s", "alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
WAITS = st.tuples(st.sampled_from(["behind", "does_not_fit", "turn"]), TIMES, st.none() | st.integers(0, 9))


@given(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(PARTS, TIMES), "state": st.sampled_from(["running", "ended"]), "measured": st.booleans(),
            "gpu_time_s": st.none() | TIMES, "priority": st.integers(0, 9),
            "wait_reasons": st.lists(WAITS.map(lambda wait: held(*wait, kernel="k"))),
            "memory": st.integers(0, 2**53).map(lambda peak: {"limit_bytes": 1, "peak_bytes": peak, "refused": 1}),
        }
    )
)  # fmt: skip
def test_whatever_a_report_says_advice_is_one_line_with_finite_figures(facts: dict[str, Any]) -> None:
    for each in of_run.advise(job_report.of({**REPORT, **facts, "kept": False})):
        assert each.text
        assert "\n" not in each.text + each.line
        assert all(isfinite(value) for value in each.figure.values() if isinstance(value, float))
