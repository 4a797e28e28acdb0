"""From a program's arguments to its profile, with a real fikitd on the emulated GPU: which memory its kernels touch, and what a plan makes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from daemon_process import Fikitd, Runner, usual_daemon
from fikitd.gpus.residency import Link
from fikitd.profiles.memory_plan import iteration, points
from fikitd.profiles.profile_store import ProfileStore
from oversubscribed import MIB, python_runner

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

GRAPHS = """
from memory_child import *
from graph_child import FillNode, KernelNode, after, executable, functions, graph
context()
kernel = functions()["second"]
a, b, c = made(alloc(4 * MIB)), made(alloc(4 * MIB)), made(alloc(8 * MIB))
word = ctypes.c_uint64(a)
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(word))
node = KernelNode(kernel, (1, 1, 1), (32, 1, 1), 0)
node.parameters = ctypes.addressof(arguments)
g = graph()
made(call("cuGraphAddKernelNode_v2", g, *after(()), ctypes.byref(node)))
here = ctypes.c_void_p(made(call("cuCtxGetCurrent")))
made(call("cuGraphAddMemsetNode", g, *after(()), ctypes.byref(FillNode(c, 0, 1, 1, MIB, 1)), here))
unit, host = executable(g), ctypes.create_string_buffer(65536)
word.value = b
for _ in range(12):
    check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(b + MIB), host, ctypes.c_size_t(65536)))
    check(cu.cuGraphLaunch(unit, None))
    check(cu.cuLaunchKernel(ctypes.c_void_p(kernel), 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
    check(cu.cuCtxSynchronize())
print("done")
"""


daemon = pytest.fixture(usual_daemon)


@pytest.fixture
def runner(daemon: Fikitd, emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return python_runner(daemon, emulator_env)


def learnt(daemon: Fikitd, name: str) -> list[dict[str, Any] | None]:
    """What the profile of this name says of the memory that kernels touch, for each device; None: nothing."""
    store = ProfileStore(daemon.profiles)
    profiles = [store.load(os.getuid(), name, device) for device in store.devices(os.getuid(), name)]
    assert profiles
    return [((profile or {}).get("rhythm") or {}).get("accesses") for profile in profiles]


def test_a_measured_run_says_what_its_kernels_touch(runner: Runner, daemon: Fikitd) -> None:
    runner.run("-c", TRAINS, measure=True, profile="trains")
    (accesses,) = learnt(daemon, "trains")
    assert accesses is not None
    found = iteration(accesses)
    assert found is not None
    assert found.launches == 2 * LAYERS
    assert found.looked_at == 1
    assert found.peak_bytes == LAYERS * 4 * MIB
    assert found.least_bytes == 8 * MIB
    assert json.loads(json.dumps(accesses)) == accesses
    assert points(found, Link(1e13))[0].budget_bytes < found.peak_bytes


def test_a_measured_run_says_what_graphs_and_copies_touch(runner: Runner, daemon: Fikitd) -> None:
    """A graph's kernel names memory, its memset and the copy before it say how much; a kernel behind it is a launch of its own."""
    runner.run("-c", GRAPHS, measure=True, profile="graphs")
    (accesses,) = learnt(daemon, "graphs")
    assert accesses is not None
    (learnt_iteration,) = accesses["iterations"]
    said = sorted(
        (step, allocation, page, *length) for step, allocation, page, _, *length in learnt_iteration["touches"]
    )
    assert said == [(0, 0, 0), (0, 1, 256, 16), (0, 2, 0, 256), (1, 1, 0)]
    found = iteration(accesses)
    assert found is not None
    assert found.least_bytes == (4 + 2 + 2) * MIB, "all of a, the chunk of b that is copied, the one of c that is set"


def test_of_a_job_that_nobody_measures_nothing_is_looked_at(runner: Runner, daemon: Fikitd) -> None:
    runner.run("-c", TRAINS, profile="trains")
    assert not any(learnt(daemon, "trains"))
