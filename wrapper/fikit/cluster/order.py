"""Which nodes and GPUs are shown, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from fikit.cluster.view import Gpu, Node

SORTS: Final = ("node", "use", "filled", "broken")
FILTERS: Final = ("all", "would share", "idle", "trouble")
FITS: Final[dict[str, Callable[[Gpu], bool]]] = {
    "would share": lambda gpu: gpu.would_share,
    "idle": lambda gpu: gpu.told and not gpu.jobs,
}


def ordered(nodes: Iterable[Node], by: str) -> list[Node]:
    """Most of it first; nodes of which it is not known come last. By `use`: the least used GPU first, for that is what one looks for."""
    found = list(nodes)
    if by == "use":
        return sorted(found, key=lambda node: min((gpu.use for gpu in node.gpus if gpu.use is not None), default=2.0))
    if by == "filled":
        return sorted(found, key=lambda node: -node.harvest_s)
    if by == "broken":
        return sorted(found, key=lambda node: -node.exceeded)
    return found


def chosen(nodes: Iterable[Node], which: str) -> list[Node]:
    """`would share`: GPUs that one job has alone and leaves idle for the most part; `idle`: that nobody has; `trouble`: nodes that are late, never wrote, or
    broke a promise today, or whose GPUs are used around fikit."""
    if which == "all":
        return list(nodes)
    if which == "trouble":
        return [
            node
            for node in nodes
            if node.late or node.age_s is None or node.exceeded or any(gpu.unmanaged for gpu in node.gpus)
        ]
    wanted = FITS[which]
    found = [replace(node, gpus=tuple(gpu for gpu in node.gpus if wanted(gpu)), elsewhere=()) for node in nodes]
    return [node for node in found if node.gpus]
