"""Jobs with more GPU memory than the GPU has: what is refused at submission, an unmodified client, turns and their ends, under a real Slurm."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.client import Control, ControlError
from fikitd.api.reports import ReportStore
from remains import daemons, nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

MIB = 2**20
GPU_MIB = 192  # smaller than Slurm has shards for, so that jobs fill it in a moment
PROGRAMS = Path(__file__).resolve().parents[2] / "device" / "support"  # rotating_child
GPU, LOW, ENOUGH = "--gres=gpu:1", "--fikit-priority=low", "--mem=400M"
HALF = (GPU, LOW, ENOUGH, "--fikit-mem=64M", "--fikit-mem-host=64M")


@pytest.fixture(scope="module")
def cluster(
    sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    model = tmp_path_factory.mktemp("model") / "model.toml"
    model.write_text("[default]\nbase_us = 2000\n")
    own = Sandbox(
        gpus=1, gpu_memory="4GiB", emulator_config=model, device={"memory": f"{GPU_MIB}MiB", "context_memory": 0},
        slurm_lines=["DefMemPerNode=50"],
    )  # fmt: skip
    own.oversubscribe = {"allow": "lower", "host_gib": 2, "epoch_s": 1}
    with own:
        yield make_cluster(own)
        nothing_remains(own)


def rotating(cluster: Cluster, seconds: float) -> Path:
    """Holds 128 MiB and goes through it with kernels; says at its end whether every byte is right."""
    code = f"import rotating_child; rotating_child.main(8, 16, {seconds})"
    return cluster.script("rotate", f"export PYTHONPATH={PROGRAMS}", f"exec {sys.executable} -c '{code}'")


def report(cluster: Cluster, job: str) -> dict[str, Any]:
    store = ReportStore(cluster.sandbox.report_dir)
    found: dict[str, Any] = cluster.until(lambda: store.load(job), f"job {job} has no report")
    return found


def turns(cluster: Cluster, job: str) -> int:
    try:
        return int(Control(cluster.sandbox.run_dir).job(job)["memory"]["moved"]["turns"])
    except ControlError:
        return 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((LOW, ENOUGH, "--fikit-mem-host=64M"), "--fikit-mem-host=64M needs --fikit-mem"),
        (("--fikit-priority=high", ENOUGH, "--fikit-mem=64M", "--fikit-mem-host=64M"), "is for jobs below high"),
        ((LOW, ENOUGH, "--fikit-mem=64M", "--fikit-mem-host=65M"), "is more than --fikit-mem=64M allows here, where a job has at most 2 times its --fikit-mem in all: ask for at most 64M"),
        ((LOW, "--mem=9G", "--fikit-mem=3G", "--fikit-mem-host=3G"), "is more than the 2 GiB of host memory"),
        ((LOW, "--mem=63M", "--fikit-mem=64M", "--fikit-mem-host=64M"), "and the job asks for 63: ask for at least --mem=64M"),
        ((LOW, "--mem-per-cpu=31M", "--cpus-per-task=2", "--fikit-mem=64M", "--fikit-mem-host=64M"), "and the job asks for 62"),
        ((LOW, "--mem-per-gpu=63M", "--fikit-mem=64M", "--fikit-mem-host=64M"), "and the job asks for 63"),
        ((LOW, "--fikit-mem=64M", "--fikit-mem-host=64M"), "and the job gets 50 where it does not ask: ask for at least --mem=64M"),
        ((LOW, "--exclusive", ENOUGH, "--fikit-mem=64M", "--fikit-mem-host=64M"), "cannot have the node alone"),
        (("--fikit-measure", "--fikit-mem=64M", "--fikit-mem-host=64M"), "and the job gets 50 where it does not ask"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["sbatch", "salloc"])
def test_what_a_job_may_not_have_is_said_at_submission(
    cluster: Cluster, command: str, options: tuple[str, ...], said: str
) -> None:
    what = ["--wrap=true"] if command == "sbatch" else ["true"]
    done = cluster.run(command, GPU, *options, *what)
    assert done.returncode != 0
    (sentence,) = [line for line in done.stdout.splitlines() if "fikit: " in line]
    assert said in sentence


BY_CPU = ("--mem-per-cpu=40M", "--cpus-per-task=2")


@pytest.mark.parametrize(
    ("options", "change", "done"),
    [
        ((ENOUGH,), "MinMemoryNode=63", False),
        ((ENOUGH,), "MinMemoryNode=64", True),
        (BY_CPU, "MinMemoryCPU=31", False),
        (BY_CPU, "MinMemoryCPU=32", True),
    ],
)
def test_a_user_takes_no_host_memory_back_that_the_job_may_need(
    cluster: Cluster, options: tuple[str, ...], change: str, done: bool
) -> None:
    """scontrol says of it that there was an error, and not which."""
    job = cluster.submit(
        cluster.script("waits", "true"), "--hold", GPU, LOW, *options, "--fikit-mem=64M", "--fikit-mem-host=64M"
    )
    key, _, mib = change.partition("=")
    before = cluster.fields(job)[key]
    assert (cluster.run("scontrol", "update", f"JobId={job}", change).returncode == 0) == done
    assert cluster.fields(job)[key] == (f"{mib}M" if done else before) != ""
    cluster.run("scancel", job)


CLIENT = """
import numpy as np
from tinygrad import Tensor
tensors, numbers = [], []
for i in range(36):
    numbers.append(np.random.default_rng(i).integers(0, 2**31, 2 * 2**20, dtype=np.int32))
    tensors.append(Tensor(numbers[-1], device="CUDA").realize())
