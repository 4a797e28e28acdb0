"""Managed memory that leaves the GPU and comes back: what docs/memory.md assumes, of a driver and a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bench.gpu import processes, stamps
from bench.gpu.place import Place

Found = dict[str, Any]
PIECES: Final = 16  # of 64 MiB
QUICK_PIECES: Final = 8
CHUNK_BYTES: Final = 2 * 2**20
OF_PIECES: Final = (
    "copy_in", "copy_out", "prefetch_in", "prefetch_out", "prefetch_out_again", "out_behind_kernel", "in_behind_kernel", "prefetch_out_by_2mib",
    "prefetch_in_by_2mib", "prefetch_out_by_16mib", "prefetch_in_by_16mib", "prefetch_out_preferred", "prefetch_in_preferred", "prefetch_out_to_node", "prefetch_in_beside_out", "fault_each_page", "fault_each_chunk",
)  # fmt: skip


def memory(place: Place, quick: bool, evict: bool, limit_s: float) -> Found:
    """evict: the GPU is filled, and plain allocations push managed memory out. Series as spreads of ns, and what follows from them: rates in GB/s, ns of faults per 2 MiB beyond the bytes, managed memory against plain."""
    program = [str(place.program("fikit-gpu-memory")), str(QUICK_PIECES if quick else PIECES)]
    program += ["evict"] if evict else []
    said = json.loads(processes.run("fikit-gpu-memory", program, place.env, place.directory, limit_s))
    series = {name: values for name, values in said.items() if isinstance(values, list) and name != "attributes"}
    found: Found = {name: value for name, value in said.items() if name not in series}
    found |= {f"{name}_ns": stamps.spread(values) for name, values in series.items()}
    return {**found, **derived(found)}


def derived(found: Mapping[str, Any]) -> Found:
    """What nobody measured is left out."""
    middle = {
        name: found[f"{name}_ns"]["p50"]
        for name in (*OF_PIECES, "touch_plain", "touch_managed")
        if found.get(f"{name}_ns")
    }
    bytes_ = found["piece_bytes"]
    out: Found = {f"{name}_gbps": round(bytes_ / ns, 2) for name, ns in middle.items() if name in OF_PIECES}
    if {"prefetch_in", "fault_each_page"} <= middle.keys():
        beyond_ns = middle["fault_each_page"] - middle["prefetch_in"]
        out["fault_ns_per_chunk"] = round(max(0.0, beyond_ns) * CHUNK_BYTES / bytes_)
    if {"touch_plain", "touch_managed"} <= middle.keys():
        out["managed_over_plain"] = round(middle["touch_managed"] / middle["touch_plain"], 3)
    return out
