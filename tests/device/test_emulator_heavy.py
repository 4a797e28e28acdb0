"""Unmodified programs that are too large for continuous integration; they run where somebody has installed them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import kernels

Env = Callable[..., dict[str, str]]
# A Python that has them: they need not be in fikit's own environment.
PYTHON = os.environ.get("HEAVY_PYTHON", sys.executable)

NUMBA = """
import numpy as np
from numba import cuda
@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += x[i]
assert "Emulated" in str(cuda.get_current_device().name)
x, y = (cuda.to_device(np.ones(1000, np.float32)) for _ in range(2))
stream = cuda.stream()
begin, end = cuda.event(), cuda.event()
begin.record(stream)
for _ in range(21):
    add[8, 128, stream](x, y)
end.record(stream)
end.synchronize()
assert cuda.event_elapsed_time(begin, end) > 0
assert y.copy_to_host().shape == (1000,)
"""


@pytest.mark.heavy
def test_numba_cuda(native: Path, emulator_env: Env) -> None:
    if subprocess.run([PYTHON, "-c", "import numba_cuda"], check=False, capture_output=True).returncode != 0:
        pytest.skip("numba-cuda is not installed (HEAVY_PYTHON names a Python that has it)")
    env = emulator_env()
    done = subprocess.run([PYTHON, "-c", NUMBA], env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "is not part of the emulated GPU" not in done.stderr
    assert kernels(native, env) == 21
