"""Programs of another processor, under qemu's user mode emulation: what `scripts/aarch64.sh` builds, and C programs beside it.

They share memory, sockets and futexes with the programs of this machine. What emulation hides is how weakly ordered the other
processor's memory is.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from compiler import ROOT, Compiler
from shim_hostile import Outcome, outcome

PREFIX = "aarch64-linux-gnu-"
TOOLS = (f"{PREFIX}gcc", f"{PREFIX}g++", "qemu-aarch64")
SYSTEM = "/usr/aarch64-linux-gnu"


def missing() -> list[str]:
    """Which of the tools this machine lacks."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


@dataclass(frozen=True)
class Aarch64:
    """A compiler and a processor."""

    cc: Compiler

    @staticmethod
    def built() -> Path:
        """The directory of shim and emulated driver, built now if need be."""
        out = ROOT / "build" / "aarch64"
        subprocess.run(["bash", ROOT / "scripts" / "aarch64.sh", out], check=True, cwd=ROOT, timeout=280)
        return out

    @staticmethod
    def command(program: Path, *arguments: str | Path, env: dict[str, str]) -> list[str | Path]:
        """What runs the program here: its loader's variables are not for qemu itself."""
        of_loader = [
            word for name, value in env.items() if name.startswith("LD_") for word in ("-E", f"{name}={value}")
        ]
        return ["qemu-aarch64", "-L", SYSTEM, *of_loader, program, *arguments]

    def run(self, program: Path, *arguments: str | Path, env: dict[str, str]) -> Outcome:
        here = {name: value for name, value in env.items() if not name.startswith("LD_")}
        return outcome(self.command(program, *arguments, env=env), here)
