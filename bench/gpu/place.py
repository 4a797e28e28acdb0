"""Where the run works: a short directory of its own, an environment that leads nothing outside, the programs that were built."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.record import BenchError
from fikitd import paths

CANDIDATES = ("/tmp", "/var/tmp", "/dev/shm")  # short: a socket's path has 107 bytes


@dataclass(frozen=True)
class Place:
    directory: Path
    env: dict[str, str]

    def program(self, name: str) -> Path:
        """A program that was built; BenchError where it was not."""
        path = paths.native_dir() / "bin" / name
        if not os.access(path, os.X_OK):
            raise BenchError(f"{name} was not built")
        return path


def _environment(directory: Path) -> dict[str, str]:
    """Caches go where they may be written, whatever HOME is; nothing of an earlier fikit or MPS is in it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("FIKIT_", "CUDA_MPS_", "LD_PRELOAD"))}
    caches = {
        "HOME": "home", "XDG_CACHE_HOME": "cache", "CUDA_CACHE_PATH": "cuda", "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor", "CUPY_CACHE_DIR": "cupy", "XDG_RUNTIME_DIR": "runtime",
    }  # fmt: skip
    for variable, name in caches.items():
        (directory / name).mkdir(mode=0o700, exist_ok=True)
        env[variable] = str(directory / name)
    env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # or JAX takes three quarters of the memory
    env["PYTHONUNBUFFERED"] = "1"
    env["FIKIT_NATIVE"] = str(paths.native_dir())
    return env


@contextmanager
def place() -> Iterator[Place]:
    """Nothing is left of it."""
    for parent in (*CANDIDATES, os.environ.get("TMPDIR", ""), "."):
        try:
            directory = Path(tempfile.mkdtemp(prefix="fikit-gpu-", dir=parent or "."))
            break
        except OSError:
            continue
    else:
        raise BenchError(f"none of {', '.join(CANDIDATES)} can be written")
    directory.chmod(0o711)  # MPS clients of other users pass through
    try:
        yield Place(directory.resolve(), _environment(directory.resolve()))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
