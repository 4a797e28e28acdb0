"""Wrong wishes end with one sentence of ours before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"


def ours(output: str) -> list[str]:
    return [line for line in output.splitlines() if "fikit: " in line]


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--fikit-priority=urgent", "use high, normal, low"),
        ("--fikit-priority=10", "use high, normal, low"),
        ("--fikit-mem=lots", "use a size such as 20G"),
        ("--fikit-profile=../../etc/passwd", "use 1 to 64 letters"),
        ("--fikit-max-slowdown=120%", "use a share of 0 to 100 %"),
        ("--fikit-max-delay=200", "use a time such as 200us"),
    ],
)
def test_bad_value_is_one_sentence(cluster: Cluster, command: str, option: str, words: str) -> None:
    done = cluster.run(command, GPU, option, cluster.probe)
    assert done.returncode != 0
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert done.stdout.startswith(f"{command}: error: fikit: {option} is not valid: ")
    assert words in done.stdout


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
@pytest.mark.parametrize(
    ("name", "value"), [("FIKIT_PRIORITY", "urgent"), ("FIKIT_MEM", "lots"), ("FIKIT_MEASURE", "maybe")]
)
def test_bad_variable_is_one_sentence(cluster: Cluster, command: str, name: str, value: str) -> None:
    done = cluster.run(command, GPU, cluster.probe, **{name: value})
    assert done.returncode != 0
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert done.stdout.startswith(f"{command}: error: fikit: {name}={value} is not valid: ")


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gres=gpu:2", "--fikit-priority=high"), "ask for --gres=gpu:1 instead of 2 GPUs"),
        (("--fikit-priority=high",), "--fikit-priority needs a GPU: add --gres=gpu:1"),
        ((GPU, "--fikit-mem=17G"), "--fikit-mem=17G is more than the 16 GiB"),
        ((GPU, "--nodes=2", "--fikit-priority=low"), "runs on one node"),
        (("--fikit-measure",), "--fikit-measure measures a job alone on its GPU"),
    ],
)
def test_request_that_cannot_share_is_refused(
    cluster: Cluster, command: str, options: tuple[str, ...], words: str
) -> None:
    done = cluster.run(command, *options, cluster.probe)
    assert done.returncode != 0
    assert len(ours(done.stdout)) == 1, done.stdout
    assert words in ours(done.stdout)[0]


@pytest.mark.parametrize("command", ["srun", "sbatch"])
def test_a_variable_refuses_no_job_without_a_gpu(cluster: Cluster, command: str) -> None:
    wait = ("--wait", "--output=/dev/null") if command == "sbatch" else ()
    done = cluster.run(command, *wait, cluster.probe, FIKIT_PRIORITY="low")
    assert (done.returncode, ours(done.stdout)) == (0, []), done.stdout


def test_refused_requests_leave_nothing_behind(cluster: Cluster) -> None:
    cluster.run("sbatch", "--gres=gpu:2", "--fikit-priority=high", cluster.probe)
    cluster.until(lambda: not cluster.run("squeue", "--noheader").stdout.strip(), "a refused job is in the queue")
    assert cluster.node_state() == "idle"
