"""A policy as an option: one by its former name is taken, and a line says how it is called now."""

from __future__ import annotations

from typing import Any

import click
from fikitd.config import fikit_toml

from fikit.wording.line import say


def current(name: str) -> str:
    """The same policy by the name that it has now."""
    if name not in fikit_toml.FORMER_POLICIES:
        return name
    say(f"warning: {fikit_toml.renamed_policy(name)}")
    return fikit_toml.FORMER_POLICIES[name]


class PolicyName(click.Choice[str]):
    """One of fikitd's policies."""

    def __init__(self) -> None:
        super().__init__(fikit_toml.POLICIES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(current(value) if isinstance(value, str) else value, param, ctx)
