"""The emulator's programs say which fikit they came with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fikitd import __version__


@pytest.mark.parametrize("program", ["emuctl", "fikit-replay"])
def test_they_say_the_version_that_python_says(native: Path, program: str) -> None:
    done = subprocess.run([native / "bin" / program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{program} {__version__}\n"
