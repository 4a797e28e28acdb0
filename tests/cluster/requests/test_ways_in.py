"""Every way in which a job comes to share a GPU, and the one that takes longest to get out. Options and variables by themselves are in test_plugin_options.py."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
# Every request that means one GPU on one node, --gres=gpu:1 aside.
REQUESTS = [
    "--gres=gpu",
    "--gres=gpu:emulated:1",
    "--gpus=1",
    "--gpus=emulated:1",
    "--gpus-per-node=1",
    "--gpus-per-task=1",
]
SHARED = ("high", 4)


def shares(probe: Probe) -> tuple[str, int]:
    assert "libfikit_shim.so" in probe.env["LD_PRELOAD"]
    return {"1": "high", "8": "low"}[probe.record["priority"]], probe.shards


def test_batch_job_and_its_step_share_however_the_gpu_is_asked_for(
    cluster: Cluster, parsed: Callable[[str], Probe]
) -> None:
    step = cluster.script("both", str(cluster.probe), "echo STEP", f"srun {cluster.probe}")
    jobs = {request: cluster.submit(step, "--ntasks=1", request, HIGH) for request in REQUESTS}
    for request, job in jobs.items():
        batch, _, inner = cluster.wait(job).partition("STEP\n")
        assert (request, shares(parsed(batch)), shares(parsed(inner))) == (request, SHARED, SHARED)


@pytest.mark.parametrize("request_", ["--gres=gpu:emulated:1", "--gpus=emulated:1", "--gres=gpu"])
def test_step_that_is_a_job_of_its_own_shares(cluster: Cluster, probed: Callable[..., Probe], request_: str) -> None:
    assert shares(probed("srun", "--ntasks=1", request_, HIGH, cluster.probe)) == SHARED


@pytest.mark.parametrize("command", ["srun", "sbatch"])
def test_job_with_an_empty_environment_shares(
    cluster: Cluster, probed: Callable[..., Probe], batch_probed: Callable[..., Probe], command: str
) -> None:
    run = batch_probed if command == "sbatch" else lambda *words: probed("srun", *words[1:], words[0])
    assert shares(run(cluster.probe, "--export=NONE", GPU, HIGH)) == SHARED


@pytest.mark.parametrize(
    "request_", ["gres=gpu:emulated:1", "gres=gpu:1"]
)  # of a job without a type 22.05 takes none afterwards
def test_waiting_job_that_comes_to_ask_for_another_gpu_shares_that(
    cluster: Cluster, parsed: Callable[[str], Probe], request_: str
) -> None:
    job = cluster.submit(cluster.probe, f"--{request_}", HIGH, "--hold", "--ntasks=1")
    changed = cluster.run("scontrol", "update", f"JobId={job}", request_)
    assert changed.returncode == 0, changed.stderr
    cluster.run("scontrol", "release", job)
    assert shares(parsed(cluster.wait(job))) == SHARED


def test_steps_at_once_are_one_job(cluster: Cluster, spin: Path) -> None:
    step = f"srun --overlap --ntasks=1 {spin} 20 20000"
    job = cluster.submit(cluster.script("at-once", *[f"{step} &"] * 3, "wait"), "--ntasks=3", GPU, HIGH)
    output = cluster.wait(job)
    assert output.count("done") == 3
    assert [" 60 kernels" in line for line in cluster.summaries(output, job)] == [True], output


def test_every_task_of_an_array_is_a_job(cluster: Cluster, spin: Path) -> None:
    script = cluster.script("array", f"exec {spin} 10 20000")
    array = cluster.submit(script, f"--output={cluster.directory}/array.%a.%A.out", "--array=1-3", GPU, HIGH)
    outputs = [cluster.directory.glob(f"array.{task}.*.out") for task in (1, 2, 3)]
    found: dict[str, str] = {}

    def ended() -> bool:
        nonlocal found
        found = {path.name: path.read_text() for path in cluster.directory.glob("array.*.out")}
        return len(found) == len(outputs) and all("fikit: job" in text for text in found.values())

    cluster.until(ended, f"not every task has its line: {found}")
    lines = [line for text in found.values() for line in text.splitlines() if "fikit: job" in line]
    assert all("high: " in line and " 10 kernels" in line for line in lines), lines
    assert len({line.split()[2] for line in lines}) == 3
    assert {line.split()[3] for line in lines} == {f"({array}_{task})" for task in (1, 2, 3)}
    there = {"FIKIT_CONFIG": str(cluster.sandbox.fikit_toml)}
    shown = cluster.run("fikit-report", array, **there).stdout
    assert [f"({array}_{task})" in shown for task in (1, 2, 3)] == [True] * 3, shown
    assert f"fikit-report {array}_TASK" in shown
    for command in ("fikit-report", "fikit trace"):
        done = cluster.run(*command.split(), f"{array}_2", **there)
        assert (done.returncode, f"({array}_2)" in done.stdout or "traceEvents" in done.stdout) == (0, True), (
            done.stdout
        )


def test_components_of_a_heterogeneous_job_have_their_own_priorities(two_nodes: Cluster) -> None:
    show = (
        'cat "$0"/jobs/* | grep -E "^(job|priority)="; env | grep -E "^(SLURM_SHARDS_ON_NODE|LD_PRELOAD|SLURM_PROCID)="'
    )
    script = two_nodes.script("het", f"srun --het-group=0,1 --label bash -c '{show}' {two_nodes.sandbox.run_dir}")
    output = two_nodes.batch(script, GPU, HIGH, ":", GPU, "--fikit-priority=low", "--fikit-mem=2G")
    for task, shards in (("0", 4), ("1", 2)):
        said = {line.partition(": ")[2] for line in output.splitlines() if line.startswith(f"{task}: ")}
        assert {"priority=1", "priority=8", f"SLURM_SHARDS_ON_NODE={shards}"} <= said, output
        assert any("libfikit_shim.so" in line for line in said), output


@pytest.mark.parametrize("way", ["sbatch", "srun"])
def test_components_of_a_heterogeneous_job_are_found_by_its_number(two_nodes: Cluster, spin: Path, way: str) -> None:
    low = (":", GPU, "--fikit-priority=low", "--fikit-mem=2G")
    if way == "sbatch":
        job = two_nodes.submit(two_nodes.script("het-report", f"srun --het-group=0,1 {spin} 10 20000"), GPU, HIGH, *low)
        assert two_nodes.wait(job).count("done") == 2
    else:
        done = two_nodes.run("srun", GPU, HIGH, spin, "10", "20000", *low, spin, "20", "20000")
        assert (done.returncode, done.stdout.count("done")) == (0, 2), done.stdout
        (job,) = re.findall(r"fikit: job \d+ \((\d+)\+0\) high: ", done.stdout)
    there = {"FIKIT_CONFIG": str(two_nodes.sandbox.fikit_toml)}

    def places() -> list[str]:
        done = two_nodes.run("fikit-report", job, "--json", **there)
        return [record["het"] for record in json.loads(done.stdout)] if done.returncode == 0 else []

    two_nodes.until(lambda: places() == [f"{job}+0", f"{job}+1"], f"not both components are listed: {places()}")
    shown = two_nodes.run("fikit-report", job, **there).stdout
    assert f"Job {job} is a heterogeneous job" in shown
    alone = {**there, "SLURM_CONF": "/dev/null"}  # as when Slurm has forgotten it
    assert f"({job}+1)" in two_nodes.run("fikit-report", f"{job}+1", **alone).stdout


def test_a_component_without_a_gpu_goes_beside_one_that_shares(two_nodes: Cluster) -> None:
    done = two_nodes.run("srun", GPU, HIGH, "true", ":", "echo", "no GPU here")
    assert done.returncode == 0, done.stdout
    assert "no GPU here" in done.stdout


def test_job_submitted_from_a_sharing_job_has_its_own_wishes_only(
    cluster: Cluster, parsed: Callable[[str], Probe]
) -> None:
    inner = {"cpu": "", "exclusive": GPU, "low": f"{GPU} --fikit-priority=low --fikit-mem=2G"}
    lines = [
        f"sbatch --output={cluster.directory}/inner-{name}.out {options} {cluster.probe} >/dev/null"
        for name, options in inner.items()
    ]
    cluster.batch(cluster.script("submits-others", *lines), GPU, HIGH)
    probes = {}
    for name in inner:
        path = cluster.directory / f"inner-{name}.out"
        cluster.until(lambda path=path: path.exists() and "\nEND\n" in path.read_text(), f"{name} did not run")
        probes[name] = parsed(path.read_text())
    assert (probes["cpu"].record, probes["exclusive"].record) == ({}, {})
    assert (probes["cpu"].shards, probes["exclusive"].shards) == (0, 0)
    assert shares(probes["low"]) == ("low", 2)


def test_submitit_runs_functions_and_maps_of_them(cluster: Cluster, spin: Path) -> None:
    program = Path(__file__).resolve().parents[1] / "programs" / "submits.py"
    done = cluster.run(sys.executable, program, cluster.directory / "submitit", spin)
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if " managed " in line]  # others say that there is no sacct
    assert lines == ["function: managed done", "map 0: managed done", "map 1: managed done"]

    def reports() -> list[str]:
        logs = (path.read_text() for path in (cluster.directory / "submitit").glob("*_log.*"))
        return [line for log in logs for line in log.splitlines() if "fikit: job" in line and " high: " in line]

    cluster.until(lambda: len(reports()) == 3, "not every job's log has the summary line")


def test_job_out_of_time_leaves_its_report(two_nodes: Cluster, out_of_time: str) -> None:
    ended = two_nodes.until(lambda: two_nodes.ended(out_of_time), "it was not ended", timeout_s=60)
    assert ended["JobState"] == "TIMEOUT"
    two_nodes.until(lambda: two_nodes.summaries(two_nodes.output(out_of_time), out_of_time), "there is no summary line")
    two_nodes.until(lambda: two_nodes.reported_kernels(out_of_time) > 0, "there is no report")
