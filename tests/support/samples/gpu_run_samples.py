"""Made runs on a GPU, of the form that bench/gpu/run.sh writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gpu.pages import blocks, runs
from bench.gpu.pages.runs import Run

Found = dict[str, Any]


def a_run(name: str, date: str = "2026-11-27", device: str = "NVIDIA H200", **parts: Any) -> Run:
    """A measured run that has these parts."""
    settings = {"device": device, "gpu": {"name": device, "driver": "NVRM version: 580.1.2"}, "fikit": "0.1.0"}
    document = {"bench": "gpu", "date": f"{date}T10:00:00+00:00", "emulated": False, "settings": settings, "parts": parts}  # fmt: skip
    return Run(name, Path(f"gpu-{name}.json.gz"), document)


def summary(mean_ns: float, took_us: Sequence[float] = ()) -> Found:
    """Of a program's requests."""
    return {"requests": 80, "mean_ns": mean_ns, "p50_ns": mean_ns, "p99_ns": mean_ns, "took_us": list(took_us) or [mean_ns / 1e3] * 80}  # fmt: skip


def a_cell(way: str, jct_ratio: float, low_speed: float, *, pair: tuple[str, str] = ("decode", "batch"), kind: str = "closed", **more: Any) -> Found:  # fmt: skip
    """A cell of the pairs: the high program takes 2 ms alone, which was measured in turns with "shared"."""
    return {
        "way": way, "pair": list(pair), "kind": kind, "high": summary(2e6 * jct_ratio), "high_alone": summary(2e6), "low_alone": summary(1e6),
        "jct_ratio": jct_ratio, "p99_ratio": 1.5, "whole_ratio": 1.01, "low_speed": low_speed, "harvest": None, "host_ns": {"p10": 18_000, "p50": 20_000, "p90": 24_000}, **more,
    }  # fmt: skip


def shown(file: Path) -> dict[str, int]:
    """The blocks of a page that this run alone fills, with their numbers of rows."""
    made = {name: block.make(runs.newest_first([file])) for name, block in blocks.BLOCKS.items()}
    return {name: each.rows for name, each in made.items() if each.text}
