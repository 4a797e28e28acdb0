"""Four nodes with a network, a host name and a fikitd each, and one storage for all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox.network import NetworkError
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportStore
from fikitd.profiles.profile_store import ProfileStore
from remains import nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
NODES, RUNS, KERNELS = 4, 3, 40


@pytest.fixture(scope="module")
def nodes(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    try:
        with Sandbox(gpus=1, nodes=NODES, apart=True) as apart:
            yield make_cluster(apart)
            nothing_remains(apart)
    except NetworkError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def program(nodes: Cluster, spin: Path) -> Path:
    return Path(shutil.copy(spin, nodes.directory / "spin"))


def on_all(nodes: Cluster, *command: str | Path) -> list[str]:
    """The outputs of one `srun` per node, all at once."""
    clients = [
        subprocess.Popen(
            ["srun", "--quiet", f"--nodelist={node}", *map(str, command)], env=nodes.env, cwd=nodes.directory,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for node in nodes.sandbox.run_dirs
    ]  # fmt: skip
    outputs = [client.communicate(timeout=60)[0] for client in clients]
    assert [client.returncode for client in clients] == [0] * NODES, outputs
    return outputs


def durations(profile: dict[str, Any]) -> int:
    """How often its kernel was timed."""
    [kernel] = [kernel for kernel in profile["kernels"] if not kernel["context"] and not kernel.get("beside")]
    assert sum(kernel["duration"]["histogram"].values()) == kernel["duration"]["count"]
    return int(kernel["duration"]["count"])


def test_each_node_manages_its_jobs_and_all_reports_are_in_one_place(nodes: Cluster, program: Path) -> None:
    outputs = on_all(nodes, GPU, HIGH, program, str(KERNELS), "20000")
    jobs = [output.partition("fikit: job ")[2].split()[0] for output in outputs]
    store = ReportStore(nodes.sandbox.report_dir)
    reports = [nodes.until(lambda job=job: store.load(job), f"job {job} has no report") for job in jobs]
    assert [(report["node"], report["kernels"]) for report in reports] == [
        (node, KERNELS) for node in nodes.sandbox.run_dirs
    ]
    assert len({report["device"]["uuid"] for report in reports}) == NODES


def test_processes_of_all_nodes_measure_one_profile_and_every_launch_counts(nodes: Cluster, program: Path) -> None:
    # One after the other on each node: what two measure at once is their common time, and not kept.
    work = nodes.script("work", *[f"{program} {KERNELS} 20000"] * RUNS)
    on_all(nodes, GPU, "--fikit-measure", "--fikit-profile=common", work)
    nothing_remains(nodes.sandbox)
    profile = ProfileStore(nodes.sandbox.profile_dir).load(os.getuid(), "common")
    assert profile is not None
    directory = nodes.sandbox.profile_dir / str(os.getuid()) / "common"
    written = [json.loads(path.read_text()) for path in directory.iterdir()]
    assert len(written) == NODES * RUNS
    assert profile["launches"] == NODES * RUNS * KERNELS
    # The shim times no launch that would have to wait for another thread's timing: nearly all are.
    assert durations(profile) == sum(map(durations, written)) > 0.9 * profile["launches"]
    [output, *_] = on_all(nodes, GPU, HIGH, "--fikit-profile=common", program, str(KERNELS), "20000")
    assert "x of its time alone" in output


def test_a_command_in_a_sandbox_of_two_nodes_meets_both(nodes: Cluster) -> None:
    fikit = Path(sys.executable).with_name("fikit")
    where = "echo $(hostname) $(ip netns identify $$)"
    command = [fikit, "sandbox", "--nodes", "2", "--", "srun", "--nodes=2", "--quiet", "sh", "-c", where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    networks = dict(line.split() for line in done.stdout.splitlines())
    assert sorted(networks) == ["node0", "node1"], done.stderr
    left = subprocess.run(["ip", "netns"], env=nodes.env, capture_output=True, text=True, check=True).stdout.split()
    assert not set(networks.values()) & set(left)
