"""How pairs of programs shared a GPU: rows of the pairs' table and of the conditions under which each cell was measured."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.pages.block import Key, Row
from bench.gpu.pages.runs import Found

HEAD = ("high + low", "requests", "sharing", "mode", "alone", "high alone, ms", "high shared, ms", "JCT ratio", "p99 ratio", "whole ratio", "low speed", "harvest", "host, us")  # fmt: skip
CONDITIONS = ("high + low", "requests", "sharing", "switch, us", "switches timed", "SM clock, MHz", "power, W")
PAIRS = (
    ("decode", "batch"),
    ("transformer_graph", "convolution"),
    ("transformer", "convolution"),
    ("transformer_graph", "triton_softmax"),
    ("transformer", "triton_softmax"),
    ("decode", "convolution"),
    ("triton_softmax", "batch"),
)
"""In the order of the page: decode's time alone is the steadiest. transformer_graph is the transformer as a CUDA graph."""

NAMES = {
    "slices": "without fikit or MPS", "budget": "fikit: budget", "budget_mps": "fikit: budget, MPS", "mps": "MPS alone",
    "mps_priority": "MPS, low below normal", "mps_half": "MPS, low on half the GPU", "budget_mps_half": "fikit: budget, MPS, low on half the GPU",
    "fifo_mps": "fikit: fifo, MPS", "prio_mps": "fikit: prio, MPS",
    "prio": "fikit: prio", "paper": "fikit: paper", "budget_asleep": "fikit: budget, never spins", "budget_alone": "fikit: budget, nobody beside it",
}  # fmt: skip
"""Ways of sharing, in the order of tables and pictures. The last four are of the runs of 2026-11-27 only."""


def order(way: str) -> int:
    """Of ways in tables and pictures; a way that is unknown here comes last."""
    return list(NAMES).index(way) if way in NAMES else len(NAMES)


def mode(way: str) -> str:
    """How the GPU was shared: by its time slices, or by MPS."""
    return "MPS" if "mps" in way.split("_") else "slices"


def measured(parts: Found, part: str = "pairs") -> list[Found]:
    """The cells that did not fail."""
    return [cell for cell in (parts.get(part) or {}).get("cells", []) if "error" not in cell]


def cells(parts: Found, part: str = "pairs") -> Iterator[tuple[Found, Found]]:
    """The cells that were measured, each with the high program alone: of the same cell, in older files of another minute."""
    for cell in measured(parts, part):
        yield cell, cell.get("high_alone") or parts[part]["alone"][f"{cell['pair'][0]}.{cell['kind']}"]


def key(cell: Found) -> Key:
    pair = tuple(cell["pair"])
    place = PAIRS.index(pair) if pair in PAIRS else len(PAIRS)
    return place, " + ".join(pair), cell["kind"] != "closed", order(cell["way"]), cell["way"]


def rows(parts: Found, part: str = "pairs") -> Iterator[Row]:
    """A row for each cell of the part `pairs`, or of a part of its form."""
    for cell, alone in cells(parts, part):
        host = cell.get("host_ns") or {}
        yield key(cell), (
            *_name(cell), mode(cell["way"]), "in turns" if "high_alone" in cell else "apart", f"{alone['mean_ns'] / 1e6:.2f}", f"{cell['high']['mean_ns'] / 1e6:.2f}",
            *_ratios(cell), f"{host['p50'] / 1000:.0f} ({host['p10'] / 1000:.0f} to {host['p90'] / 1000:.0f})" if host else "",
        )  # fmt: skip


def conditions(parts: Found, part: str = "pairs") -> Iterator[Row]:
    """A row for each cell of which the file has more than the programs' times."""
    for cell in measured(parts, part):
        switch = cell.get("switch") or {}
        told = (
            f"{switch['ns'] / 1000:.1f}" if switch.get("ns") is not None else "",
            str(switch.get("count", "")),
            _range(cell.get("sm_clock_mhz")),
            _range(cell.get("power_w")),
        )
        if any(told):
            yield key(cell), (*_name(cell), *told)


def _name(cell: Found) -> tuple[str, str, str]:
    return " + ".join(cell["pair"]), cell["kind"], cell["way"]


def _ratios(cell: Found) -> tuple[str, ...]:
    two = cell["way"] != "budget_alone"
    values = (cell["jct_ratio"], cell["p99_ratio"], cell.get("whole_ratio"), cell["low_speed"] if two else None, cell["harvest"] if two else None)  # fmt: skip
    jct, *others = ("-" if value is None else f"{value:.3f}" for value in values)
    waiting = f" ({cell['unfinished']} requests not begun)" if cell.get("unfinished") else ""
    return f"{jct}{waiting}", *others


def _range(value: Found | None) -> str:
    return "" if not value else f"{value['mean']:.0f} ({value['min']:.0f} to {value['max']:.0f})"
