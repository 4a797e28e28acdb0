"""What the shim says of the memory that a graph touches: on the emulated GPU, to a fake daemon."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import Daemon, touches
from touching_program import BUFFERS, PAGES, Start, touched

pytest_plugins = ["touching_fixtures"]

StartDaemon = Callable[..., Daemon]


GRAPHS = (
    BUFFERS
    + """
import graph_child
from graph_child import FillNode, KernelNode, NodeParams, after, executable
keep = []
def node(*values, of=None):
    found = KernelNode((of or f).value, (1, 1, 1), (32, 1, 1), 0)
    arguments = pointers(values)
    keep.append((values, arguments))
    found.parameters = ctypes.addressof(arguments)
    return found
def fill(at, width, height=1): return ctypes.byref(FillNode(at, 4096, 1, 1, width, height))
def box(to, x=0, height=1, depth=1):
    return ctypes.byref(Box(Side(type=HOST, host=ctypes.addressof(host), pitch=4096, rows=4), Side(x=x, type=DEVICE, device=to, pitch=4096, rows=4), 100, height, depth))
def add_fill(g, at, width, height=1): return ctypes.c_void_p(made(call("cuGraphAddMemsetNode", g, *after(()), fill(at, width, height), here)))
def add_copy(g, *how): return ctypes.c_void_p(made(call("cuGraphAddMemcpyNode", g, *after(()), box(*how), here)))
def add(g, *values, of=None): return ctypes.c_void_p(graph_child.add(g, node(*values, of=of)))
def run(e): done(cu.cuGraphLaunch(e, None))
g = graph_child.graph()
"""
)


def test_a_graph_touches_what_its_nodes_say(touching: Start, measured: Daemon) -> None:
    code = f"""{GRAPHS}
child = graph_child.graph()
add(child, u64(1), u64(b + 2 * MIB), u64(7))
graph_child.add_child(g, child)
add(g, u64(1), u64(a + MIB), u64(a))
add(g, u64(2), u64(a), u64(a + MIB))
add_fill(g, b, 100, 3)
add_copy(g, a + 8192, 5, 2, 2)
e = executable(g)
run(e)
check(cu.cuMemsetD8_v2(u64(b + 4096 * 9), 1, bytes_(1)))
check(cu.cuGraphLaunch_ptsz(e, None))
"""
    seen, _ = touched(touching, measured, code)
    own = [(0, 0, 512), (0, 2, 512, 6), (0, PAGES, 512), (1, 0, 768, 3), (1, 2 * PAGES, 768)]
    assert seen == [(1, own), (2, [(1, 9, 768, 1), *own])]


def test_a_graph_that_is_changed_touches_what_it_says_then(touching: Start, measured: Daemon) -> None:
    code = f"""{GRAPHS}
k, m, c = add(g, u64(1), u64(a), u64(0)), add_fill(g, b, 4096), add_copy(g, b + MIB)
e = executable(g)
many = Many((ctypes.c_uint64 * 128)(*[a + MIB + 4096 * i for i in range(4)]))
check(cu.cuGraphExecKernelNodeSetParams_v2(e, k, ctypes.byref(node(u64(1), many, u64(0), of=function(b"many")))))
run(e)
check(cu.cuGraphExecKernelNodeSetParams_v2(e, k, ctypes.byref(node(u64(1), u64(0), u64(b + 4096)))))
check(cu.cuGraphExecMemsetNodeSetParams(e, m, fill(a, 8192), here))
check(cu.cuGraphExecMemcpyNodeSetParams(e, c, box(a + 4 * 4096, 0, 2), here))
run(e)
check(cu.cuGraphNodeSetEnabled(e, m, 0))
params = NodeParams(type=0)
params.kernel = node(u64(1), u64(a + MIB), u64(0))
check(cu.cuGraphExecNodeSetParams(e, k, ctypes.byref(params)))
run(e)
check(cu.cuGraphNodeSetEnabled(e, m, 1))
run(e)
"""
    seen, _ = touched(touching, measured, code)
    assert [places for _, places in seen] == [
        [*((0, PAGES + i, 512) for i in range(4)), (1, 0, 768, 1), (1, PAGES, 768, 1)],
        [(0, 0, 512, 2), (0, 4, 512, 2), (1, 1, 768)],
        [(0, 4, 512, 2), (0, PAGES, 512)],
        [(0, 0, 512, 2), (0, 4, 512, 2), (0, PAGES, 512)],
    ]


def test_copies_and_memsets_of_a_graph_change_by_the_general_call_too(touching: Start, measured: Daemon) -> None:
    code = f"""{GRAPHS}
m, c = add_fill(g, b, 4096), add_copy(g, b + MIB)
e = executable(g)
params = NodeParams(type=2)
ctypes.memmove(ctypes.addressof(params) + 16, fill(a, 8192), ctypes.sizeof(FillNode))
ctypes.memmove(ctypes.addressof(params) + 16 + ctypes.sizeof(FillNode), ctypes.byref(here), 8)
check(cu.cuGraphExecNodeSetParams(e, m, ctypes.byref(params)))
params = NodeParams(type=1)
ctypes.memmove(ctypes.addressof(params) + 24, ctypes.byref(here), 8)
ctypes.memmove(ctypes.addressof(params) + 32, box(a + MIB), ctypes.sizeof(Box))
check(cu.cuGraphExecNodeSetParams(e, c, ctypes.byref(params)))
run(e)
"""
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(0, 0, 512, 2), (0, PAGES, 512, 1)])]


@pytest.mark.parametrize("version", ["cuGraphExecUpdate", "cuGraphExecUpdate_v2"])
def test_an_update_brings_the_memory_of_the_other_graph(version: str, touching: Start, measured: Daemon) -> None:
    update = "ctypes.byref(Result())" if version.endswith("_v2") else "ctypes.byref(bad), ctypes.byref(ctypes.c_int())"
    code = f"""{GRAPHS}
