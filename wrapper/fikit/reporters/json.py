"""JSON on stdout, for programs."""

from __future__ import annotations

import json
from typing import Any

import click


def emit(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
