"""One throw-away Slurm for all cluster tests; cluster_jobs.py submits to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_jobs import Cluster, Probe, cluster_of, parse_probe
from fikit.sandbox.needs import PROGRAMS
from fikit.sandbox.sandbox import Sandbox
from remains import nothing_remains


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    if os.geteuid() != 0 or any(shutil.which(program, path="/usr/sbin:/usr/bin") is None for program in PROGRAMS):
        pytest.skip("needs root and Debian's Slurm packages")
    with Sandbox(gpus=2) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def shared_cluster(sandbox: Sandbox) -> Cluster:
    return cluster_of(sandbox)


@pytest.fixture(scope="session")
def two_nodes(sandbox: Sandbox) -> Iterator[Cluster]:
    """A cluster of two nodes, for jobs that one node cannot have."""
    with Sandbox(gpus=1, nodes=2) as pair:
        yield cluster_of(pair)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, before and after every test with an undrained node on which nothing is left of jobs."""
    yield shared_cluster
    assert "drain" not in shared_cluster.node_state()
    nothing_remains(shared_cluster.sandbox)


@pytest.fixture(scope="session")
def make_cluster() -> Callable[[Sandbox], Cluster]:
    """For a test's own sandbox."""
    return cluster_of


@pytest.fixture
def parsed() -> Callable[[str], Probe]:
    """Reads what the probe wrote into a job's output."""
    return parse_probe


@pytest.fixture
def probed(cluster: Cluster) -> Callable[..., Probe]:
    """Run a command that runs the probe in a job, and read what it printed."""

    def run(*command: str | Path, **env: str) -> Probe:
        done = cluster.run(*command, **env)
        assert done.returncode == 0, done.stdout
        return parse_probe(done.stdout)

    return run


@pytest.fixture
def batch_probed(cluster: Cluster) -> Callable[..., Probe]:
    """Submit a batch script that runs the probe, and read what it printed."""
    return lambda script, *options, **env: parse_probe(cluster.batch(script, *options, **env))


@pytest.fixture(scope="session")
def spin(cc: Callable[..., Path], shared_cluster: Cluster) -> Path:
    """A GPU program: `spin COUNT NS` launches COUNT kernels of NS nanoseconds each and prints `done`."""
    # It calls through pointers without a prototype, which C23, the newest compilers' default, no longer has.
    built = cc("tests/cluster/programs/spin.c", "-std=gnu17", "-ldl")
    return Path(shutil.copy(built, shared_cluster.directory / "spin"))


@pytest.fixture(scope="session")
def out_of_time(two_nodes: Cluster, spin: Path) -> str:
    """A job that runs out of time while others are tested: slurmctld looks only twice a minute for those."""
    script = two_nodes.script("endless", f"{shutil.copy(spin, two_nodes.directory / 'late')} 1000000 250000")
    job = two_nodes.submit_running(script, "--fikit-priority=high", "--time=1")
    two_nodes.run("scontrol", "update", f"JobId={job}", "EndTime=now+1")  # Slurm's shortest limit is a minute
    return job
