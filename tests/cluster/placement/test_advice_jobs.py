"""`fikit advise` on a real Slurm: it sees who runs where, knows earlier runs by the name that Slurm gives them, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from users import as_user, can_run_fikit

if TYPE_CHECKING:
    from cluster_jobs import Cluster

NAME = 'my "job"\nJobId=99 JobName=x Nodes=vm CPU_IDs=0 Mem=0 GRES=shard:emulated:16(IDX:1)'


def advised(cluster: Cluster, *words: str | Path) -> dict[str, Any]:
    done = cluster.run("fikit", "advise", "--json", *words, FIKIT_CONFIG=cluster.sandbox.env["FIKIT_CONFIG"])
    assert done.returncode == 0, done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def neighbour(cluster: Cluster, spin: Path) -> Any:
    """A job that has the first GPU's 10 GiB, by a name that looks like an answer of scontrol, and has run once before."""
    short = cluster.script("short", f"{spin} 100 250000", "sleep 1")
    options = ("--fikit-priority=high", "--fikit-mem=10G", f"--job-name={NAME}")
    cluster.batch(short, "--gres=gpu:1", *options)
    job = cluster.submit_running(cluster.script("long", f"{spin} 1000000 250000"), *options, "--time=30")
    yield job
    cluster.run("scancel", job)
    cluster.end(job)


def test_it_sees_a_running_job_and_advises(cluster: Cluster, neighbour: str) -> None:
    script = cluster.script("mine", "#SBATCH --gres=gpu:1 --fikit-priority=low --fikit-mem=4G --time=20", "sleep 1")
    before = cluster.run("squeue", "--noheader").stdout.split()[0]
    found = advised(cluster, script)
    by_index = {each["index"]: each for each in found["gpus"]}
    assert by_index[0]["verdict"] in ("shares", "slower")
    assert by_index[1]["verdict"] == "idle"
    (beside,) = by_index[0]["beside"]
    assert (beside["job"], beside["shards"], beside["priority"]) == (neighbour, 10, 1)
    assert beside["source"] == "name", "it is known by the name with which it ran before, whatever that looks like"
    assert by_index[0]["free"] == 6
    assert found["expected"]["source"] in ("user", "limit"), "of its own name there was no run"
    assert 0 < found["expected"]["rest_s"] <= 1200
    assert cluster.run("squeue", "--noheader").stdout.split()[0] == before, "nothing was submitted"
    large = cluster.script("large", "#SBATCH --gres=gpu:1 --fikit-priority=low --fikit-mem=12G --time=20", "sleep 1")
    assert [each["verdict"] for each in advised(cluster, large)["gpus"]] == ["idle", "later"]


def test_of_a_job_that_runs(cluster: Cluster, neighbour: str) -> None:
    found = advised(cluster, "--job", neighbour)
    assert (found["job"]["running"], found["job"]["priority"], found["job"]["shards"]) == (True, 1, 10)
    assert [each["index"] for each in found["gpus"]] == [0]
    assert found["expected"]["source"] == "name"


def test_a_user_who_may_read_nothing_of_others_sees_what_squeue_shows(cluster: Cluster, neighbour: str) -> None:
    if not can_run_fikit("games"):
        pytest.skip("user games may not enter this Python's directory")
    script = cluster.script("theirs", "#SBATCH --gres=gpu:1 --fikit-priority=low --fikit-mem=4G --time=20", "sleep 1")
    done = cluster.run(
        *as_user("games"), "fikit", "advise", "--json", script, FIKIT_CONFIG=cluster.sandbox.env["FIKIT_CONFIG"]
    )
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    (beside,) = next(each for each in found["gpus"] if each["index"] == 0)["beside"]
    assert (beside["job"], beside["uid"], beside["shards"]) == (neighbour, 0, 10)
    # By what squeue shows, or by runs of games' own in other tests; by the neighbour's, it would be known by its name.
    assert beside["source"] in ("limit", "cluster"), "others' runs are not theirs to read"
    assert beside["busy_source"] in ("assumed", "cluster")
    assert found["expected"]["source"] != "name"
