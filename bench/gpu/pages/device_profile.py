"""The run's file as a device for emulator and simulator: the format of emulator/profiles, each constant with its origin.

What was not measured is left out: there the emulator's defaults hold (emulator/profiles/default.toml, "assumed"). Measured, and left out
because neither emulator nor simulator has a constant for it: what the driver's calls take, but for prefetches on a stream without work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from bench.gpu.earlier.memory import CHUNK_BYTES
from bench.record import BenchError

Found = Mapping[str, Any]
BLOCKS_FROM: Final = 0.9  # of a move's time in the call


def toml(document: Found, file: str) -> str:
    """file: the document's name, for the origin. BenchError where it has no device."""
    settings, parts = document["settings"], document["parts"]
    gpu = settings.get("gpu") or {}
    if not gpu.get("name"):
        raise BenchError("the file says of no GPU what it is like")
    device = gpu["name"]
    measured, assumed = f"measured on {device}", "assumed"
    driver = re.search(r"\d+\.\d+(\.\d+)?", gpu.get("driver") or "")
    where = [device, f"driver {driver[0]}" if driver else "driver unknown", str(document.get("date", ""))[:10]]
    lines = [
        f"# {device} as an emulated GPU, and for `fikit sim --device FILE`. Made by `python -m bench gpu {file} --profile THIS`.",
        f'# "{measured}" is: {", ".join(where)}, fikit {settings.get("fikit", "")}, {file}, where the value has the name behind it.',
        "# What is not here was not measured: the emulator's default (default.toml) holds. Figures of the emulated GPU say nothing about hardware.",
        "",
        "[device]",
    ]
    name = device if "Emulated" in device else f"Emulated {device}"

    def put(key: str, value: Any, origin: str) -> None:
        lines.append(f"{f'{key} = {_value(value)}':<30} # {origin}")

    put("name", name, f"{measured}, with a word that says what this is")
    put("memory", f"{max(1, round(gpu.get('memory_bytes', 0) / 2**20))}MiB", f"{measured}, gpu.memory_bytes")
    put("sharing", "slices", f"{assumed}: the default of every GPU; mps: change it here")
    for key, number, origin in _constants(parts, measured):
        if number is None:
            lines.append(f"# {key}: not found, the default (assumed) holds")
        else:
            put(key, number, origin)
    put("concurrent_kernels", 128, f"{assumed}: resident grids of compute capability 7.0 and newer")
    put("compute_capability", gpu.get("compute_capability", "9.0"), f"{measured}, gpu.compute_capability")
    for table, constants in _memory(parts.get("memory") or {}, measured).items():
        lines += ["", f"[{table}]"] if constants else []
        for key, number, origin in constants:
            put(key, number, origin)
    for kernel in ("fikit_spin", "fikit_stamp"):
        lines += ["", "[[kernel]]"]
        put("match", kernel, f"{assumed}: the programs' own")
        put("duration", "param0_ns", f"{assumed}: the programs' own")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _constants(parts: Found, measured: str) -> list[tuple[str, Any, str]]:
    slices, mps = parts.get("slices") or {}, parts.get("mps") or {}
    chains, full = slices.get("chains") or {}, slices.get("chains_full") or {}
    # Kernels that fill the GPU: what a switch saves and restores is most then, as it mostly is of real programs.
    of_slice = "chains_full" if full.get("slice_ns") else "chains"
    of_switch = "chains_full" if full.get("switch_ns") else "chains"
    slice_ns = _median((slices.get(of_slice) or {}).get("slice_ns"))
    switch_ns = _median((slices.get(of_switch) or {}).get("switch_ns"))
    small = _us(_median(chains.get("switch_ns")))
    beside_long = _us((slices.get("beside_long") or {}).get("switch_ns"))
    usual = [one for one in slices.get("alone", []) if one["blocks"] == 1]
    took = _middle(((slices.get("latency_alone") or {}).get("took_ns") or {}).get("all"))
    latency_ns = (took - usual[0]["kernel_ns"]) / 2 if took is not None and usual else None
    slowdown = (mps.get("chains_half") or {}).get("slowdown")
    yields = (slices.get("gaps") or {}).get("idle_yields")
    costs = parts.get("costs") or {}
    between, around = _middle(costs.get("event_pair_empty_busy_ns")), _middle(costs.get("event_pair_busy_ns"))
    return [
        ("slice_us", _us(slice_ns), f"{measured}, slices.{of_slice}.slice_ns, p50: a turn that another process ended"),
        ("switch_us", _us(switch_ns), f"{measured}, slices.{of_switch}.switch_ns, p50; between kernels of one block {small}, beside long ones {beside_long}"),
        ("idle_yields", yields, f"{measured}, slices.gaps.idle_yields: by the time from a lone kernel to the other process's next"),
        ("mps_switch_us", _us(_median((mps.get("chains_full") or {}).get("switch_ns"))),
         f"{measured}, mps.chains_full.switch_ns, p50: between kernels that fill the GPU; for mps_model = \"admission\""),
        ("overlap_slowdown", max(1.0, round(max(slowdown), 3)) if slowdown else None,
         f"{measured}, mps.chains_half.slowdown: two programs of half the GPU each that use no memory"),
        ("launch_latency_us", _us(latency_ns), f"{measured}, slices.latency_alone.took_ns: half of what a lone kernel takes beyond itself, from the call to the end of the wait"),
        ("kernel_gap_us", _us(usual[0]["gap_ns"] if usual else None), f"{measured}, slices.alone.gap_ns: between kernels in line"),
        ("event_gap_us", _us(between), f"{measured}, costs.event_pair_empty_busy_ns: between two timed events in line"),
        ("kernel_event_gap_us", _us(around / 2 if around is not None and between is not None else None), f"{measured}, half of costs.event_pair_busy_ns: what two events tell around an empty kernel"),
    ]  # fmt: skip


