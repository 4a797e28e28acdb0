"""`scontrol reboot`: the node boots when its job is done, and the next one finds fikit as on any other day."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fikit.sandbox.sandbox import Sandbox
from power import power_off, power_on
from remains import nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

HIGH = "--fikit-priority=high"


def test_job_before_a_reboot_ends_as_ever_and_the_one_behind_it_is_managed(
    sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster], spin: Path, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    reboot = tmp_path / "reboot"
    reboot.write_text(f"#!/bin/sh\ntouch {asked}\n")
    reboot.chmod(0o755)
    with Sandbox(gpus=1, slurm_lines=[f"RebootProgram={reboot}"]) as own:
        cluster = make_cluster(own)
        program = cluster.directory / "spin"
        program.write_bytes(spin.read_bytes())
        program.chmod(0o755)
        until = "until [ -e go ]; do sleep 0.05; done"
        before = cluster.submit_running(cluster.script("before", f"{program} 4000 250000", until), HIGH)
        done = cluster.run("scontrol", "reboot", "ASAP", "nextstate=RESUME", *own.nodes)
        assert done.returncode == 0, done.stdout
        behind = cluster.submit(cluster.script("behind", f"exec {program} 20 20000"), "--gres=gpu:1", HIGH)
        assert not asked.exists(), "the node does not wait for its job"
        (cluster.directory / "go").touch()
        output = cluster.wait(before)
        assert [" 4000 kernels" in line for line in cluster.summaries(output, before)] == [True], output
        cluster.until(asked.exists, "the node is not told to reboot")
        nothing_remains(own)
        power_off(cluster)
        power_on(cluster)
        output = cluster.wait(behind)
        assert [" 20 kernels" in line for line in cluster.summaries(output, behind)] == [True], output
        nothing_remains(own)
