"""The run's file as tables for people. Pure: a document in, text out; what a part did not find is left out or said."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.gpu.pages import block, blocks

Found = Mapping[str, Any]
WIDTH = 118


def of(document: Found) -> str:
    """Everything that the file has."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, highlight=False)
    settings, parts = document["settings"], document["parts"]
    gpu = settings.get("gpu") or {}
    console.print(f"{settings.get('device') or 'no GPU'}{' (emulated)' if document.get('emulated') else ''}, "
                  f"{gpu.get('driver') or 'driver unknown'}, {document.get('date', '')}, fikit {settings.get('fikit', '')}")  # fmt: skip
    for name, show in SHOWN.items():
        part = parts.get(name)
        if part is None:
            continue
        if "error" in part:
            console.print(f"{name}: {part['error']}")
        if len(part) > ("error" in part):
            show(console, part)
    if settings.get("stuck"):
        console.print(f"could not be ended: {', '.join(settings['stuck'])}")
    return out.getvalue().rstrip()


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _us(ns: float | None) -> str:
    return "-" if ns is None else f"{ns / 1000:.1f}"


def _spread(spread: Found | None, unit: float = 1000) -> list[str]:
    return ["-"] * 4 if spread is None else [f"{spread[key] / unit:.1f}" for key in ("p10", "p50", "p90", "p99")]


def _costs(console: Console, part: Found) -> None:
    table = _table("Calls, ns (with one reading of the clock)", "call", "p10", "p50", "p90", "p99")
    for name, value in part.items():
        if name.endswith("_ns") and (isinstance(value, Mapping) or value is None):
            table.add_row(name.removesuffix("_ns"), *_spread(value, 1))
    console.print(table)
    if "kernel_ran_after_register" in part:
        console.print(
            f"a kernel still ran after memory was registered beside it: {part['kernel_ran_after_register']:.0%}"
        )


def _timing(console: Console, part: Found) -> None:
    table = _table(
        "Short kernels: what fikit measures against the truth",
        "length",
        "stream",
        "true us",
        "measured us",
        "ratio",
        "times",
    )
    for case in part["cases"]:
        measured = (
            [_us(case["measured_ns"]), f"{case['ratio']:.3f}", str(case["measured_count"])]
            if "ratio" in case
            else ["-"] * 3
        )
        table.add_row(_us(case["ns"]), "busy" if case["busy"] else "idle", _us(case["true_ns"]), *measured)
    console.print(table)


def _sharing(title: str) -> Any:
    def show(console: Console, part: Found) -> None:
        table = _table(f"{title}, us", "experiment", "what", "p10", "p50", "p90", "p99")
        for name, found in part.items():
            if not isinstance(found, Mapping):
                continue
            if "error" in found:
                table.add_row(name, found["error"])
                continue
            for key in ("slice_ns", "switch_ns", "enter_ns", "leave_ns"):
                value = found.get(key)
                if isinstance(value, Mapping):
                    table.add_row(name, key.removesuffix("_ns"), *_spread(value))
                elif value is not None:
                    table.add_row(name, key.removesuffix("_ns"), "", _us(value))
            if "took_ns" in found:
                table.add_row(name, "one kernel took", *_spread(found["took_ns"]["all"]))
            for key in ("overlap", "slowdown", "idle_yields"):
                if key in found:
                    table.add_row(name, key, "", str(found[key]))
        console.print(table)

    return show


def _memory(console: Console, part: Found) -> None:
    if not part.get("concurrent_managed_access"):
        console.print("memory: this GPU does not fetch managed memory by itself")
        return
    table = _table(
        "Managed memory, us (of 64 MiB, but for calls and allocations)", "what", "p10", "p50", "p90", "p99", "GB/s"
    )
    for name, value in part.items():
        if name.endswith("_ns") and isinstance(value, Mapping):
            kind = name.removesuffix("_ns")
            table.add_row(kind, *_spread(value), f"{part[f'{kind}_gbps']:.1f}" if f"{kind}_gbps" in part else "")
    console.print(table)
    for key, words in (
        ("fault_ns_per_chunk", "ns of page faults per 2 MiB, beyond a prefetch"),
        ("managed_over_plain", "times as long takes a kernel on managed memory that is there as on plain memory"),
        ("prefetch_beside_capture", "is the driver's answer to a prefetch beside a capture in global mode"),
        ("capture_beside_prefetch", "its answer at the end of that capture"),
    ):
        if key in part:
            console.print(f"  {part[key]} {words}")


