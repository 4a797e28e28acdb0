"""The parts of the kit's second call."""

from __future__ import annotations

from bench.gpu.context import Part

PARTS: dict[str, Part] = {}
"""In their order: parts that may hang a GPU come last."""
