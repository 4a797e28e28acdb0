"""`fikit trace` of jobs under Slurm: while they run and afterwards, for their user and nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Cluster

HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"
NOBODY = 65534


def fikit_trace(cluster: Cluster, job: str, *, user: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fikit", "trace", job]
    return subprocess.run(
        command, env=cluster.sandbox.env, user=user, cwd="/", capture_output=True, text=True, check=False, timeout=30
    )


def tracks(text: str) -> tuple[dict[str, str], dict[str, list[dict[str, Any]]]]:
    """What the file is about, and the events of each track by its name."""
    picture = json.loads(text)
    names = {e["tid"]: e["args"]["name"] for e in picture["traceEvents"] if e["name"] == "thread_name"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for event in picture["traceEvents"]:
        if event["ph"] != "M":
            found[names[event["tid"]]].append(event)
    return picture["otherData"], found


def test_a_job_that_waited_is_shown_with_whom_it_waited_for(cluster: Cluster, spin: Path) -> None:
    # The node has two GPUs: only on one and the same they meet.
    endless = cluster.script("endless", f"CUDA_VISIBLE_DEVICES=0 exec {spin} 1000000 250000")
    high, low = (cluster.submit_running(endless, priority) for priority in (HIGH, LOW))
    cluster.until(lambda: tracks(fikit_trace(cluster, low).stdout)[1]["waits"], "the low job has not waited")
    about, _ = tracks(fikit_trace(cluster, high).stdout)
    assert (about["job"], about["state"], about["emulated"]) == (high, "running", "true")
    for job in (low, high):
        cluster.run("scancel", job)
        assert cluster.end(job) == "CANCELLED"
        cluster.until(
            lambda job=job: tracks(fikit_trace(cluster, job).stdout)[0]["state"] == "ended", "no stored trace"
        )
    _, shown = tracks(fikit_trace(cluster, low).stdout)
    assert {event["args"]["by"] for event in shown["waits"]} <= {f"job {high}, priority 1", "this job"}
    assert sum(event["dur"] for event in shown["waits"] if event["args"]["by"] != "this job") > 10_000
    about, shown = tracks(fikit_trace(cluster, high).stdout)
    assert about["priority"] == "1"
    assert len(shown["launches"]) > 10
    assert not [event for event in shown["waits"] if event["name"] != "lower work"]
    refused = fikit_trace(cluster, high, user=NOBODY)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "trace" in refused.stderr