print(all((t.numpy() == n).all() for t, n in zip(tensors, numbers)))
"""


def test_an_unmodified_client_has_one_and_a_half_times_the_memory_of_the_gpu(cluster: Cluster) -> None:
    pytest.importorskip("tinygrad")
    program = cluster.directory / "client.py"
    program.write_text(CLIENT)
    home = f"export HOME={cluster.directory} XDG_CACHE_HOME={cluster.directory}"
    script = cluster.script("client", home, f"exec {sys.executable} {program}")
    job = cluster.submit(script, GPU, LOW, "--mem=1G", "--fikit-mem=160M", "--fikit-mem-host=140M")
    assert cluster.wait(job).splitlines()[0] == "True"
    memory = report(cluster, job)["memory"]
    assert (memory["limit_bytes"], memory["peak_bytes"]) == (300 * MIB, 1.5 * GPU_MIB * MIB)
    assert 0.9 * GPU_MIB * MIB <= memory["moved"]["resident_peak_bytes"] <= GPU_MIB * MIB  # by a plan a bit less


def test_turns_a_job_that_is_cancelled_in_one_and_what_people_are_told(cluster: Cluster) -> None:
    jobs = cancelled, stays = tuple(cluster.submit(rotating(cluster, seconds), *HALF) for seconds in (90, 20))
    cluster.until(lambda: turns(cluster, cancelled) + turns(cluster, stays) >= 2, "they do not take turns")
    site = {"FIKIT_CONFIG": str(cluster.sandbox.fikit_toml)}
    assert "128 MiB / 128 MiB, " in cluster.run("fikit", "top", "--once", **site).stdout
    cluster.run("scancel", cancelled)
    assert cluster.end(cancelled) == "CANCELLED"
    assert "True" in cluster.wait(stays)
    said = {job: report(cluster, job) for job in jobs}
    assert sum(said[job]["memory"]["moved"]["turns"] for job in jobs) >= 2
    (waited, *_) = [job for job in jobs if any(entry["reason"] == "memory" for entry in said[job]["wait_reasons"])]
    assert (
        "while the memory of other jobs had its turn on the GPU" in cluster.run("fikit-report", waited, **site).stdout
    )
    page = cluster.directory / "page.html"
    assert cluster.run("fikit-report", waited, "--html", page, **site).returncode == 0
    assert "waited: the memory of other jobs had its turn" in page.read_text()
    for job in jobs:
        moved = json.loads(cluster.run("fikit-report", job, "--json", **site).stdout)["memory"]["moved"]
        assert moved["in_bytes"] >= moved["turns"] * 2 * MIB
        assert moved["resident_peak_bytes"] <= GPU_MIB * MIB


def test_jobs_outlive_a_killed_fikitd_and_one_that_runs_again_begins_anew(cluster: Cluster) -> None:
    again, stays = (cluster.submit(rotating(cluster, 12), *HALF, "--requeue") for _ in range(2))
    cluster.until(lambda: turns(cluster, again) + turns(cluster, stays), "they do not take turns")
    for daemon in daemons(cluster.sandbox):
        daemon.kill()
    cluster.run("scontrol", "requeue", again)
    assert "True" in cluster.wait(stays)
    cluster.start_again(again)
    assert "True" in cluster.wait(again)
    assert report(cluster, again)["memory"]["peak_bytes"] == 128 * MIB
