"""What a policy's decisions say, for the tests that drive it."""

from __future__ import annotations

from typing import Any

Decisions = list[tuple[Any, ...]]


def grants(decisions: Decisions) -> list[int]:
    """Who may go, in order."""
    return [decision[1] for decision in decisions if decision[0] == "grant"]


def wake(decisions: Decisions) -> int | None:
    """When the policy wants to be asked again; None: it does not."""
    return next((decision[1] for decision in decisions if decision[0] == "wake_at"), None)
