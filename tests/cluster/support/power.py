"""A node's power switch: off without a word to anybody, and on again with an empty /run."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fikit.sandbox.processes import processes_of

if TYPE_CHECKING:
    from cluster_jobs import Cluster

OF_OTHER_NODES = ("munged", "slurmctld")


def power_off(cluster: Cluster) -> None:
    """Everything on the node ends in the same moment, without a word to anybody."""
    ended = [
        process
        for process in processes_of(cluster.sandbox.root)
        if not any(process.named(name) for name in OF_OTHER_NODES) and not named_as_title(process.pid, OF_OTHER_NODES)
    ]
    assert any(process.named("slurmd") for process in ended)
    for process in ended:
        process.kill()


def named_as_title(pid: int, names: tuple[str, ...]) -> bool:
    """slurmctld's script process calls itself `slurmctld: slurmscriptd`."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return title.startswith(tuple(f"{name}:" for name in names))


def power_on(cluster: Cluster) -> None:
    """/run is empty and the GPU has forgotten everything; slurmd starts and says that the node has booted."""
    off = int(time.time())
    while int(time.time()) <= off + 1:  # slurmctld compares whole seconds
        time.sleep(0.05)
    for path in cluster.sandbox.run_dir.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for env in cluster.sandbox.emulated:
        emuctl = cluster.sandbox.root / "native" / "bin" / "emuctl"
        subprocess.run([emuctl, "reset"], env=env, check=True, capture_output=True)
    cluster.sandbox.restart_slurmd(booted=True)


def resume(cluster: Cluster) -> None:
    """What an administrator says of a node that has failed; returns when it takes jobs."""
    for node in cluster.sandbox.nodes:
        cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    # Under 26.05 on a busy machine it has taken more than half a minute.
    cluster.until(lambda: cluster.node_state() == "idle", "the node is not back", timeout_s=90)
