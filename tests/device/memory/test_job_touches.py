"""From a program's arguments to its profile, with a real fikitd on the emulated GPU: which memory its kernels touch, and what a plan makes of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, usual_daemon
from fikitd.gpus.residency import Link
from fikitd.profiles.memory_plan import iteration, points
from fikitd.profiles.profile_store import ProfileStore

from fikitd import paths

MIB = 2**20
SUPPORT = Path(__file__).resolve().parents[1] / "support"  # what the programs import
LAYERS, PASSES = 6, 12

TRAINS = f"""
from memory_child import *
ptx = b'''.version 8.0
.target sm_90
.address_size 64
''' + b"".join(b'.visible .entry layer%d(.param .u32 n, .param .u64 a, .param .u64 b) {{{{ ret; }}}}\\n' % i for i in range({2 * LAYERS}))
context()
module = made(call("cuModuleLoadData", ptx))
kernels = [ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(module), b"layer%d" % i))) for i in range({2 * LAYERS})]
layers = [made(alloc(4 * MIB)) for _ in range({LAYERS})]
def launch(f, *words):
    values = [ctypes.c_uint64(word) for word in words]
    check(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, (ctypes.c_void_p * 3)(*[ctypes.addressof(v) for v in values]), None))
for _ in range({PASSES}):
    for step, f in enumerate(kernels):
        layer = step if step < {LAYERS} else {2 * LAYERS - 1} - step
        launch(f, 1, layers[layer], layers[layer - 1] if layer else 0)
    check(cu.cuCtxSynchronize())
print("done")
""".replace("{{", "{").replace("}}", "}")


daemon = pytest.fixture(usual_daemon)


@pytest.fixture
def runner(daemon: Fikitd, emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return Runner(daemon, Path(sys.executable), paths.shim(), emulator_env(PYTHONPATH=str(SUPPORT)))


def test_a_measured_run_says_what_its_kernels_touch(runner: Runner, daemon: Fikitd) -> None:
    runner.run("-c", TRAINS, measure=True, profile="trains")
    store = ProfileStore(daemon.profiles)
    (device,) = store.devices(os.getuid(), "trains")
    profile = store.load(os.getuid(), "trains", device)
    assert profile is not None
    accesses = profile["rhythm"]["accesses"]
    found = iteration(accesses)
    assert found is not None
    assert found.launches == 2 * LAYERS
    assert found.looked_at == 1
    assert found.peak_bytes == LAYERS * 4 * MIB
    assert found.least_bytes == 8 * MIB
    assert json.loads(json.dumps(accesses)) == accesses
    assert points(found, Link(1e13))[0].budget_bytes < found.peak_bytes


def test_of_a_job_that_nobody_measures_nothing_is_looked_at(runner: Runner, daemon: Fikitd) -> None:
    runner.run("-c", TRAINS, profile="trains")
    store = ProfileStore(daemon.profiles)
    for device in store.devices(os.getuid(), "trains"):
        profile = store.load(os.getuid(), "trains", device)
        assert profile is not None
        assert "accesses" not in (profile["rhythm"] or {})
