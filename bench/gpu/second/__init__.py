"""The parts of the kit's second call."""

from __future__ import annotations

from bench.gpu.context import Part
from bench.gpu.second import dangers, long_cells, shaping, slurm, time_slices

PARTS: dict[str, Part] = {
    "long_cells": Part(long_cells.measure, 85),
    "shaping": Part(shaping.measure, 15),
    "slurm": Part(slurm.measure, 40),
    "dangers": Part(dangers.measure, 25),
    "time_slices": Part(time_slices.measure, 30),
}
"""In their order: parts that may hang a GPU come last."""
