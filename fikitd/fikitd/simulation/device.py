"""The GPU of a simulation: how its processes share it.

Without MPS contexts take turns of `slice_ns`, and each change costs `switch_ns`. With MPS kernels of all processes overlap. No GPU has one
queue for all processes without either: "merged" is such a device, for tests.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fikitd import _simulator, paths
from fikitd.store.storage import reason

SHARING: Final = ("slices", "mps")
"""The two that GPUs have."""
MPS_MODELS: Final = ("proportion", "admission")
"""What MPS clients' kernels do that do not fit beside each other: all slow down in proportion, or one waits for room
(emulator/device_model/admission.cpp)."""

US: Final = 1000
RECORDED: Final = -1  # as the first job's recording shows it
LONGEST_US: Final = 60e6


class DeviceError(ValueError):
    """One sentence: which description of a device cannot be used, and why."""


@dataclass(frozen=True)
class Device:
    """sharing: "slices" or "mps" ("merged": tests). Of slices: slice_ns, switch_ns (by default assumed), and whether a process that has
    nothing to run keeps its slice (idle_holds). Of mps: mps_model, one of MPS_MODELS; mps_switch_ns, by admission, from the moment when there is
    room for a waiting kernel to its start; overlap_slowdown, how many times as long a kernel takes while one of another process runs beside it. launch_latency_ns, kernel_gap_ns: None: as the high job's recording shows them. origin: who says all that.
    """

    sharing: str = "slices"
    slice_ns: int = 1_024_000
    switch_ns: int = 50_000
    mps_model: str = MPS_MODELS[0]
    mps_switch_ns: int = 0
    overlap_slowdown: float = 1.0
    idle_holds: bool = False
    launch_latency_ns: int | None = None
    kernel_gap_ns: int | None = None
    origin: str = "assumed"

    @property
    def overlaps(self) -> bool:
        """Kernels of two processes run at the same time."""
        return self.sharing == "mps"

    def __str__(self) -> str:
        if self.sharing == "slices":
            return f"slices of {self.slice_ns / US:g} us, a switch of {self.switch_ns / US:g} us"
        slower = "" if self.overlap_slowdown == 1 else f", overlapping kernels {self.overlap_slowdown:g} times as long"
        admitted = " by admission" if self.mps_model == "admission" else ""
        return self.sharing + admitted + slower

    def native(self, latency_ns: int | None = None, gap_ns: int | None = None) -> _simulator.Device:
        """For the native simulator; latency_ns, gap_ns: of the recording whose device it is, where this one says nothing."""
        latency = self.launch_latency_ns if self.launch_latency_ns is not None else latency_ns
        gap = self.kernel_gap_ns if self.kernel_gap_ns is not None else gap_ns
        return _simulator.Device(
            self.sharing,
            slice_ns=self.slice_ns,
            switch_ns=self.switch_ns,
            mps_model=self.mps_model,
            mps_switch_ns=self.mps_switch_ns,
            overlap_slowdown=self.overlap_slowdown,
            idle_holds=self.idle_holds,
            launch_latency_ns=RECORDED if latency is None else latency,
            kernel_gap_ns=RECORDED if gap is None else gap,
        )


SLICES: Final = Device()
MPS: Final = Device("mps")
MERGED: Final = Device("merged", slice_ns=0, switch_ns=0)


def named(
    text: str, *, slice_ns: int | None = None, switch_ns: int | None = None, mps_model: str | None = None,
    overlap_slowdown: float | None = None,
) -> Device:  # fmt: skip
    """ "slices", "mps", a profile that comes with fikit by its name ("h200"), or a file as read() takes it; with these values in place of its
    own. Raises DeviceError."""
    device = Device(text) if text in SHARING else read(_shipped(text) or Path(text))
    if device.sharing != "slices" and (slice_ns is not None or switch_ns is not None):
        raise DeviceError(f"{text} has no slices: leave the slice and the switch away")
    if device.sharing != "mps" and overlap_slowdown is not None:
        raise DeviceError(f"on {text} no kernels overlap: leave the slowdown of overlapping kernels away")
    if device.sharing != "mps" and mps_model is not None:
        raise DeviceError(f"{text} has no MPS: leave the model of MPS away")
    changed = {
        "slice_ns": slice_ns,
        "switch_ns": switch_ns,
        "mps_model": mps_model,
        "overlap_slowdown": overlap_slowdown,
    }
    given: dict[str, Any] = {name: value for name, value in changed.items() if value is not None}
    return replace(device, **given, origin="as told") if given else device


def _shipped(text: str) -> Path | None:
    path = paths.emulator_dir() / f"{text}.toml"
    return path if text.isalnum() and path.is_file() else None


def read(path: Path) -> Device:
    """The [device] of an emulated GPU's profile (docs/emulated-gpu.md), as `python -m bench gpu` writes it. Raises DeviceError."""
    try:
        profile = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise DeviceError(f"couldn't read the device {path}: {why}; use slices, mps or a profile (TOML)") from error
    keys = profile.get("device", {})
    if not isinstance(keys, dict):
        raise DeviceError(f"{path}: device must be a table, written [device]")
    sharing = keys.get("sharing", SLICES.sharing)
    if sharing not in SHARING:
        raise DeviceError(f"{path}: sharing must be one of {', '.join(SHARING)}, not {sharing!r}")
    model = keys.get("mps_model", MPS.mps_model)
    if model not in MPS_MODELS:
        raise DeviceError(f"{path}: mps_model must be one of {', '.join(MPS_MODELS)}, not {model!r}")
    slowdown = _number(path, keys, "overlap_slowdown", 1, 100)
    return Device(
        sharing=sharing,
        slice_ns=SLICES.slice_ns if (slice_ns := _us(path, keys, "slice_us")) is None else slice_ns,
        switch_ns=SLICES.switch_ns if (switch_ns := _us(path, keys, "switch_us")) is None else switch_ns,
        mps_model=model,
        mps_switch_ns=_us(path, keys, "mps_switch_us") or 0,
        overlap_slowdown=1.0 if slowdown is None else slowdown,
        idle_holds=not _flag(path, keys, "idle_yields", missing=True),
        launch_latency_ns=_us(path, keys, "launch_latency_us"),
        kernel_gap_ns=_us(path, keys, "kernel_gap_us"),
        origin=f"{keys.get('name', 'device')} ({path.name})",
    )


def _number(path: Path, keys: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    value = keys.get(name)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not least <= value <= most
    ):
        raise DeviceError(f"{path}: {name} must be a number from {least:g} to {most:g}, not {value!r}")
    return float(value)


def _us(path: Path, keys: Mapping[str, Any], name: str) -> int | None:
    value = _number(path, keys, name, 0, LONGEST_US)
    return None if value is None else round(value * US)


def _flag(path: Path, keys: Mapping[str, Any], name: str, *, missing: bool) -> bool:
    value = keys.get(name, missing)
    if not isinstance(value, bool):
        raise DeviceError(f"{path}: {name} must be true or false, not {value!r}")
    return value