def _conformance(console: Console, part: Found) -> None:
    console.print(f"conformance: {part['as_expected']} of {part['programs']} programs as expected")
    for name, found in part["different"].items():
        if "error" in found:
            last = f", its last word was {found['last']}" if found.get("last") else ""
            console.print(f"  {name}: {found['error']}{last}")
        for key, values in found.items():
            if isinstance(values, Mapping):
                console.print(f"  {name}.{key}: expected {values['expected']}, the driver says {values['said']}")


def _plans(console: Console, part: Found) -> None:
    table = _table("Passes of one program, ms: bare, with memory that may leave, with a part of it on the GPU by a plan", "program", "GiB", "there",
                   "bare", "all there", "planned", "EOR", "moved GiB", "missed MiB")  # fmt: skip
    for name, found in part.items():
        if not isinstance(found, Mapping):
            continue
        means = [
            f"{found[key]['p50'] / 1e6:.2f}" if key in found else "-" for key in ("bare_ns", "managed_ns", "planned_ns")
        ]
        peak, moved = found.get("peak_bytes"), found.get("in_bytes_per_pass", 0) + found.get("out_bytes_per_pass", 0)
        sizes = [f"{peak / 2**30:.2f}" if peak else "-", f"{1 - found['msr']:.2f}" if "msr" in found else "-"]
        eor = f"{found['eor']:.3f}" if "eor" in found else "-"
        table.add_row(
            name, *sizes, *means, eor, f"{moved / 2**30:.2f}", f"{found.get('missed_bytes_per_pass', 0) / 2**20:.1f}"
        )
    console.print(table)
    for name, found in part.items():
        if isinstance(found, Mapping) and "error" in found:
            console.print(f"  {name}: {found['error']}")


def _pairs(console: Console, part: Found) -> None:
    table = _table("A high program beside a low one, against each alone", "high + low", "requests", "sharing", "JCT ratio",
                   "p99 ratio", "low speed", "harvest")  # fmt: skip
    for cell in part.get("cells", []):
        first = [" + ".join(cell["pair"]), cell["kind"], cell["way"]]
        if "error" in cell:
            table.add_row(*first, cell["error"])
            continue
        keys = ("jct_ratio", "p99_ratio", "low_speed", "harvest")
        table.add_row(*first, *("-" if cell[key] is None else f"{cell[key]:.3f}" for key in keys))
    console.print(table)
    busy = _table(
        "A request alone: device time and launches",
        "program",
        "fikit us",
        "profiler us",
        "fikit launches",
        "profiler launches",
    )
    for name, found in part.get("device_ns", {}).items():
        counts = [f"{found[key]:.1f}" if key in found else "-" for key in ("launches", "profiler_launches")]
        busy.add_row(name, _us(found.get("fikit")), _us(found.get("profiler")), *counts)
    if busy.row_count:
        console.print(busy)
    for name in ("conditions", "correctness"):
        _rows(name, "pairs")(console, part)
    for note in part.get("notes", []):
        console.print(f"  {note}")


def _rows(name: str, part_name: str = "") -> Callable[[Console, Found], None]:
    """A block of the page, of this part alone."""

    def show(console: Console, part: Found) -> None:
        shown = blocks.BLOCKS[name]
        assert isinstance(shown, block.Table)
        table = _table(shown.title, *shown.head)
        if len(shown.head) <= 3:  # words, not figures
            for column in table.columns:
                column.justify = "left"
        for _, cells in shown.rows({part_name or name: part}):
            table.add_row(*(escape(text) for text in cells))
        if table.row_count:
            console.print(table)

    return show


def _frameworks(console: Console, part: Found) -> None:
    for name, found in part.items():
        if isinstance(found, Mapping):
            console.print(f"under fikit: {name}: {found.get('error') or str(found['kernels']) + ' launches seen'}")


SHOWN = {
    "questions": _rows("questions"),
    "costs": _costs,
    "launch": _costs,
    "timing": _timing,
    "slices": _sharing("Two programs without MPS"),
    "mps": _sharing("Two programs by MPS"),
    "memory": _memory,
    "conformance": _conformance,
    "plans": _plans,
    "pairs": _pairs,
    "frameworks": _frameworks,
    "long_cells": _pairs,
    "shaping": _rows("shaping"),
    "slurm": _rows("slurm"),
    "dangers": _rows("dangers"),
    "time_slices": _rows("time_slices"),
}
