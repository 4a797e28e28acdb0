"""Cancelled threads, small stacks, signal handlers: the program does what it does without the shim, and never hangs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_hostile import build, outcome, without_shim

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
HOW: dict[str, dict[str, object]] = {
    "open": {},
    "sampled": {"sample_every": 4},
    "measured": {"measure": True},
    "closed": {"closed": True, "lease_s": 0.2},
}
HABITS = [
    "cancel at the gate",
    "cancel while working",
    "leave while one waits",
    "smallest stack",
    "launch from signals",
    "launch on another stack",
    "virtual machine",
    "large thread-local storage",
    "everything at once",
    "settings",
]


@pytest.fixture(scope="module")
def program(cc: Compile, fake_cuda: Path) -> Path:
    return build(cc, "shim_hostile_threads.c", fake_cuda)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("habit", HABITS)
def test_program_goes_on_as_without_the_shim(
    habit: str, how: str, program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(FIKIT_SOCKET=str(daemon(**HOW[how]).path))
    alone = outcome([program, habit], without_shim(env))
    assert alone.stdout
    assert outcome([program, habit], env) == alone


def test_signal_handler_passes_the_gate_at_which_its_thread_waits(
    program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    """The thread's own launch waits for a lease of 3 s; those of the handler meanwhile cannot wait for it."""
    fikitd = daemon(closed=True, lease_s=3.0)
    done = outcome([program, "launch from signals"], shim_env(FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stdout) == (0, "refused: 0\nend\n")
    assert fikitd.page().launches() > 300


def test_shim_needs_little_static_tls(shim: Path) -> None:
    """It is part of every thread's stack, and of a room that libraries opened later share."""
    headers = subprocess.run(["readelf", "-lW", shim], capture_output=True, text=True, check=True).stdout
    size = re.search(r"TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)", headers)
    assert size
    assert int(size[1], 16) <= 512
