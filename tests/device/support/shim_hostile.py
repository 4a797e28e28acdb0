"""Run a program with one of its habits (programs/shim/shim_hostile*.c) with and without the shim, and compare."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"
LIMIT_S = 60  # a hang; what these programs do takes well below a second


@dataclass(frozen=True)
class Outcome:
    """How a program ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def outcome(command: list[str | Path], env: dict[str, str], **options: Any) -> Outcome:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False, errors="replace", **options
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def build(cc: Callable[..., Path], source: str, fake_cuda: Path, *flags: str) -> Path:
    """The program, linked with the driver."""
    return cc(SOURCES / source, f"-L{fake_cuda.parent}", "-lcuda", *flags)


def without_shim(env: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key != "LD_PRELOAD"}
