"""Where the time of jobs went that Slurm started: each task of an array has its own report, whose parts sum to the clock's time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikitd.api.reports import ReportStore

if TYPE_CHECKING:
    from cluster_jobs import Cluster

TASKS = (1, 2, 3)
KERNELS, KERNEL_S = 400, 2e-3
PARTS = ("alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
GPU = "--gres=gpu:1"


def arrays_reports(cluster: Cluster, array: str) -> dict[int, dict[str, Any]]:
    """By the number of the task, of those that are stored."""
    reports = ReportStore(cluster.sandbox.report_dir).parts(array)
    return {int(report["array"].partition("_")[2]): report for report in reports}


def program_s(cluster: Cluster, task: int) -> float:
    """How long the task's program took, by the clock of its script."""
    begun_s, ended_s = map(float, (cluster.directory / f"clock.{task}").read_text().split())
    return ended_s - begun_s


def test_each_task_of_an_array_has_its_own_sum(cluster: Cluster, spin: Path) -> None:
    program = f"{spin} {KERNELS} {round(KERNEL_S * 1e9)}"
    cluster.batch(cluster.script("learn", program), GPU, "--fikit-measure")
    (met := cluster.directory / "met").mkdir()
    met.chmod(0o1777)
    meet = f"touch {met}/$SLURM_ARRAY_TASK_ID; while [ $(ls {met} | wc -l) -lt {len(TASKS)} ]; do sleep 0.05; done"
    clock = f"> {cluster.directory}/clock.$SLURM_ARRAY_TASK_ID"
    script = cluster.script("sums", meet, "begun=$EPOCHREALTIME", program, f'echo "$begun $EPOCHREALTIME" {clock}')
    array = cluster.submit(script, f"--array={TASKS[0]}-{TASKS[-1]}", GPU, "--fikit-priority=low")
    cluster.until(lambda: len(arrays_reports(cluster, array)) == len(TASKS), "not every task has a report")
    reports = arrays_reports(cluster, array)
    assert sorted(reports) == list(TASKS)
    on_gpus = [report["device"]["uuid"] for report in reports.values()]
    for task, report in reports.items():
        assert sum(report[part] for part in PARTS) == pytest.approx(report["elapsed_s"], abs=1e-6)
        assert report["kernels"] == KERNELS
        assert report["unexplained_s"] <= 0.05 * report["elapsed_s"]
        took_s, late_s = program_s(cluster, task), report["host"]["late_s"]
        assert report["elapsed_s"] >= took_s - 0.05, "the program is part of the job"
        others_s = report["waited_s"] + report["delayed_s"]
        needed_s = KERNELS * KERNEL_S + others_s + late_s
        assert needed_s == pytest.approx(took_s, abs=0.05 * report["elapsed_s"] + 0.15), "its start and end beside it"
        if on_gpus.count(report["device"]["uuid"]) > 1:
            assert others_s > 0.3 * KERNELS * KERNEL_S, "they met, and shared a GPU"
        assert report["alone_s"] >= 0.97 * KERNELS * KERNEL_S
    assert max(map(on_gpus.count, on_gpus)) > 1, "there are two GPUs"
