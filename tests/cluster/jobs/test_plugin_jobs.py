"""What a job finds on the node: its record, the shim, the summary line; and what a job without fikit does not find."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikitd.api.client import Control
from fikitd.config.fikit_toml import SchedulerConfig
from remains import daemons

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"


def kill_fikitd(cluster: Cluster) -> None:
    found = daemons(cluster.sandbox)
    assert found
    for process in found:
        process.kill()


@pytest.mark.parametrize("command", [("srun",), ("salloc", "srun")])
def test_job_without_fikit_is_untouched(
    cluster: Cluster, probed: Callable[..., Probe], command: tuple[str, ...]
) -> None:
    probe = probed(command[0], GPU, *command[1:], cluster.probe)
    assert probe.record == {}
    # The emulated GPU is the sandbox's own doing: its TaskProlog stands for a driver that is simply installed.
    emulator = {name for name in probe.env if name.startswith("EMUCUDA_")} | {"LD_LIBRARY_PATH"}
    added = {n: v for n, v in probe.env.items() if n not in emulator and cluster.env.get(n) != v}
    named = [n for n, v in added.items() if "fikit" in f"{n}={v.replace(cluster.sandbox.root.name, '')}".lower()]
    assert named == []
    assert "LD_PRELOAD" not in probe.env
    assert probe.shards == 0
    assert probe.env["CUDA_VISIBLE_DEVICES"] == "0"


def test_managed_job_gets_two_variables(cluster: Cluster, batch_probed: Callable[..., Probe]) -> None:
    probe = batch_probed(cluster.probe, GPU, HIGH)
    assert probe.env["FIKIT_SOCKET"] == f"{cluster.sandbox.run_dir}/fikitd.sock"
    assert probe.env["LD_PRELOAD"] == str(cluster.sandbox.root / "native" / "libfikit_shim.so")
    assert sorted(name for name in probe.env if name.startswith("FIKIT")) == ["FIKIT_SOCKET"]


def test_preload_keeps_the_users_entries_and_never_doubles(
    cluster: Cluster, batch_probed: Callable[..., Probe]
) -> None:
    shim = cluster.sandbox.root / "native" / "libfikit_shim.so"
    mine = "/lib/x86_64-linux-gnu/libm.so.6"
    probe = batch_probed(cluster.script("nested", f"srun {cluster.probe}"), GPU, HIGH, LD_PRELOAD=f"{mine}:{shim}")
    assert probe.env["LD_PRELOAD"] == f"{shim}:{mine}"


def test_programs_that_are_no_64_bit_glibc_programs_run_silently_beside_managed_ones(
    cluster: Cluster, spin: Path, musl_program: Path, program_of_32_bits: Path
) -> None:
    programs = [shutil.copy(program, cluster.directory) for program in (musl_program, program_of_32_bits)]
    script = cluster.script("kinds", *map(str, programs), f"srun {programs[0]} {programs[1]}", f"exec {spin} 5 20000")
    job = cluster.submit(script, GPU, HIGH)
    *lines, summary = cluster.wait(job).splitlines()
    assert (lines, cluster.summaries(summary, job)) == (["fine"] * 4 + ["done"], [summary])
    assert " 5 kernels" in summary


def test_job_submitted_from_a_managed_job_inherits_no_preload(cluster: Cluster) -> None:
    inner = cluster.directory / "from-inside.out"
    outer = cluster.script(
        "submits", "unset ${!SLURM_SPANK_*} ${!SLURM_GPU*}", f"sbatch --parsable --output={inner} {GPU} {cluster.probe}"
    )
    job = cluster.batch(outer, GPU, HIGH).splitlines()[0]
    cluster.until(lambda: inner.exists() and "\nEND\n" in inner.read_text(), f"job {job} wrote nothing")
    assert "libfikit_shim" not in inner.read_text()
    assert "FIKIT_SOCKET" not in inner.read_text()


def test_record_lives_as_long_as_its_job(cluster: Cluster) -> None:
    before = cluster.records()
    hold = cluster.script("hold", "while [ ! -e release ]; do sleep 0.1; done")
    job = cluster.submit(hold, GPU, HIGH)
    cluster.until(lambda: job in cluster.records(), "no record was written")
    (cluster.directory / "release").touch()
    cluster.wait(job)
    cluster.until(lambda: cluster.records() == before, "the record stayed")


def test_two_sharing_jobs_meet_on_one_gpu_and_an_exclusive_job_on_the_other(cluster: Cluster) -> None:
    meet = cluster.script(
        "meet",
        "echo gpu=$SLURM_JOB_GPUS",
        "touch here.$1; until [ -e here.a -a -e here.b -a -e here.c ]; do sleep 0.1; done",
    )
    jobs = {}
    for who, options in {"a": [HIGH], "b": ["--fikit-priority=low"], "c": []}.items():
        jobs[who] = cluster.submit(cluster.script(f"meet-{who}", f"exec {meet} {who}"), GPU, *options)
    gpus = {who: cluster.wait(job).splitlines()[0] for who, job in jobs.items()}
    assert gpus["a"] == gpus["b"] == "gpu=0"
    assert gpus["c"] == "gpu=1"


def test_killed_fikitd_comes_back_with_the_next_job(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    probed("srun", GPU, HIGH, cluster.probe)
    kill_fikitd(cluster)
    assert probed("srun", GPU, HIGH, cluster.probe).record["priority"] == "1"
    assert Control(cluster.sandbox.run_dir).ping().startswith("fikitd")


def test_fikitd_that_cannot_start_costs_a_job_three_seconds_and_nothing_else(cluster: Cluster) -> None:
    cluster.sandbox.set_policy("nonsense")
    try:
        done = cluster.run("srun", GPU, HIGH, "echo", "worked")
        assert "worked" in done.stdout.splitlines()
        assert done.returncode == 0
        assert "fikitd did not answer" in (cluster.sandbox.logs / "slurmd.log").read_text()
    finally:
        cluster.sandbox.set_policy(SchedulerConfig().policy)


def test_daemon_inherits_nothing_from_slurmd_or_the_job(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    probed("srun", GPU, HIGH, cluster.probe, LD_LIBRARY_PATH="/evil")
    [daemon] = cluster.until(lambda: daemons(cluster.sandbox)[:1], "no fikitd runs")
    environ = Path(f"/proc/{daemon.pid}/environ").read_bytes().split(b"\0")
    # The emulated GPU is the sandbox's own doing, as in the jobs, and so is which Slurm fikitd speaks with.
    sandboxs = {b"LD_LIBRARY_PATH", b"EMUCUDA_NAME", b"EMUCUDA_CONFIG", b"SLURM_CONF"}
    assert {entry.split(b"=")[0] for entry in environ if entry} - sandboxs == {b"PATH", b"LANG"}
    assert b"/evil" not in b"".join(environ)
    assert Path(f"/proc/{daemon.pid}/oom_score_adj").read_text().strip() == "0"


def test_batch_job_ends_with_one_summary_line(cluster: Cluster, spin: Path) -> None:
    job = cluster.submit(cluster.script("work", f"{spin} 50 20000", f"srun {spin} 30 20000"), GPU, HIGH)
    output = cluster.wait(job)
    assert output.count("done") == 2
    assert len(cluster.summaries(output, job)) == 1, output
    assert "high" in cluster.summaries(output, job)[0]
    assert " 80 kernels" in cluster.summaries(output, job)[0]


def test_step_of_several_tasks_ends_with_one_summary_line(cluster: Cluster, spin: Path) -> None:
    done = cluster.run("srun", "--ntasks=2", GPU, HIGH, spin, "10", "20000")
    assert done.stdout.count("done") == 2, done.stdout
    assert done.stdout.count("fikit: job") == 1, done.stdout
    assert " 20 kernels" in done.stdout


def test_both_jobs_outlive_a_killed_fikitd(cluster: Cluster, spin: Path) -> None:
    script = cluster.script("long", f"exec {spin} 6000 250000")  # 1.5 s of GPU time each
    # One after the other: of two prologs at once each starts a fikitd, and the one to leave would take the killed one's place.
    jobs = [cluster.submit_running(script, f"--fikit-priority={level}") for level in ("high", "low")]
    kill_fikitd(cluster)
    for job in jobs:
        output = cluster.wait(job).splitlines()
        assert output.count("done") == 1
        assert len([line for line in output if "fikit" in line]) == 1, output
    done = cluster.run("srun", GPU, HIGH, spin, "5", "20000")
    assert " 5 kernels" in done.stdout


def test_unmanaged_program_in_a_managed_job_has_no_summary(cluster: Cluster) -> None:
    done = cluster.run("srun", GPU, HIGH, "true")
    assert done.returncode == 0
    assert "fikit" not in done.stdout
