"""A fikitd with MPS on the emulated GPU, for the tests of a file: `pytest_plugins = ["mps_fixtures"]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from emulator_tools import SOURCES, driver_flags
from mps_site import MpsSite, mps_site


@pytest.fixture(scope="session")
def mps_program(cc: Callable[..., Path], native: Path) -> Path:
    """What runs in a site's jobs."""
    return cc(SOURCES / "emu_faults.c", *driver_flags(native))


@pytest.fixture
def site(
    request: pytest.FixtureRequest, native: Path, mps_program: Path, emulator_env: Callable[..., dict[str, str]]
) -> Iterator[MpsSite]:
    """`mps_clients` is 48, or the parameter."""
    with mps_site(native, mps_program, emulator_env(), clients=getattr(request, "param", 48)) as made:
        yield made
