"""A program that runs under the shim, steered by the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"
DRIVER_FLAGS = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic")  # make a driver library of a source
# What the fixture `cc` makes the stand-in driver of.
FAKE_CUDA = (
    str(_SOURCES / "shim_fake_cuda.c"),
    *DRIVER_FLAGS,
    *(str(_SOURCES / f"shim_fake_{part}.c") for part in ("streams", "memory")),
)


def driver_of(library: Path, directory: Path) -> Path:
    """The library, under the names that programs ask for, in a directory of its own."""
    target = directory / "libcuda.so.1"
    target.write_bytes(library.read_bytes())
    (directory / "libcuda.so").symlink_to("libcuda.so.1")
    return target


# A program of four threads that launch once each.
FOUR_THREADS = """
import threading
ctx = context()
f = function("k")
def work():
    check(cu.cuCtxSetCurrent(ctx)); check(launch(f))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
"""


class Program:
    """A Python program under the shim (shim_child.py is imported), which we talk to line by line."""

    def __init__(self, code: str, env: dict[str, str], imports: str = "from shim_child import *\n") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", imports + code],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let the program's next pause() return."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self) -> tuple[str, str]:
        """Wait for the end; returns (rest of stdout, stderr). The exit code must be 0."""
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return out, err

    def close(self) -> None:
        """End it, whatever it does, and close its pipes: what a failed test leaves open is a warning in another one."""
        with self.process:
            if self.process.poll() is None:
                self.process.kill()
