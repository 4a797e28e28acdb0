"""On which GPU of which node a sharing job lands: on the first with room, which can cost more than sharing gains, or on the least loaded one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fikit.checks.check import Check, ok, warn
from fikit.slurm import config as slurm_config
from fikit.slurm import versions as slurm_versions
from fikit.slurm.config import Line, SlurmConfig

NAME = "spread"
WORD = "LL_SHARED_GRES"
PAGE = '"Which GPU a job gets" in docs/admin.md'


def area(conf: SlurmConfig, version: slurm_versions.Version) -> Iterator[Check]:
    """Nothing where no node has several GPUs with shards."""
    if not any(_several(node) for node in conf.nodes):
        return
    if WORD.lower() in conf.words("SelectTypeParameters"):
        yield ok(NAME, f"a sharing job gets the least loaded GPU of its node ({WORD})")
    elif version >= slurm_versions.SPREADS:
        yield warn(NAME, "sharing jobs all go to the first GPU with room while others are idle, which can make every job slower",
                   f"SelectTypeParameters=...,{WORD} in slurm.conf, unless whole GPUs must stay free there: {PAGE}")  # fmt: skip
    elif version:
        yield _packs(slurm_versions.line(version), conf.partitions)


def _packs(line: str, partitions: Sequence[Line]) -> Check:
    """Of a Slurm that cannot spread over the GPUs of a node; over nodes it can, if it is told so."""
    over_nodes = [part["partitionname"] for part in partitions if part.get("lln", "no").lower() == "yes"]
    packs = f"Slurm {line} puts sharing jobs of a node on its first GPU with room"
    if over_nodes:
        return ok(NAME, f"{packs}, but spreads them over nodes in {', '.join(over_nodes)} (LLN)")
    return ok(NAME, f"{packs}: {PAGE} says what to do about it")


def _several(node: Line) -> bool:
    gres = node.get("gres", "").lower()
    return slurm_config.count(gres, "gpu") > 1 and slurm_config.count(gres, "shard") > 0
