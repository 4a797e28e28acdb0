"""Numbers within bounds as options; click's own call them "integer range" and "float range" in what people read."""

from __future__ import annotations

import click


class Whole(click.IntRange):
    """A whole number."""

    name = "whole number"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max)


class Number(click.FloatRange):
    """Any number."""

    name = "number"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max)


def _bounds(least: float | None, most: float | None) -> str:
    """In words: click has `1<=x<=8`."""
    if most is None:
        return f"{least:g} or more"
    return f"at most {most:.15g}" if least is None else f"{least:g} to {most:.15g}"
