"""Which examples hypothesis makes up for a test: in the suite the same ones each time, so that what it says is of the code and not of chance; in
`make quick` a fifth as many; for who looks for faults (`pytest --hypothesis-profile=search`) ten times as many, other ones each time."""

from __future__ import annotations

from hypothesis import settings

FULL, QUICK, SEARCH = "full", "quick", "search"  # profiles; tests/conftest.py loads one of the first two
MOST = settings.get_profile("default").max_examples
settings.register_profile(
    FULL, deadline=None, derandomize=True, max_examples=MOST
)  # how long one takes is the machine's
settings.register_profile(QUICK, deadline=None, derandomize=True, max_examples=MOST // 5)
settings.register_profile(SEARCH, deadline=None, derandomize=False, max_examples=10 * MOST)


def examples(most: int) -> int:
    """For a test that needs more or less than hypothesis's usual number: so many, or that part of them."""
    return most * settings.default.max_examples // MOST
