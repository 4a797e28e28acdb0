"""A program that uses the GPU of a sharing job without the shim is seen by NVML, and named once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from raw_hello import hello, uuids

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"


@pytest.fixture
def watching(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a fikitd that looks every second."""
    with cluster.new_fikitd(unmanaged_s=1):
        yield cluster


def test_program_without_the_preload_is_named_once_in_log_and_report(watching: Cluster, spin: Path) -> None:
    script = watching.script("around", f"LD_PRELOAD= {spin} 1000000 250000 & echo pid $!", "wait")
    job = watching.submit(script, GPU, HIGH)
    output = watching.directory / f"{job}.out"
    watching.until(lambda: output.exists() and output.read_text().count("\n"), "it does not begin")
    control = Control(watching.sandbox.run_dir)
    running = watching.until(lambda: [one for one in control.jobs() if one["job"] == job], "NVML does not show it")
    assert [one["unmanaged"] for one in running] == [1]
    other = watching.run("srun", GPU, HIGH, spin, "20", "20000")  # while the looks go on
    assert " 20 kernels" in other.stdout
    watching.run("scancel", job)
    assert watching.end(job) == "CANCELLED"
    pid = watching.output(job).split()[1]
    sentence = f"process {pid} uses the GPU around fikit: it is not scheduled, and what it does is not in this report"
    store = ReportStore(watching.sandbox.report_dir)
    report = watching.until(lambda: store.load(job), "there is no report")
    assert (report["unmanaged"], report["kernels"], report["warnings"]) == (1, 0, [sentence])
    assert (watching.sandbox.run_dir / "fikitd.log").read_text().count(sentence) == 1


def test_managed_programs_are_not_taken_for_others(watching: Cluster, spin: Path) -> None:
    job = watching.submit(watching.script("plain", f"exec {spin} 14000 250000"), GPU, HIGH)  # 3.5 s of GPU time
    watching.wait(job)
    report = watching.until(lambda: ReportStore(watching.sandbox.report_dir).load(job), "there is no report")
    assert (report["unmanaged"], report["warnings"]) == (0, [])
    assert "not looked for" not in (watching.sandbox.run_dir / "fikitd.log").read_text()


# Says hello for the job's GPU, keeps the connection, and becomes a program without the shim.
HELLO_AND_EXEC = """
import os, socket, sys
hello = bytes.fromhex(sys.argv[2].split(",")[int(os.environ["SLURM_JOB_GPUS"])])
client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
client.connect(sys.argv[1] + "/fikitd.sock")
client.send(hello)
assert client.recv(4096)[0] == 2
client.set_inheritable(True)
os.environ["LD_PRELOAD"] = ""
print("pid", os.getpid(), flush=True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def test_a_program_that_says_hello_and_goes_on_without_the_shim_is_named(watching: Cluster, spin: Path) -> None:
    hellos = ",".join(hello(uuid) for uuid in uuids(watching))
    program = watching.directory / "hello_and_exec.py"
    program.write_text(HELLO_AND_EXEC)
    words = ("/usr/bin/python3", program, watching.sandbox.run_dir, hellos, spin, "1000000", "250000")
    job = watching.submit(watching.script("silent", " ".join(map(str, words))), GPU, HIGH)
    control = Control(watching.sandbox.run_dir)
    watching.until(lambda: job in watching.managed(), "its hello was not welcome")
    named = watching.until(
        lambda: [one for one in control.jobs() if one["job"] == job and one["unmanaged"]], "it is not named"
    )
    pid = watching.output(job).split()[1]
    assert named[0]["warnings"] == [
        f"process {pid} uses the GPU around fikit: it is not scheduled, and what it does is not in this report"
    ]
    watching.run("scancel", job)
    assert watching.end(job) == "CANCELLED"