class Result(ctypes.Structure): _fields_ = (("result", ctypes.c_int), ("node", ctypes.c_void_p), ("source", ctypes.c_void_p))
bad = ctypes.c_void_p()
add(g, u64(1), u64(a), u64(0))
e = executable(g)
run(e)
for at in (b, a + MIB):
    other = graph_child.graph()
    add(other, u64(1), u64(at), u64(0))
    check(cu.{version}(e, other, {update}))
    check(cu.cuGraphDestroy(other))
    run(e)
"""
    seen, _ = touched(touching, measured, code)
    assert [places for _, places in seen] == [[(0, 0, 512)], [(1, 0, 768)], [(0, PAGES, 512)]]


def test_a_graph_says_no_more_places_than_a_launch_may_and_wider_ones(touching: Start, measured: Daemon) -> None:
    """What lies near each other becomes one place of known length, and the last one of it, whose end is not known."""
    code = f"""{GRAPHS}
c = made(alloc(40 * MIB))
for i in range(8):
    values = Many((ctypes.c_uint64 * 128)(*[a + 4096 * (16 * i + j) for j in range(16)]))
    add(g, u64(1), values, u64(0), of=function(b"many"))
for i in range(9): add(g, u64(1), u64(c + 4 * MIB * i), u64(b))
run(executable(g))
"""
    ((_, places),), _ = touched(touching, measured, code)
    assert places == [
        (0, 0, 512, 127), (0, 127, 512), (1, 0, 768), *((2, 4 * PAGES * i, 40 * PAGES) for i in range(9))
    ]  # fmt: skip


def test_places_far_apart_stay_apart_as_long_as_there_is_room(touching: Start, measured: Daemon) -> None:
    """60 of them 3 MiB apart become one, 10 of them 10 MiB apart do not."""
    code = f"""{GRAPHS}
c = made(alloc(300 * MIB))
near, far = [3 * MIB * i for i in range(60)], [200 * MIB + 10 * MIB * i for i in range(10)]
for at in near + far: add(g, u64(1), u64(c + at), u64(0))
run(executable(g))
"""
    ((_, places),), _ = touched(touching, measured, code)
    far = [(2, 200 * PAGES + 10 * PAGES * i, 300 * PAGES) for i in range(10)]
    assert places == [(2, 0, 300 * PAGES, 3 * PAGES * 59), (2, 3 * PAGES * 59, 300 * PAGES), *far]


def test_a_graph_names_what_is_there_when_it_is_launched(touching: Start, measured: Daemon) -> None:
    """Not what was freed, nor what never was the program's; and an executable that is gone is forgotten."""
    code = f"""{GRAPHS}
add(g, u64(1), u64(a), u64(b))
add(g, u64(1), u64(12345), u64(0))
e = executable(g)
check(free(b))
run(e)
check(cu.cuGraphExecDestroy(e))
other = graph_child.graph()
run(executable(other))
"""
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(0, 0, 512)]), (2, [])]


@pytest.mark.parametrize(
    "call", ["cuGraphMemsetNodeGetParams", "cuGraphKernelNodeGetParams_v2", "cuFuncGetParamInfo", "cuGraphGetNodes"]
)
def test_a_driver_that_does_not_say_it_of_a_graph_runs_it_all_the_same(
    call: str, touching: Start, measured: Daemon
) -> None:
    code = f"""{GRAPHS}
add(g, u64(1), u64(a), u64(b))
add_fill(g, b, 4096)
e = executable(g)
run(e)
out = ctypes.create_string_buffer(4096)
check(cu.cuMemcpyDtoH_v2(out, u64(b), bytes_(4096)))
say(out.raw == bytes([1]) * 4096)
"""
    out, err = touching(code, measured, EMUCUDA_FAULTS=f"call={call} times=all error=801").finish()
    assert out == "True\n", err
    assert all(len(places) < 3 for _, places in touches(measured.page()))


def test_a_graph_of_another_job_is_looked_at_no_more_than_before(touching: Start, daemon: StartDaemon) -> None:
    code = f"""{GRAPHS}
k, m = add(g, u64(1), u64(a), u64(0)), add_fill(g, b, 4096)
e = executable(g)
for i in range(30):
    check(cu.cuGraphExecKernelNodeSetParams_v2(e, k, ctypes.byref(node(u64(1), u64(b), u64(0)))))
    check(cu.cuGraphExecMemsetNodeSetParams(e, m, fill(a, 8192), here))
    run(e)
"""
    others = daemon(sample_every=4)
    third = "call=cuGraphNodeGetType nth=5 error=801"  # its structure, and its nodes alone: twice two
    _, calls = touching(code, others, EMUCUDA_LOG="1", EMUCUDA_FAULTS=third).finish()
    assert touches(others.page()) == []
    assert "cuGraphLaunch" in calls
    assert "ParamInfo" not in calls
    assert "injected" not in calls
