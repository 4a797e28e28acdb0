"""Sizes, shares and times as options: callbacks."""

from __future__ import annotations

import click
from fikitd.base import quantities


def size(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """`20G`, `512M`, or a plain number of MiB (as in `sbatch --mem`), as bytes."""
    try:
        return None if text is None else quantities.size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def share(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """`5%` or `0.05`: at most 100 %."""
    try:
        return None if text is None else quantities.share(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def nanoseconds(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """`200us`, `1.5ms`, `2s`."""
    try:
        return None if text is None else quantities.nanoseconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
