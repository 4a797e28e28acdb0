"""What to do: one sentence with its figure, and the line to type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Advice:
    """What one rule advises. docs/python.md lists the rules that reports have, and each one's figures."""

    rule: str
    """Its name, which stays: `long kernel`."""
    text: str
    """One sentence."""
    figure: Mapping[str, Any] = field(hash=False)
    """What the sentence rests on, by names that end in their units; None is what nobody knows. Not to be changed."""
    line: str = ""
    """What to type; empty where there is nothing to type."""
