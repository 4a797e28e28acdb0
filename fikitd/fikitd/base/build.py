"""Which fikit this is: the version, and of which sources the native core was built (scripts/build_id.py), which is in its memory:
what an upgrade puts into the place of a running program does not change what that program is."""

from __future__ import annotations

from functools import cache

from fikitd import __version__


@cache
def identity() -> str:
    """`0.1.0+3f9c01ab27`; the version alone where the native core cannot be loaded."""
    try:
        from fikitd._core import BUILD  # noqa: PLC0415 - commands start without the core
    except ImportError:
        return __version__
    return f"{__version__}+{BUILD}"
