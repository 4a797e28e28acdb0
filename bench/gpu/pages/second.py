"""Rows of the second call's parts: fikit under a real Slurm, occupancy shaping, the driver's own time slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.gpu.pages.answers import cell
from bench.gpu.pages.block import Row
from bench.gpu.pages.runs import Found

SLURM = ("job", "ended", "mode", "a request alone, ms", "beside the low job", "after the trap", "slowdown by its report", "its report blames")  # fmt: skip
SHAPING = ("more shared memory of the low kernel's blocks, KiB", "a kernel of the high program, us", "times alone", "low speed")  # fmt: skip
TIME_SLICES = ("experiment", "control", "result")
EXPERIMENTS = {
    "slices": "two programs with kernels in line",
    "waits": "a lone kernel of 20 us beside kernels that fill the GPU",
    "calls": "a program with kernels in line",
}


def slurm(parts: Found) -> Iterator[Row]:
    """A row for each job."""
    part = parts.get("slurm") or {}
    blamed = part.get("blamed") or {}
    for name, job in (part.get("jobs") or {}).items():
        report = job.get("report") or {}
        ended = f"{job.get('state') or 'unknown'}, exit code {job.get('exit_code') or 'unknown'}"
        if name == "cancelled" and "cancel_s" in part:
            ended += f", {part['cancel_s']} s after scancel"
        slowdown = report.get("slowdown")
        yield (name,), (
            name, cell(ended), report.get("device_mode") or "-", *(_mean_ms(job.get(key)) for key in ("alone", "beside", "after_trap")),
            "-" if slowdown is None else f"{slowdown:.3f}", ", ".join(dict.fromkeys(blamed.get(name) or [])) or "no job",
        )  # fmt: skip


def shaping(parts: Found) -> Iterator[Row]:
    """A row for the high program alone, and one for each size."""
    part = parts.get("shaping") or {}
    if part.get("high_alone"):
        yield (-1,), ("no low program", _us(part["high_alone"]), "1", "-")
    for found in part.get("cells") or []:
        size = found["shared_kib"]
        if "error" in found:
            yield (size,), (str(size), cell(f"no figure: {found['error']}"), "-", "-")
        else:
            yield (size,), (str(size), _us(found["high"]), f"{found['slowdown']:.3f}", f"{found['low_speed']:.3f}")


def time_slices(parts: Found) -> Iterator[Row]:
    """A row for each experiment and control."""
    part = parts.get("time_slices") or {}
    for kind, what in EXPERIMENTS.items():
        for name, found in (part.get(kind) or {}).items():
            control = name if kind == "calls" or not name[0].isdigit() else f"{name} us each"
            yield (kind, name), (what, cell(control), cell(_result(kind, found)))


def _result(kind: str, found: Found) -> str:
    if "error" in found:
        return f"no figure: {found['error']}"
    refused = sorted({refusal for control in _controls(found) if (refusal := _refusal(control))})
    if kind == "slices":
        said = "turns of " + " and ".join(_ms(turns) for turns in found.get("turns_ns") or [None])
        said += f", a switch of {_us(found['switch_ns'])} us" if found.get("switch_ns") else ""
    elif kind == "waits":
        said = f"takes {_us(found.get('took_ns'))} us"
    else:
        said = f"the call takes {_us(found.get('took_ns'))} us, the longest pause is {max(found.get('longest_pauses_ns') or [0]) / 1e6:.2f} ms"
    return said + (f"; refused with {', '.join(refused)}" if refused else "")


def _refusal(control: Found) -> str:
    """Of the kernel, or of the GPU's firmware."""
    if control.get("errno"):
        return f"errno {control['errno']}"
    return f"status {control['status']}" if int(control.get("status") or "0", 16) else ""


def _controls(found: Found) -> Iterator[Mapping[str, Any]]:
    """Those of one program, or of each program."""
    for each in found.get("controls") or []:
        yield from each if isinstance(each, list) else [each]


def _mean_ms(found: Found | None) -> str:
    return f"{found['mean_ns'] / 1e6:.2f}" if found and "mean_ns" in found else "-"


def _us(spread: Found | None) -> str:
    return "-" if not spread else f"{spread['p50'] / 1e3:,.1f} ({spread['p10'] / 1e3:,.1f} to {spread['p90'] / 1e3:,.1f})"  # fmt: skip


def _ms(spread: Found | None) -> str:
    return "unknown length" if not spread else f"{spread['p50'] / 1e6:.2f} ms ({spread['p10'] / 1e6:.2f} to {spread['p90'] / 1e6:.2f})"  # fmt: skip
