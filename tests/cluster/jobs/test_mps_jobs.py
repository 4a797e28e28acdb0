"""Jobs under `[gpu] mps = "multi-user"`: two users' programs are clients of one server; who has a GPU alone is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.config.fikit_toml import SchedulerConfig
from users import as_user

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU, HIGH, LOW = "--gres=gpu:1", "--fikit-priority=high", "--fikit-priority=low"
NAMES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
SHOW = f"env | grep -E '^({'|'.join(NAMES)})=' | sort; echo shown"


@pytest.fixture
def mps(cluster: Cluster) -> Iterator[Path]:
    """RUN_DIR/mps, while the cluster's fikitd has MPS."""
    sandbox = cluster.sandbox
    directory = sandbox.run_dir / "mps"
    sandbox.gpu = {"mps": "multi-user"}
    sandbox.set_policy(SchedulerConfig().policy)
    try:
        yield directory
        cluster.until(lambda: not list(directory.glob("*.json")), "MPS did not end")
    finally:
        sandbox.gpu = {}
        sandbox.set_policy(SchedulerConfig().policy)
    assert_no_mps(cluster.run("srun", GPU, HIGH, cluster.script("after", SHOW)).stdout)
    assert not directory.exists()


def assert_no_mps(output: str) -> None:
    """Of `SHOW`; srun may say before it that its job was queued."""
    assert output.splitlines()[-1] == "shown", output
    assert "CUDA_MPS" not in output


def report(cluster: Cluster, job: str, uid: int = 0) -> dict[str, Any]:
    store = ReportStore(cluster.sandbox.report_dir)
    found = cluster.until(lambda: store.load(job, uid), f"job {job} has no report")
    assert isinstance(found, dict)
    return found


def test_two_users_jobs_share_a_server_one_is_cancelled_and_an_exclusive_job_joins_none(
    cluster: Cluster, spin: Path, mps: Path
) -> None:
    control, enough = Control(cluster.sandbox.run_dir), cluster.directory / "mps-enough"
    # On a busy machine a server takes longer than a program waits for it.
    there = f"until ls {mps}/*/emulated_server >{os.devnull}; do sleep 0.1; done 2>&1"
    shown = cluster.script("mps-shown", SHOW)
    # The first job of a fikitd has no MPS where NVML takes longer to say which GPU is which than a step waits.
    cluster.until(lambda: NAMES[0] in cluster.run("srun", GPU, HIGH, shown).stdout, "nobody is told to join")
    script = cluster.script("mps-high", SHOW, there, f"until [ -e {enough} ]; do {spin} 400 250000 || exit 1; done")
    high = cluster.submit_running(script, HIGH, "--fikit-mem=4G")
    command = ["sbatch", "--parsable", f"--output={cluster.directory}/%j.out", GPU, LOW]
    endless = cluster.script("mps-low", SHOW, f"exec {spin} 1000000 250000")
    done = cluster.sandbox.run([*as_user("www-data"), *command, str(endless)], env=cluster.env, cwd=cluster.directory)
    assert done.returncode == 0, done.stderr
    low = done.stdout.strip()
    cluster.until(lambda: {high, low} <= set(cluster.managed()), "they are not both there")
    cluster.until(lambda: control.job(low)["kernels"] > 0, "the low one does nothing")

    def both() -> dict[str, dict[str, Any]]:
        """The clients by job; the high job begins one program after another."""
        there = {client["job"]: client for client in control.node()["clients"]}
        return there if there.keys() >= {high, low} else {}

    clients = cluster.until(both, "they are not both there")
    assert clients[high]["gpu"] == clients[low]["gpu"]
    assert {client["device_mode"] for client in clients.values()} == {"mps"}, control.jobs()
    (server,) = mps.glob("*/emulated_server")
    assert listed(cluster, server.parent) >= {clients[low]["pid"]}

    # Who has a GPU alone: whatever the shell had from which it was submitted.
    inherited = dict(zip(NAMES, (str(server.parent), "0", "0=5120M"), strict=True))
    for exclusive in ((GPU,), (GPU, "--fikit-measure")):
        assert_no_mps(cluster.run("srun", *exclusive, shown, **inherited).stdout)

    cluster.run("scancel", low)
    assert cluster.end(low) == "CANCELLED"
    cluster.until(lambda: clients[low]["pid"] not in listed(cluster, server.parent), "it is still a client")
    enough.touch()
    output = cluster.wait(high).splitlines()
    assert output[:4] == ["CUDA_MPS_CLIENT_PRIORITY=0", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=5120M",
                          f"CUDA_MPS_PIPE_DIRECTORY={server.parent}", "shown"]  # fmt: skip
    assert cluster.output(low).startswith("CUDA_MPS_CLIENT_PRIORITY=1\nCUDA_MPS_PIPE_DIRECTORY=")
    for job, uid in ((high, os.getuid()), (low, int(clients[low]["uid"]))):
        found = report(cluster, job, uid)
        assert (found["device_mode"], found["warnings"]) == ("mps", [])


def listed(cluster: Cluster, pipes: Path) -> set[int]:
    """The clients of the one server there, as its control daemon says."""
    control = cluster.sandbox.root / "native" / "emulator" / "nvidia-cuda-mps-control"

    def ask(command: str) -> str:
        env = {**cluster.env, "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
        return subprocess.run([control], input=command, env=env, capture_output=True, text=True, check=True).stdout

    return {int(pid) for pid in ask(f"get_client_list {ask('get_server_list').strip()}").split()}
