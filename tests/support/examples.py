"""How many examples hypothesis makes up for a test: in `make quick` a fifth of what the suite takes."""

from __future__ import annotations

from hypothesis import settings

FULL, QUICK = "full", "quick"  # profiles; tests/conftest.py loads one of them
settings.register_profile(FULL, deadline=None)  # how long an example takes is the machine's
settings.register_profile(QUICK, deadline=None, max_examples=settings.get_profile(FULL).max_examples // 5)


def examples(most: int) -> int:
    """For a test that needs more or less than hypothesis's usual number: so many, or that part of them."""
    return most * settings.default.max_examples // settings.get_profile(FULL).max_examples
