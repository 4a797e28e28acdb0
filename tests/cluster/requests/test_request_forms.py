"""Every form of a request for one GPU: a sharing job runs with what the same job has without fikit, its variables included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikit.slurm import versions

if TYPE_CHECKING:
    from cluster_jobs import Cluster

LOW = "--fikit-priority=low"
# Of each job, of the moment, or of Slurm's own search for a way.
OF_THE_JOB = re.compile(
    r"SLURM_(JOB_?ID|PACK_JOB_ID|TASK_PID|SRUN_COMM|STEP_LAUNCHER|LAUNCH|LOG|JOB_(ID|PACK|START|END)|DISTRIBUTION|STEP_?ID)"
)
# From here on Slurm without fikit gives a job with --gpus-per-socket and --cpus-per-gpu all CPUs of the node (24.11.5), or never starts
# it (26.05.5).
ODD_SOCKETS = (24, 11)
SLURMS_OWN = {"SLURM_SHARDS_ON_NODE", "SLURMD_TRES_BIND"}


@pytest.fixture(scope="module")
def sized(make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A cluster that gives memory to jobs, with defaults for each GPU: one for all, more in the partition `big`."""
    lines = [
        "SelectTypeParameters=CR_Core_Memory",
        "DefCpuPerGPU=2",
        "DefMemPerGPU=200",
        "PartitionName=big Nodes=ALL DefCpuPerGPU=5 DefMemPerGPU=500 OverSubscribe=YES",
    ]
    with Sandbox(gpus=1, slurm_lines=lines) as sandbox:
        yield make_cluster(sandbox)


def seen(cluster: Cluster, command: str, options: list[str], inside: str = "", **env: str) -> dict[str, object]:
    """What a job of these options has: Slurm's variables in it and in a step of it, CPUs, memory."""
    show = cluster.script(
        "show",
        "[ $SLURM_PROCID = 0 ] || exit 0",
        "echo BEGIN",
        "env | grep -E ^SLURM",
        "scontrol show job -o $SLURM_JOB_ID | grep -oE ' (NumCPUs|NumNodes|NumTasks|TRES)=[^ ]*' | sed 's/^ /job./'",
    )
    script = cluster.script("outer", str(show), f"srun {inside} {show}")
    if command == "sbatch":
        output = cluster.batch(script, *options, **env)
    else:
        done = cluster.run(command, *options, show if command == "srun" else script, **env)
        assert done.returncode == 0, done.stdout
        output = done.stdout
    found: dict[str, object] = {}
    for i, part in enumerate(output.split("BEGIN\n")[1:]):
        for name, _, value in (line.partition("=") for line in part.splitlines() if "=" in line):
            if not OF_THE_JOB.match(name) and "SPANK" not in name and name not in SLURMS_OWN:
                found[f"{min(i, 1)}.{name}"] = value
    assert found, output
    return found


def same(cluster: Cluster, command: str, options: list[str], inside: str = "", **env: str) -> None:
    without = seen(cluster, command, options, inside, **env)
    assert seen(cluster, command, [LOW, *options], inside, **env) == without
    if "--gpu-bind" not in " ".join(options):
        assert seen(cluster, command, options, inside, **env, FIKIT_PRIORITY="low") == without, "a wish"


@pytest.mark.parametrize(
    ("options", "inside"),
    [
        ("--gres=gpu:1", "--gres=gpu:1"),
        ("--gpus-per-node=1", "--gpus-per-node=1"),
        ("--gpus=1 -c3", "--gpus=1"),
        ("--gpus-per-task=1 -n1", ""),
        ("--gpus-per-socket=1 --sockets-per-node=1 --cpus-per-gpu=1", ""),
        ("--gpus-per-node=1 --mem-per-gpu=100M --cpus-per-gpu=3", ""),
        ("--gpus=1 --mem=90", "--mem=80"),
        ("--gres=gpu:1 --gpu-bind=closest -p big", ""),
    ],
)
def test_batch_job_and_its_step_are_as_without_fikit(sized: Cluster, options: str, inside: str) -> None:
    version = versions.installed()
    if "--gpus-per-socket" in options and version is not None and version >= ODD_SOCKETS:
        assert seen(sized, "sbatch", [LOW, *options.split()], inside)["0.job.NumCPUs"] == "1", "what it asks for"
        return
    same(sized, "sbatch", options.split(), inside)


