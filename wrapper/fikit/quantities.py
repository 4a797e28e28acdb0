"""Shares and times as people type them: `5%`, `200us`, `1.5ms`. Callbacks of options."""

from __future__ import annotations

import re

import click

_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def share(_ctx: click.Context, _param: click.Parameter, text: str) -> float:
    """`5%` or `0.05`: more than 0, at most 100 %."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value <= 1:
        raise click.BadParameter(f'"{text}" is not a share, write 5% or 0.05')
    return value


def nanoseconds(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """`200us`, `1.5ms`, `2s`."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)", text.strip())
    if match is None or match[2] not in _NS:
        raise click.BadParameter(f'"{text}" is not a time, write it as 200us, 1.5ms or 2s')
    return round(float(match[1]) * _NS[match[2]])
