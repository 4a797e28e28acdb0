"""Programs under the shim on the emulated GPU, managed by a fake daemon; memory_child.py is what they import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
HERE = Path(__file__).resolve().parent


@pytest.fixture
def on_gpu(emulator_env: Callable[..., dict[str, str]], shim: Path) -> Iterator[Start]:
    """A function that starts `code` under the shim on the emulated GPU, managed by the given fake daemon."""
    started: list[Program] = []
    base = emulator_env(LD_PRELOAD=str(shim), PYTHONPATH=str(HERE))

    def start(code: str, daemon: Daemon, **env: str) -> Program:
        program = Program(code, {**base, "FIKIT_SOCKET": str(daemon.path), **env}, "from memory_child import *\n")
        started.append(program)
        return program

    yield start
    for each in started:
        each.close()