def test_variables_that_ask_are_options(sized: Cluster) -> None:
    same(sized, "sbatch", [], SBATCH_GPUS="1", SBATCH_MEM_PER_GPU="100", SBATCH_CPUS_PER_GPU="3")


def test_step_in_sallocs_shell_is_as_without_fikit(sized: Cluster) -> None:
    options = ["--gpus-per-node=1", "--mem-per-gpu=100M", "--cpus-per-gpu=3"]
    without, with_fikit = seen(sized, "salloc", options), seen(sized, "salloc", [LOW, *options])
    # The shell itself, which is no part of the job, sees how Slurm has the memory now.
    assert with_fikit.pop("0.SLURM_MEM_PER_NODE", "100") == "100"
    assert with_fikit == without


@pytest.mark.parametrize(
    "options",
    ["--gres=gpu:1", "--gpus-per-node=1", "--gpus=1 --mem-per-gpu=100M --cpus-per-gpu=3", "--gpus-per-task=1 -n1"],
)
def test_srun_is_as_without_fikit(sized: Cluster, options: str) -> None:
    same(sized, "srun", options.split())


def test_tasks_that_fill_a_gpu_are_as_many_as_without_fikit(sized: Cluster) -> None:
    for command in ("srun", "sbatch"):
        without = seen(sized, command, ["--gpus=1", "--ntasks-per-gpu=2"])
        shared = seen(sized, command, [LOW, "--gpus=1", "--ntasks-per-gpu=2"])
        differ = {name for name in without.keys() | shared.keys() if without.get(name) != shared.get(name)}
        assert {name.partition(".")[2] for name in differ} <= {"SLURM_NTASKS_PER_TRES"}


def test_two_jobs_with_the_defaults_of_one_gpu_run_at_once(sized: Cluster) -> None:
    script = sized.script("meets", "touch met.$SLURM_JOB_ID", 'until [ "$(ls met.* | wc -l)" = 2 ]; do sleep 0.1; done')
    jobs = [sized.submit(script, "--gres=gpu:1", LOW) for _ in range(2)]
    for job in jobs:
        sized.wait(job)


def test_a_frequency_of_ones_own_is_not_for_a_gpu_that_is_shared(sized: Cluster) -> None:
    for command in ("srun", "sbatch"):
        done = sized.run(command, "--gpus=1", "--gpu-freq=medium", LOW, sized.probe)
        assert "leave --gpu-freq or --fikit-priority out" in done.stdout
    assert (
        "SLURM_SHARDS_ON_NODE"
        not in sized.run("srun", "--gpus=1", "--gpu-freq=low", "env", FIKIT_PRIORITY="low").stdout
    )


@pytest.mark.parametrize(
    "asked",
    [
        "--gres=gpu:1",
        "--gpus=1",
        "--gpus-per-node=1",
        "--gpus-per-task=1 -n1",
        "--gpus=1 --mem-per-gpu=50M",
        "--cpus-per-gpu=1",
    ],
)
def test_step_from_outside_runs_in_a_job_that_shares(sized: Cluster, asked: str) -> None:
    job = sized.submit(sized.script("waits", "until [ -e enough ]; do sleep 0.1; done"), "--gpus=1", "--fikit-mem=3G")
    try:
        sized.until(lambda: sized.fields(job)["JobState"] == "RUNNING", "the job did not start")
        done = sized.run("srun", f"--jobid={job}", "--overlap", *asked.split(), "env")
        assert "SLURM_SHARDS_ON_NODE=3" in done.stdout, done.stdout
    finally:
        (sized.directory / "enough").touch()
        sized.wait(job)
        (sized.directory / "enough").unlink()


@pytest.mark.parametrize(
    ("command", "options"), [("srun", "-N1-2"), ("srun", "-N1-2 -n2"), ("sbatch", "-N1-2"), ("sbatch", "-N1-2 -n2")]
)
def test_a_sharing_job_has_one_node(two_nodes: Cluster, command: str, options: str) -> None:
    script = two_nodes.script("nodes", "echo nodes=$SLURM_JOB_NUM_NODES")
    words = ["--gres=gpu:1", LOW, "--overcommit", *options.split()]
    output = two_nodes.batch(script, *words) if command == "sbatch" else two_nodes.run(command, *words, script).stdout
    assert set(re.findall("nodes=.*", output)) == {"nodes=1"}, output
