"""What Slurm gives a job that says nothing of CPUs and memory: two that share a GPU need a part of the node each.

Slurm's own word: defaults can be changed while it runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

from fikit.checks.check import Check, ok, warn

NAME = "memory by default"
TIMEOUT_S = 10
_UNLIMITED = {"", "UNLIMITED", "0", "(null)"}


def area() -> Iterator[Check]:
    """Nothing where Slurm does not answer: other checks say so."""
    config, partitions = _scontrol("show", "config"), _scontrol("show", "partition", "-o")
    if config and partitions:
        yield memory(config, partitions)


def memory(config: str, partitions: str) -> Check:
    """config, partitions: what `scontrol show config` and `scontrol show partition -o` print."""
    cluster = {key.lower(): value.strip() for key, value in re.findall(r"^(\w+) *= (.*)$", config, re.MULTILINE)}
    if "memory" not in cluster.get("selecttypeparameters", "").lower():
        return ok(NAME, "Slurm gives no memory to jobs (SelectTypeParameters)")
    without = [name for line in partitions.splitlines() if (name := _whole_node(line, cluster))]
    if without:
        return warn(
            NAME,
            f"a job that does not say how much it needs gets all of a node's in partition {', '.join(without)}, and the next one "
            "on its GPU waits",
            "DefMemPerGPU=MB in slurm.conf, of all or of the partition (DefMemPerCPU= or DefMemPerNode= do as well)",
        )
    return ok(NAME, "every partition gives a job a part of its node's")


def _whole_node(line: str, cluster: dict[str, str]) -> str | None:
    """The partition's name, if nothing bounds what a job of it gets."""
    fields = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S+)", line)}
    jobs = f"{fields.get('jobdefaults', '')} {cluster.get('jobdefaults', '')} {line}".lower()
    if "defmempergpu=" in jobs:
        return None
    for key in ("defmempernode", "defmempercpu"):
        if any(where.get(key, "") not in _UNLIMITED for where in (fields, cluster)):
            return None
    return fields.get("partitionname")


def _scontrol(*words: str) -> str | None:
    if shutil.which("scontrol") is None:
        return None
    try:
        done = subprocess.run(["scontrol", *words], capture_output=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
