"""`fikit top --all` on a real Slurm: what its node's fikitd writes, and what Slurm says of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster_jobs import Cluster
from fikit.sandbox.sandbox import Sandbox


def top(cluster: Cluster) -> dict[str, Any]:
    done = cluster.sandbox.run(["fikit", "top", "--all", "--json"], timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_who_shares_a_gpu_and_who_has_one_alone(cluster: Cluster, spin: Path) -> None:
    (status := cluster.directory / "status").mkdir(mode=0o755, exist_ok=True)
    script = cluster.script("spins", f"{spin} 1000000 250000")
    with cluster.new_fikitd(status_dir=str(status), gpu_use_s=1):
        high = cluster.submit_running(script, "--fikit-priority=high")
        alone = cluster.submit(script, "--gres=gpu:1")

        def seen() -> dict[str, Any] | None:
            """Once NVML has been asked since both jobs use their GPUs."""
            [node] = (found := top(cluster))["nodes"]
            gpus = node["gpus"]
            known = {job["job"] for gpu in gpus for job in gpu["jobs"]}
            return found if {high, alone} <= known and all(gpu["use"] for gpu in gpus) else None

        found = cluster.until(seen, "top --all never showed both jobs", 90)
        [node] = found["nodes"]
        jobs = {job["job"]: (job["priority"], job["name"]) for gpu in node["gpus"] for job in gpu["jobs"]}
        assert jobs == {high: (1, "spins"), alone: (None, "spins")}
        assert [gpu["emulated"] for gpu in node["gpus"]] == [True, True]
        assert {gpu["by_nvml"] for gpu in node["gpus"] if gpu["jobs"][0]["job"] == alone} == {True}
        assert (found["totals"]["shared"], found["totals"]["alone"], node["late"], node["elsewhere"]) == (
            1,
            1,
            False,
            [],
        )
        text = cluster.sandbox.run(["fikit", "top", "--all"]).stdout
        assert f"{high} spins root high" in text
        assert f"alone: {alone} spins root" in text
        cluster.run("scancel", high, alone)
        for job in (high, alone):
            cluster.end(job)
        cluster.until(lambda: top(cluster)["totals"]["today"]["ended"] >= 1, "the job's end was not counted", 60)


def test_a_job_that_leaves_its_gpu_idle_is_told_that_it_would_share(cluster: Cluster, spin: Path) -> None:
    idle = cluster.script("idles", f"for i in $(seq 40); do {spin} 1 1000; sleep 0.2; done")
    nothing = cluster.script("nothing", "true")
    with cluster.new_fikitd(gpu_use_s=1):
        unused = cluster.submit(nothing, "--gres=gpu:1", "--fikit-priority=low")
        cluster.wait(unused)
        alone = cluster.submit(idle, "--gres=gpu:1")
        cluster.wait(alone)

        def told(job: str) -> dict[str, Any] | None:
            done = cluster.sandbox.run(["fikit-report", job, "--json"])
            return json.loads(done.stdout) if done.returncode == 0 else None

        found = cluster.until(lambda: told(alone), "nothing was stored of the job that had its GPU alone")
        assert found["busy"] is not None
        assert found["looks"] >= 3
        assert found["busy"] < 0.5
        [advice] = found["advice"]
        assert (advice["rule"], advice["line"].split()[:3]) == (
            "share",
            ["sbatch", "--gres=gpu:1", "--fikit-priority=high"],
        )
        found = cluster.until(lambda: told(unused), "nothing was stored of the job that used no GPU")
        assert (found["shared"], found["name"], [each["rule"] for each in found["advice"]]) == (
            True,
            "nothing",
            ["unused"],
        )


def test_dcgm_exporter_is_told_which_jobs_have_which_gpu(cluster: Cluster, spin: Path) -> None:
    (files := cluster.directory / "job-map").mkdir(mode=0o755)
    script = cluster.script("maps", f"{spin} 1000000 250000")
    with cluster.new_fikitd():
        with cluster.sandbox.fikit_toml.open("a") as config:
            config.write(f'[metrics]\njob_map_dir = "{files}"\n')
        shares = cluster.submit_running(script, "--fikit-priority=high")
        alone = cluster.submit(script, "--gres=gpu:1")

        def told() -> list[str]:
            texts = []
            for path in (files / "0", files / "1"):
                with suppress(FileNotFoundError):
                    texts.append(path.read_text())
            return sorted(texts)

        cluster.until(lambda: told() == sorted([f"{shares}\n", f"{alone}\n"]), "the files never had both jobs")
        cluster.run("scancel", shares, alone)
        for job in (shares, alone):
            cluster.end(job)
        cluster.until(lambda: list(files.iterdir()) == [], "files of jobs that have ended stayed")


@pytest.mark.slow
def test_two_nodes_each_tell_of_their_own_gpu(make_cluster: Callable[[Sandbox], Cluster]) -> None:
    """Each with a host name and a fikitd of its own, as on a cluster."""
    with Sandbox(gpus=1, nodes=2, apart=True) as sandbox:
        two = make_cluster(sandbox)
        (status := two.directory / "status").mkdir(mode=0o755)
        sandbox.daemon["status_dir"] = str(status)
        sandbox.set_policy("budget")
        nothing = two.script("sleeps", "sleep 60")
        jobs = {
            node: two.submit(nothing, "--gres=gpu:1", "--fikit-priority=low", f"--nodelist={node}")
            for node in sandbox.nodes
        }

        def told() -> dict[str, Any] | None:
            found = {node["node"]: node for node in top(two)["nodes"]}
            return found if all(node["age_s"] is not None for node in found.values()) else None

        found = two.until(told, "a node never wrote", 60)
        assert {name: [job["job"] for job in node["elsewhere"]] for name, node in found.items()} == {
            name: [job] for name, job in jobs.items()
        }
        assert all(
            node["state"] in ("mixed", "allocated") and len(node["gpus"]) == 1 and not node["late"]
            for node in found.values()
        )
        two.run("scancel", *jobs.values())
        for job in jobs.values():
            two.end(job)
