"""Which GPU a bench simulates: --device and its times, and what a page calls the table of it."""

from __future__ import annotations

import argparse
from typing import Any

from fikitd.base import quantities
from fikitd.simulation import simulator
from fikitd.simulation.simulator import SLICES, Device, DeviceError

from bench.record import BenchError

US = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of benches whose run() takes a `device`."""
    parser.add_argument(
        "--device", metavar="DEVICE",
        help="slices: processes take turns; mps: kernels of all overlap; h200: slices as measured on one; or a profile of an emulated GPU (TOML). Default: slices",
    )  # fmt: skip
    parser.add_argument("--slice", type=_time, metavar="TIME", help=f"of slices; default: {SLICES.slice_ns // US}us")
    parser.add_argument(
        "--switch", type=_time, metavar="TIME", help=f"between slices; default: {SLICES.switch_ns // US}us, assumed"
    )
    parser.add_argument(
        "--mps-model", choices=simulator.MPS_MODELS,
        help="mps: kernels that do not fit beside each other slow down in proportion (default), or by admission one waits for room",
    )  # fmt: skip
    parser.add_argument(
        "--overlap", type=float, metavar="TIMES",
        help="mps: how many times as long kernels take while others' run beside them; default: 1",
    )  # fmt: skip


def of(options: dict[str, Any]) -> Device:
    """Taken out of the options. Raises BenchError."""
    named, slice_ns, switch_ns, model, overlap = (
        options.pop(name) for name in ("device", "slice", "switch", "mps_model", "overlap")
    )
    try:
        return simulator.named(
            named or "slices", slice_ns=slice_ns, switch_ns=switch_ns, mps_model=model, overlap_slowdown=overlap
        )
    except DeviceError as error:
        raise BenchError(str(error)) from error


def place(device: Device) -> str:
    """The device's own table on a page stands behind the bench's name and this."""
    if device.sharing == "slices":
        return f" --device slices --slice {device.slice_ns / US:g}us --switch {device.switch_ns / US:g}us"
    model = f" --mps-model {device.mps_model}" if device.mps_model != simulator.MPS.mps_model else ""
    return f" --device {device.sharing}{model} --overlap {device.overlap_slowdown:g}"


def settings(device: Device) -> dict[str, Any]:
    """Of a result."""
    return {"device": str(device), "origin": device.origin}


def _time(text: str) -> int:
    try:
        return quantities.nanoseconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no time, write it as 50us or 1.5ms") from None
