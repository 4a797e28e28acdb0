"""What the placement agent rests on fails: slurmdbd, the node of the GPU that a job was given. No job waits for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.accounting import PACKAGES, PROGRAMS
from fikit.sandbox.sandbox import Sandbox
from test_place_jobs import MULTIFACTOR, Agent, set_mode, sleeping, started, steered
from test_place_pairs import can_pair, shown, state

if TYPE_CHECKING:
    from cluster_jobs import Cluster

LET_GO_S = 45.0
"""30 s, a look at the queue, and one of slurmctld's."""


@pytest.fixture(scope="module")
def accounted(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    if any(shutil.which(program, path="/usr/sbin:/usr/bin") is None for program in PROGRAMS):
        pytest.skip(f"needs {PACKAGES}")
    with Sandbox(accounting=True, slurm_lines=MULTIFACTOR) as own:
        yield make_cluster(own)


@pytest.fixture(scope="module")
def two(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """Two nodes, whose GPUs can be told by name."""
    with Sandbox(nodes=2, gpu_types=("g0",), slurm_lines=MULTIFACTOR) as own:
        (own.root / "place").mkdir()
        with own.fikit_toml.open("a") as file:
            file.write(f'\n[placement]\nmode = "pair"\nrun_dir = "{own.root}/place"\n')
        yield make_cluster(own)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[[Cluster], Agent]]:
    """Makes agents that end with the test, and their jobs with them."""
    made: list[Agent] = []

    def make(cluster: Cluster) -> Agent:
        made.append(Agent(cluster, tmp_path))
        return made[-1]

    yield make
    for agent in made:
        agent.end()
        agent.cluster.run("scancel", "--user=root")
        agent.cluster.until(
            lambda agent=agent: not agent.cluster.run("squeue", "--noheader").stdout.strip(), "jobs are left"
        )


def test_without_slurmdbd_jobs_are_ordered_and_start(accounted: Cluster, agents: Callable[[Cluster], Agent]) -> None:
    set_mode(accounted, "order")
    accounted.sandbox._group.end("slurmdbd")
    agents(accounted)
    first = sleeping(accounted, 5)
    long, short = sleeping(accounted, 1, "--time=300"), sleeping(accounted, 1, "--time=2")
    steered(accounted, short)
    for job in (first, long, short):
        accounted.wait(job)
    assert started(accounted, short) < started(accounted, long)


@can_pair
def test_a_job_whose_gpu_is_on_a_node_that_went_down_starts_on_another(
    two: Cluster, agents: Callable[[Cluster], Agent]
) -> None:
    heartbeat = two.sandbox.root / "place" / "heartbeat"
    agents(two)
    two.until(heartbeat.exists, "the agent did not begin")
    down = two.sandbox.nodes[0]
    two.run("scontrol", "update", f"NodeName={down}", "State=DOWN", "Reason=test")
    try:
        job = two.submit(two.script("anywhere", "sleep 1"), "--gres=shard:4")
        two.until(lambda: shown(two, job, r"ReqNodeList=(\S+)") == down, "it was not given a GPU of that node")
        two.until(lambda: state(two, job) not in {"PENDING", ""}, "it waits for the node", timeout_s=LET_GO_S)
        assert shown(two, job, r" NodeList=(\S+)") == two.sandbox.nodes[1]
        two.wait(job)
    finally:
        two.run("scontrol", "update", f"NodeName={down}", "State=RESUME")