def _memory(found: Found, measured: str) -> dict[str, list[tuple[str, Any, str]]]:
    """Without what was not found: there the defaults hold."""
    again = "prefetch_out_again_gbps" in found
    origins = {
        "copy": [
            ("h2d_gbps", "copy_in_gbps", "64 MiB of pinned memory"),
            ("d2h_gbps", "copy_out_gbps", "64 MiB of pinned memory"),
        ],
        "managed": [
            ("in_gbps", "prefetch_in_gbps", "64 MiB by one call"),
            (
                "out_gbps",
                "prefetch_out_again_gbps" if again else "prefetch_out_gbps",
                "64 MiB that were out before" if again else "64 MiB that were never out",
            ),
            *([("first_out_gbps", "prefetch_out_gbps", "64 MiB that were never out")] if again else []),
            ("fault_batch_us", "fault_ns_per_chunk", "of 2 MiB of which each page is touched, beyond a prefetch"),
        ],
    }
    tables = {
        table: [
            (key, found[name] / 1000 if key.endswith("_us") else found[name], f"{measured}, memory.{name}: {what}")
            for key, name, what in rows
            if found.get(name)
        ]
        for table, rows in origins.items()
    }
    tables["managed"] += _calls(found, measured)
    return tables


def _calls(found: Found, measured: str) -> list[tuple[str, Any, str]]:
    """What prefetches take of the thread that calls, on a stream without work."""
    medians = {
        name: spread["p50"]
        for name in ("prefetch_out", "prefetch_out_call", "prefetch_in_call")
        if (spread := found.get(f"{name}_ns"))
    }
    calls: list[tuple[str, Any, str]] = []
    if {"prefetch_out", "prefetch_out_call"} <= medians.keys():
        share = medians["prefetch_out_call"] / medians["prefetch_out"]
        calls.append(
            ("out_blocks", share >= BLOCKS_FROM, f"{measured}, memory.prefetch_out_call_ns: {share:.3f} of the move")
        )
    if "prefetch_in_call" in medians:
        chunks = found["piece_bytes"] / CHUNK_BYTES
        calls.append(
            (
                "in_call_us",
                _us(medians["prefetch_in_call"] / chunks),
                f"{measured}, memory.prefetch_in_call_ns, p50, per 2 MiB",
            )
        )
    return calls


def _median(spread: Found | None) -> float | None:
    return None if spread is None else float(spread["p50"])


def _middle(spread: Found | None) -> float | None:
    """Where the clock's steps are not small beside the value."""
    return None if spread is None else float(spread["middle"])


def _us(ns: float | None) -> float | None:
    """Never below zero: a clock that ticks slowly can say so of what takes no time."""
    return None if ns is None else round(max(0.0, ns) / 1000, 2)
