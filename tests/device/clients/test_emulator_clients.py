"""Unmodified third-party programs on the emulated GPU. Their results are zeros by construction: success and counts matter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import kernels, run_script, stats

Env = Callable[..., dict[str, str]]

TINYGRAD_EAGER = """
from tinygrad import Device, Tensor
assert Device.DEFAULT == "CUDA", Device.DEFAULT
for _ in range(10):
    (Tensor.ones(64, 64).contiguous() @ Tensor.ones(64, 64).contiguous()).relu().sum().item()
"""

TINYGRAD_JIT = """
from tinygrad import Device, Tensor, TinyJit, nn
from tinygrad.runtime.graph.cuda import CUDAGraph
model = [nn.Linear(64, 64), Tensor.relu, nn.Linear(64, 10)]
launches = 0
call = CUDAGraph.__call__
def counted(*args, **kwargs):
    global launches
    launches += 1
    return call(*args, **kwargs)
CUDAGraph.__call__ = counted
@TinyJit
def infer(x): return x.sequential(model).softmax().realize()
for _ in range(20): infer(Tensor.ones(4, 64).contiguous().realize()).numpy()
assert launches >= 15, launches
"""

CUDA_CORE = '''
import ctypes
from cuda.core import Device, LaunchConfig, ObjectCode, launch
device = Device()
device.set_current()
assert "Emulated" in device.name
code = ObjectCode.from_ptx(b""".version 7.0
.target sm_70
.address_size 64
.visible .entry emu_increment(.param .u64 p) { ret; }
""")
kernel = code.get_kernel("emu_increment")
stream = device.create_stream()
buffer = device.allocate(4096, stream=stream)
one = LaunchConfig(grid=1, block=32)
begin = stream.record(options={"timing_enabled": True})
for _ in range(25):
    launch(stream, one, kernel, buffer)
end = stream.record(options={"timing_enabled": True})
end.sync()
assert end - begin > 0
builder = device.create_graph_builder().begin_building()
for _ in range(5):
    launch(builder, one, kernel, buffer)
graph = builder.end_building().complete()
graph.upload(stream)
graph.launch(stream)
graph.launch(stream)
stream.sync()
assert ctypes.c_uint32.from_address(int(buffer.handle)).value == 35
buffer.close(stream)
stream.sync()
'''


def test_tinygrad_eager(native: Path, emulator_env: Env, tmp_path: Path) -> None:
    pytest.importorskip("tinygrad")
    env = emulator_env(DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"))
    run_script(TINYGRAD_EAGER, env)
    assert kernels(native, env) >= 20


def test_tinygrad_jit_launches_graphs(native: Path, emulator_env: Env, tmp_path: Path) -> None:
    pytest.importorskip("tinygrad")
    env = emulator_env(DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"))
    run_script(TINYGRAD_JIT, env)
    assert kernels(native, env) >= 40


def test_cuda_core_from_ptx(native: Path, emulator_env: Env) -> None:
    pytest.importorskip("cuda.core")
    env = emulator_env()
    run_script(CUDA_CORE, env)
    assert kernels(native, env) == 35


def test_two_programs_at_once(native: Path, emulator_env: Env, tmp_path: Path) -> None:
    pytest.importorskip("tinygrad")
    env = emulator_env(DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"))
    programs = [subprocess.Popen([sys.executable, "-c", script], env=env) for script in (TINYGRAD_EAGER, CUDA_CORE)]
    assert [program.wait(60) for program in programs] == [0, 0]
    (device,) = stats(native, env)
    assert len(device["processes"]) == 2
    assert all(p["kernels"] >= 20 and not p["alive"] for p in device["processes"])
    assert device["memory_used_bytes"] == 0
