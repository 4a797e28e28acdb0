"""What people see, against a stored picture of it (FIKIT_UPDATE_SNAPSHOTS=1 stores new ones)."""

from __future__ import annotations

import io
import os

from compiler import ROOT
from rich.console import Console, RenderableType

SNAPSHOTS = ROOT / "tests/unit/reporters/snapshots"


def matches(name: str, shown: str) -> None:
    """Compare with the stored text, or store it when the environment asks for that."""
    path = SNAPSHOTS / name
    if os.environ.get("FIKIT_UPDATE_SNAPSHOTS"):
        path.write_text(shown)
    assert shown == path.read_text()


def drawn(renderable: RenderableType, width: int = 110) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width, highlight=False).print(renderable)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"
