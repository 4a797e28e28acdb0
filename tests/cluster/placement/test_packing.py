"""Which GPU a sharing job gets: memory is never given twice, types are kept apart, exclusive jobs are alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.needs import SandboxError, can_spread
from fikit.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
WAITS = "waits"


class Holders:
    """Jobs that keep what they got until the test is over."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._jobs: list[str] = []
        self._script = cluster.script("holder", "echo $SLURM_JOB_GPUS", "exec sleep 1000")
        cluster.until(lambda: not cluster.run("squeue", "--noheader").stdout.strip(), "another test's job does not end")

    def submit(self, *options: str) -> str:
        """The job's GPU, or WAITS, once Slurm has decided."""
        self._jobs.append(self._cluster.submit(self._script, *options))
        answer = self._cluster.until(lambda: self.where(-1), f"Slurm did not decide about a job with {options}")
        return str(answer)

    def sharing(self, memory: str, gpu: str = GPU) -> str:
        return self.submit(gpu, f"--fikit-mem={memory}")

    def where(self, index: int) -> str:
        """Of the n-th job; "" while nothing is decided."""
        job = self._jobs[index]
        fields = self._cluster.fields(job)
        if fields["JobState"] == "PENDING":
            return WAITS if fields["Reason"] == "Resources" else ""
        output = self._cluster.directory / f"{job}.out"
        return output.read_text().strip() if output.exists() else ""

    def end(self, *indices: int) -> None:
        for index in indices or range(len(self._jobs)):
            self._cluster.run("scancel", self._jobs[index])
        for index in indices or range(len(self._jobs)):
            assert self._cluster.end(self._jobs[index]) == "CANCELLED"

    def until(self, index: int, where: str) -> None:
        self._cluster.until(lambda: self.where(index) == where, f"job {index} is not at {where}")


@pytest.fixture
def hold() -> Iterator[Callable[[Cluster], Holders]]:
    made: list[Holders] = []

    def of(cluster: Cluster) -> Holders:
        made.append(Holders(cluster))
        return made[-1]

    yield of
    for holders in made:
        holders.end()


@pytest.fixture(scope="module")
def two_models(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A node with a GPU of each of two models, named as MIG instances are; where Slurm can do so, the least loaded one takes a job that asks for any."""
    with Sandbox(gpus=2, gpu_types=("1g.18gb", "3g.71gb"), spread=can_spread()) as other:
        yield make_cluster(other)


def test_jobs_are_packed_by_memory_and_never_beyond_it(cluster: Cluster, hold: Callable[[Cluster], Holders]) -> None:
    jobs = hold(cluster)
    assert [jobs.sharing("10G"), jobs.sharing("10G"), jobs.sharing("6G")] == ["0", "1", "0"]
    assert jobs.sharing("7G") == WAITS  # 13 GiB are free, but on no GPU more than 6
    jobs.end(1)
    jobs.until(3, "1")


def test_exclusive_and_sharing_jobs_never_meet(cluster: Cluster, hold: Callable[[Cluster], Holders]) -> None:
    jobs = hold(cluster)
    assert [jobs.sharing("2G"), jobs.submit(GPU)] == ["0", "1"]
    assert jobs.submit(GPU) == WAITS
    jobs.end(2)
    assert jobs.sharing("2G") == "0"
    assert jobs.sharing("13G") == WAITS  # the exclusive job's GPU has 16 free GiB, which are not to be shared
    jobs.end(1)
    jobs.until(4, "1")


def test_least_loaded_gpu_takes_the_next_job_where_the_site_says_so(
    two_models: Cluster, hold: Callable[[Cluster], Holders]
) -> None:
    jobs = hold(two_models)
    found = [jobs.sharing("4G"), jobs.sharing("2G"), jobs.sharing("2G")]
    assert found == (["0", "1", "1"] if can_spread() else ["0", "0", "0"])
    if not can_spread():
        with pytest.raises(SandboxError, match=r"Slurm older than 24\.11 packs sharing jobs"):
            Sandbox(gpus=2, spread=True).start()


def test_job_of_a_type_shares_a_gpu_of_that_type(two_models: Cluster, hold: Callable[[Cluster], Holders]) -> None:
    jobs = hold(two_models)
    assert [jobs.sharing("10G", "--gres=gpu:3g.71gb:1"), jobs.sharing("4G", "--gpus=3g.71gb:1")] == ["1", "1"]
    assert jobs.sharing("4G", "--gpus-per-node=3g.71gb:1") == WAITS  # though the other model's GPU is idle
    assert jobs.submit("--gres=gpu:1g.18gb:1") == "0"
    done = two_models.run("srun", "--gres=gpu:3g.71gb:1", "--fikit-mem=2G", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
    assert done.stdout.splitlines()[-1] == "on 1"


@pytest.fixture(scope="module")
def four_gpus(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A node of four GPUs, which spreads sharing jobs where this Slurm can."""
    with Sandbox(gpus=4, spread=can_spread()) as other:
        yield make_cluster(other)


def test_eight_sharing_jobs_land_two_on_each_of_four_gpus(
    four_gpus: Cluster, hold: Callable[[Cluster], Holders]
) -> None:
    """With LL_SHARED_GRES. A Slurm that does not know it (22.05) puts them where there is room first; a share of half a GPU's memory
    is then what makes them two on each (docs/admin.md)."""
    jobs = hold(four_gpus)
    found = [jobs.sharing("2G" if can_spread() else "8G") for _ in range(8)]
    assert sorted(found) == ["0", "0", "1", "1", "2", "2", "3", "3"]
    if can_spread():
        assert sorted(found[:4]) == ["0", "1", "2", "3"]  # none has a second one while another has none
    else:
        assert found[:2] == ["0", "0"]


def test_without_spreading_small_jobs_pile_up_on_the_first_gpu(
    cluster: Cluster, hold: Callable[[Cluster], Holders]
) -> None:
    """Slurm's default, which docs/admin.md warns of."""
    jobs = hold(cluster)
    assert [jobs.sharing("2G") for _ in range(4)] == ["0"] * 4
