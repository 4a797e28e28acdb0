"""What `fikit top` knows of a node: fikitd's word before NVML's, and who waits behind whom."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from fikit.api import node_use
from fikit.live import lines, node
from fikit.live.history import KEPT, History
from fikit.live.node import SORTS
from live_samples import GIB, SEEN, seen, shared
from node_looks import client, look, strangers


def test_every_gpu_of_the_node_is_there_shared_exclusive_and_idle() -> None:
    found = shared()
    assert [(gpu.index, gpu.uuid, gpu.shared, len(gpu.outside)) for gpu in found.gpus] == [
        (0, "GPU-a", True, 0), (1, "GPU-b", False, 1), (2, "GPU-c", False, 0),
    ]  # fmt: skip
    first, second, third = found.gpus
    assert (first.use, first.by_nvml) == (pytest.approx(0.96), False), "fikitd's word goes first"
    assert (second.use, second.by_nvml, third.use) == (0.21, True, 0.0)
    assert (first.held_bytes, first.power_w) == (31 * GIB, 410.0)
    assert [(one.job, one.uid, one.pids) for one in second.outside] == [("31", 0, (77, 78))]


def test_of_an_instance_it_is_said_that_nobody_knows_how_busy_it_is() -> None:
    [gpu] = node.of(
        node_use.between(look(0), look(1)), {}, [{**seen("MIG-a", 0, None), "name": "H200 MIG 3g.71gb"}]
    ).gpus
    assert "GPU 0 H200 MIG 3g.71gb  how busy is not told (MIG)  " in lines.heading(gpu, History(), 120).plain
    assert "not told" not in lines.heading(dataclasses.replace(gpu, name="H200"), History(), 120).plain


def test_without_nvml_there_is_what_fikitd_says() -> None:
    (gpu,) = shared(nvml=[]).gpus
    assert (gpu.uuid, gpu.index, gpu.use, gpu.held_bytes, gpu.power_w) == (
        "GPU-a",
        None,
        pytest.approx(0.96),
        None,
        None,
    )


def test_nvml_says_the_use_of_a_gpu_whose_kernels_are_not_timed_yet() -> None:
    before, after = look(0, client(1, gpu_time_s=None)), look(1, client(1, gpu_time_s=None))
    first = node.of(node_use.between(before, after), {}, SEEN).gpus[0]
    assert (first.use, first.by_nvml) == (0.5, True)


def test_processes_around_fikit_and_jobs_of_nobody_known() -> None:
    around = ({"gpu": "GPU-a", "pid": 5}, {"gpu": "GPU-x", "pid": 6})
    use = node_use.between(look(0, client(1)), look(1, client(1), unmanaged=around))
    first, unknown = node.of(use, {}, [seen("GPU-a", 0, 0.1, owners={"5": {"job": "9", "uid": 1000}})]).gpus
    assert [(one.job, one.uid, one.pids) for one in first.outside] == [(None, 1000, (5,))], "a job's, but around fikit"
    assert (unknown.name, [one.pids for one in unknown.outside]) == ("GPU-x", [(6,)])
    (alone,) = node.of(node_use.between(look(0), look(1)), {}, [seen("GPU-b", 0, None, 7, owners={})]).gpus
    assert [(one.job, one.uid) for one in alone.outside] == [(None, None)]


def test_of_another_users_job_there_is_what_is_public() -> None:
    use = node_use.between(look(0, strangers(1, "40", 1, 0.0)), look(1, strangers(1, "40", 1, 0.3)))
    (job,) = node.of(use, {}, []).gpus[0].jobs
    assert (job.job, job.name, job.device_share, job.own, job.waited_share, job.memory_bytes) == (
        "40",
        "",
        pytest.approx(0.3),
        False,
        None,
        None,
    )


def held(job: str | None, total_s: float, reason: str = "behind", kernel: str = "") -> dict[str, Any]:
    return {"reason": reason, "job": job, "kernel": kernel, "total_s": total_s}


@pytest.mark.parametrize(
    ("before", "after", "whom"),
    [
        ([held("12", 5.0), held("13", 0.1)], [held("12", 5.1), held("13", 0.9)], "13"),
        ([], [held("12", 0.4), held("12", 0.4, "turn"), held("13", 0.6)], "12"),
        ([], [held("18", 0.4, "run_ahead")], "itself"),
        ([], [held(None, 0.4)], "?"),
        ([], [held("18", 0.4, "memory"), held("12", 0.3)], "memory"),
        ([], [held("12", 0.4, "lower_work")], None),
        ([held("12", 1.0)], [held("12", 1.0)], None),
    ],
)
def test_a_job_waits_behind_whom_it_waited_for_longest_since_the_last_look(
    before: list[dict[str, Any]], after: list[dict[str, Any]], whom: str | None
) -> None:
    assert (
        node.behind([{"job": "18", "wait_reasons": before}], [{"job": "18", "wait_reasons": after}]).get("18") == whom
    )


@pytest.mark.parametrize(
    ("by", "first"),
    [("priority", "12"), ("GPU", "18"), ("waited", "18"), ("slowdown", "12"), ("memory", "12"), ("name", "12")],
)
def test_jobs_are_sorted_by_what_was_asked(by: str, first: str) -> None:
    jobs = shared().gpus[0].jobs
    assert node.ordered(jobs, by)[0].job == first
    assert node.ordered(jobs[::-1], by) == node.ordered(jobs, by)
    assert by in SORTS


def test_a_history_is_as_long_as_it_is_looked_at_and_ends_with_the_newest() -> None:
    history = History()
    for share in (0.0, None, 0.5, 1.0, 7.0):
        history.add([("a", share), ("b", 0.0)])
    assert (history.line("a", 3), history.line("a", 8), history.line("x", 2), history.line("a", 0)) == (
        "▅██",
        "   ▁ ▅██",
        "  ",
        "",
    )
    history.add([("b", 1.0)])
    assert history.line("a", 3) == "   ", "who is gone is forgotten"
    for _ in range(2 * KEPT):
        history.add([("b", 0.0)])
    assert history.line("b", 3 * KEPT).count("▁") == KEPT
