"""The gallery of batch scripts (examples/jobs): Slurm accepts each, and those that need no real GPU run to their end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikitd.api.reports import ReportStore

if TYPE_CHECKING:
    from cluster_jobs import Cluster

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCRIPTS = sorted((EXAMPLES / "jobs").glob("*.sh"))
PATH = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"  # `python` is the one with tinygrad
HERE = {"EXAMPLES": str(EXAMPLES), "STEPS": "1", "PATH": PATH}
PATIENCE_S = 180.0  # four programs compile their kernels on two cores
SMALL = ("--fikit-mem=64M", "--cpus-per-task=1")  # the emulated node has little


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_slurm_accepts_the_options(script: Path, cluster: Cluster) -> None:
    done = cluster.run("sbatch", "--test-only", *SMALL, script)
    assert done.returncode == 0, done.stdout
    assert "to start at" in done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_page_says_what_to_expect(script: Path) -> None:
    assert f"[{script.name}]({script.name})" in (EXAMPLES / "jobs/README.md").read_text()


def test_a_typing_error_in_an_option_is_refused(cluster: Cluster) -> None:
    """So that acceptance above means something."""
    text = (EXAMPLES / "jobs/array.sh").read_text().replace("--fikit-priority=low", "--fikit-priority=lwo")
    script = cluster.directory / "typing_error.sh"
    script.write_text(text)
    done = cluster.run("sbatch", "--test-only", *SMALL, script)
    assert done.returncode != 0
    assert "lwo" in done.stdout


def test_ranks_are_one_job(cluster: Cluster) -> None:
    job = cluster.submit(EXAMPLES / "jobs/mpi.sh", "--fikit-mem=64M", "--ntasks=2", "--overcommit", **HERE)
    cluster.until(lambda: cluster.ended(job), f"{cluster.fields(job)}", PATIENCE_S)
    assert cluster.wait(job)
    report = ReportStore(cluster.sandbox.report_dir).load(job)
    assert report is not None
    assert report["processes"] == 2
    assert report["kernels"] > 0


def test_each_task_of_a_sweep_has_a_report(cluster: Cluster) -> None:
    array = cluster.submit(EXAMPLES / "jobs/array.sh", "--array=0-1", "--fikit-mem=64M", **HERE)
    store = ReportStore(cluster.sandbox.report_dir)
    cluster.until(lambda: len(store.parts(array)) == 2, "not every task has a report", PATIENCE_S)
    assert all(report["kernels"] > 0 for report in store.parts(array))
