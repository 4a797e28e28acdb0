"""What `fikit doctor` looks at: one file per area; a check finds out and advises, it never changes anything."""

from __future__ import annotations

from collections.abc import Iterator

from fikit.checks import daemon, gpu, native, published, slurm
from fikit.checks.check import Check, fail
from fikitd import paths


def all_checks() -> Iterator[Check]:
    """Every check of every area, in the order in which a person would look."""
    try:
        paths.native_dir()
    except FileNotFoundError as error:
        yield fail("native files", str(error), native.REBUILD)
        return
    for area in (native.area, gpu.area, daemon.area, published.area, slurm.area):
        yield from area()
