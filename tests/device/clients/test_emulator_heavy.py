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
# Where the libraries are that they link to besides the driver's (PyCUDA: libcurand).
LIBRARIES = os.environ.get("HEAVY_LIBRARIES", "")

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

# Every road PyCUDA has to a launch: compiled source, prepared calls, generated element-wise and reduction kernels.
PYCUDA = """
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda import gpuarray
from pycuda.compiler import SourceModule
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool
assert "Emulated" in pycuda.autoinit.device.name()
twice = SourceModule("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }").get_function("twice")
assert twice.max_threads_per_block == 1024
host = np.ones(16, np.float32)
for _ in range(3):
    twice(cuda.InOut(host), block=(16, 1, 1), grid=(1, 1))
array = gpuarray.to_gpu(host)
twice.prepare("P")
twice.prepared_call((1, 1), (16, 1, 1), array.gpudata)
stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
begin.record(stream)
twice.prepared_async_call((1, 1), (16, 1, 1), stream, array.gpudata)
end.record(stream)
end.synchronize()
assert begin.time_till(end) > 0
assert (array + array).get().shape == gpuarray.sum(array).get().shape + (16,)
pool = DeviceMemoryPool()
block = pool.allocate(1000)
block.free()
pool.stop_holding()
managed = cuda.managed_empty(100, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
managed[:] = 3
pinned = PageLockedMemoryPool().allocate((100,), np.float32)
pinned[:] = 4
device = cuda.mem_alloc(pinned.nbytes)
cuda.memcpy_htod_async(device, pinned, stream)
back = np.empty_like(pinned)
stream.synchronize()
cuda.memcpy_dtoh(back, device)
assert (back == 4).all()
assert len(cuda.mem_get_ipc_handle(device)) == 64
free, total = cuda.mem_get_info()
assert 0 < free < total
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


@pytest.mark.heavy
def test_pycuda(native: Path, emulator_env: Env) -> None:
    env = emulator_env()
    env["LD_LIBRARY_PATH"] += f":{LIBRARIES}"
    if subprocess.run([PYTHON, "-c", "import pycuda.driver"], env=env, check=False, capture_output=True).returncode:
        pytest.skip(
            "PyCUDA is not installed (HEAVY_PYTHON names a Python that has it, HEAVY_LIBRARIES libcurand's place)"
        )
    done = subprocess.run([PYTHON, "-c", PYCUDA], env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "is not part of the emulated GPU" not in done.stderr
    assert kernels(native, env) >= 7
