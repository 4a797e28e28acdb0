"""The cells of the pairs: programs, ways of sharing the GPU, kinds of requests, and their order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Pair = tuple[str, str]  # the high program, the low one

TORCH_PAIRS: Final[tuple[Pair, ...]] = (
    ("decode", "batch"),
    ("transformer_graph", "convolution"),
    ("transformer_graph", "triton_softmax"),
    ("decode", "convolution"),
    ("triton_softmax", "batch"),
)
DRIVER_PAIRS: Final[tuple[Pair, ...]] = (("short_kernels", "long_kernels"),)
FIRST_PAIRS: Final = 2  # have all their cells before the others
KINDS: Final = ("closed", "arrivals")  # one request after another; requests that come by chance


@dataclass(frozen=True)
class Way:
    """A way of sharing: keys of the high and the low worker, and fikitd's policy (empty: without fikit)."""

    high: str
    low: str
    policy: str = ""

    @property
    def by_mps(self) -> bool:
        """Whether the programs are clients of MPS."""
        return "mps" in self.high


WAYS: Final = {
    "budget_mps": Way("managed_mps.high", "managed_mps.low", "budget"),
    "budget": Way("managed.high", "managed.low", "budget"),
    "slices": Way("bare.high", "bare.low"),
    "mps": Way("mps.high", "mps.low"),
    "mps_priority": Way("mps.high", "mps_priority.low"),
    "budget_mps_half": Way("managed_mps.high", "managed_mps_half.low", "budget"),
    "mps_half": Way("mps.high", "mps_half.low"),
    "fifo_mps": Way("managed_mps.high", "managed_mps.low", "fifo"),
    "prio_mps": Way("managed_mps.high", "managed_mps.low", "prio"),
}
"""In the order of their worth. ..._mps: by fikitd's own MPS servers; mps_priority: the low program with a client priority below normal;
..._half: the low program on half of the multiprocessors."""


@dataclass(frozen=True)
class Cell:
    """One pair in one way, with one kind of requests."""

    way: str
    pair: Pair
    kind: str


def cells(pairs: tuple[Pair, ...], ways: tuple[str, ...], kinds: tuple[str, ...]) -> list[Cell]:
    """In the order of their worth. A group's cells are in the order of ways, because a change of the policy takes seconds."""
    groups = [group for group in (pairs[:FIRST_PAIRS], pairs[FIRST_PAIRS:]) if group]
    return [Cell(way, pair, kind) for group in groups for way in ways for kind in kinds for pair in group]
