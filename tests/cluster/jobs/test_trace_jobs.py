"""`fikit trace` of jobs under Slurm, while they run and afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster_jobs import Cluster

HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"


def fikit_trace(cluster: Cluster, job: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fikit", "trace", job]
    return subprocess.run(
        command, env=cluster.sandbox.env, cwd="/", capture_output=True, text=True, check=False, timeout=30
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
    long, short = (
        cluster.script(name, f"CUDA_VISIBLE_DEVICES=0 exec {spin} {kernels} 250000")
        for name, kernels in (("long", 8000), ("short", 50))
    )
    high = cluster.submit_running(long, HIGH)
    low = cluster.submit(short, "--gres=gpu:1", LOW)
    about, shown = tracks(fikit_trace(cluster, high).stdout)
    assert (about["job"], about["state"], about["emulated"]) == (high, "running", "true")
    assert shown["launches"]
    for job in (high, low):
        cluster.wait(job)
        cluster.until(
            lambda job=job: tracks(fikit_trace(cluster, job).stdout)[0]["state"] == "ended", "no stored trace"
        )
    _, shown = tracks(fikit_trace(cluster, low).stdout)
    waited_us = sum(wait["dur"] for wait in shown["waits"] if wait["args"]["by"] == f"job {high}, priority 1")
    assert waited_us > 10_000
    assert {wait["args"]["by"] for wait in shown["waits"]} <= {f"job {high}, priority 1", "this job"}
    about, shown = tracks(fikit_trace(cluster, high).stdout)
    assert about["priority"] == "1"
    assert not [event for event in shown["waits"] if event["name"] != "lower work"]
    status = (cluster.sandbox.report_dir / str(os.getuid()) / f"{high}.trace.gz").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.getuid(), 0o600)
