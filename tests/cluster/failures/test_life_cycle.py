"""What dies in the middle: slurmd, slurmstepd, fikitd, a prolog, a program. The rest goes on, reports are there, nothing stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fikit.sandbox.processes import Process, processes_of
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.profiles.profile_store import ProfileStore
from remains import daemons, descriptors, nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
LOW = "--fikit-priority=low"


def command_of(process: Process) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def running(cluster: Cluster, *words: str) -> list[Process]:
    """The sandbox's processes whose command line has these words."""
    found = []
    for process in processes_of(cluster.sandbox.root):
        try:
            if all(word in command_of(process) for word in words):
                found.append(process)
        except OSError:
            continue
    return found


def held(cluster: Cluster, spin: Path, name: str, *options: str) -> str:
    """A job that launches 40 kernels, waits for the file NAME.go and launches 40 more, when it waits."""
    wait = f"until [ -e {name}.go ]; do sleep 0.05; done"
    script = cluster.script(name, f"{spin} 40 20000", f"echo first >{name}.first", wait, f"{spin} 40 20000")
    job = cluster.submit(script, GPU, HIGH, *options)
    cluster.until((cluster.directory / f"{name}.first").exists, f"{name} does not begin")
    return job


def go(cluster: Cluster, name: str) -> None:
    (cluster.directory / f"{name}.go").touch()


def test_restarted_slurmd_finds_its_jobs_as_they_were(cluster: Cluster, spin: Path) -> None:
    job = held(cluster, spin, "under-slurmd")
    cluster.sandbox.restart_slurmd()
    go(cluster, "under-slurmd")
    output = cluster.wait(job)
    assert [" 80 kernels" in line for line in cluster.summaries(output, job)] == [True], output
    cluster.until(lambda: cluster.reported_kernels(job) == 80, "there is no report")


def test_killed_slurmstepd_leaves_a_managed_program(cluster: Cluster, spin: Path) -> None:
    job = cluster.submit_running(cluster.script("orphan", f"exec {spin} 4000 250000"), HIGH)  # 1 s of GPU time
    [stepd] = running(cluster, f"slurmstepd: [{job}.batch]")
    stepd.kill()
    cluster.until(lambda: not running(cluster, str(spin)), "the program does not end")
    cluster.run("scancel", job)
    cluster.until(lambda: cluster.ended(job), "the job does not end", timeout_s=60)
    cluster.until(lambda: cluster.reported_kernels(job) == 4000, "there is no report of all kernels")


def test_killed_program_has_a_report_and_the_next_one_of_the_job_is_managed(cluster: Cluster, spin: Path) -> None:
    script = cluster.script("goes-on", f"{spin} 1000000 250000", f"echo code $?; {spin} 30 20000")
    job = cluster.submit_running(script, "--fikit-measure", "--fikit-profile=killed")
    [program] = running(cluster, f"{spin} 1000000")
    cluster.until(lambda: Control(cluster.sandbox.run_dir).job(job)["kernels"], "it does not compute")
    program.kill()
    output = cluster.wait(job)
    assert "code 137" in output
    assert output.count("done") == 1
    cluster.until(lambda: cluster.reported_kernels(job) > 30, "there is no report of both")
    profile = ProfileStore(cluster.sandbox.profile_dir).load(os.getuid(), "killed")
    assert profile is not None
    assert profile["launches"] == cluster.reported_kernels(job)


def test_killed_prolog_is_slurms_affair_and_leaves_nothing_of_ours(cluster: Cluster, spin: Path) -> None:
    cluster.run("srun", GPU, HIGH, "true")
    [fikitd] = cluster.until(lambda: daemons(cluster.sandbox)[:1], "no fikitd runs")
    os.kill(fikitd.pid, signal.SIGSTOP)  # a prolog waits for it
    try:
        job = cluster.submit(cluster.script("late", f"exec {spin} 20 20000"), GPU, HIGH)
        [prolog] = cluster.until(lambda: running(cluster, "slurmstepd spank prolog"), "there is no prolog")
        prolog.kill()
    finally:
        os.kill(fikitd.pid, signal.SIGCONT)
    # Slurm drains the node of any failed prolog, and holds the job.
    cluster.until(lambda: "drain" in cluster.node_state(), "Slurm does not mind")
    nothing_remains(cluster.sandbox)
    cluster.run("scontrol", "update", f"NodeName={cluster.sandbox.nodes[0]}", "State=RESUME")
    cluster.run("scancel", job)
    done = cluster.run("srun", GPU, HIGH, spin, "5", "20000")
    assert " 5 kernels" in done.stdout, done.stdout


def test_job_that_ends_while_no_fikitd_runs_has_a_report_that_says_what_is_lost(cluster: Cluster, spin: Path) -> None:
    script = cluster.script("bereft", f"{spin} 40 20000", f"{spin} 8000 250000")  # the second takes 2 s of GPU time
    job = cluster.submit(script, GPU, HIGH)
    store = ReportStore(cluster.sandbox.report_dir)

    def second_is_served() -> bool:
        return job in cluster.managed() and Control(cluster.sandbox.run_dir).job(job)["kernels"] > 40

    cluster.until(second_is_served, "it does not begin")
    for fikitd in daemons(cluster.sandbox):
        fikitd.kill()
    output = cluster.wait(job)
    assert (output.count("done"), output.count("fikitd is gone")) == (2, 1), output
    assert store.load(job) is None
    cluster.run("srun", GPU, LOW, spin, "5", "20000")  # starts the next fikitd
    report = cluster.until(lambda: store.load(job), "there is no report")
    assert (report["kernels"], report["state"]) == (40, "ended")
    assert report["warnings"] == ["fikitd ended under a process of the job, and what it did then is not in its report"]


def test_daemon_that_a_prolog_started_has_nothing_of_slurms(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    probed("srun", GPU, HIGH, cluster.probe)
    [fikitd] = cluster.until(lambda: daemons(cluster.sandbox)[:1], "no fikitd runs")
    [slurmd] = [process for process in running(cluster, "slurmd -D") if process.named("slurmd")]
    assert os.getpgid(fikitd.pid) == os.getsid(fikitd.pid) != os.getsid(slurmd.pid)
    assert not set(ancestors(fikitd.pid)) & {slurmd.pid}
    log = str(cluster.sandbox.run_dir / "fikitd.log")
    opened = descriptors(fikitd)
    assert opened[:3] == ["/dev/null", log, log]
    ours = (str(cluster.sandbox.run_dir), "socket:", "anon_inode:", "/memfd:fikit")
    spare = ["/dev/null"]  # with which fikitd refuses when it has no descriptor left (scarcity.py)

    def has_nothing_else() -> bool:
        return [name for name in descriptors(fikitd)[3:] if not name.startswith(ours)] in ([], spare)

    cluster.until(has_nothing_else, "the record of the job that just ended is still being written")
    assert Path(f"/proc/{fikitd.pid}/cwd").readlink() == Path("/")


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
