"""Graphs under the shim: one unit with an identity of its structure, a duration of its own, and memory that is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shim_daemon import SAMPLE, Daemon, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

MIB = 2**20
Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
IMPORTS = "from graph_child import *\ncontext()\nf = functions()\nspin, second, nccl = f.values()\n"


def described(code: str, on_gpu: Start, fikitd: Daemon, graphs: int) -> list[dict[str, Any]]:
    """What fikitd was told about the graphs of a program, in the order in which they first ran."""
    on_gpu(IMPORTS + code + "\ncheck(cu.cuCtxSynchronize())", fikitd).finish()
    wait_for(lambda: len(fikitd.kernels) >= graphs, "descriptions")
    assert len(fikitd.kernels) == graphs
    return [kernel for _, kernel in sorted(fikitd.kernels.items())]


CHAIN = "g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a); run(g)\n"
SAME = {
    "built again": CHAIN,
    "built in another order": "g = graph(); b = add(g, kernel(second)); a = add(g, kernel(spin)); "
    "check(cu.cuGraphAddDependencies(g, *after((a,))[:1], *after((b,)))); run(g)\n",
    "of another load of the module": "h = functions(); g = graph(); a = add(g, kernel(h['fikit_spin'])); "
    "add(g, kernel(h['second']), a); run(g)\n",
    "with other arguments": "NS.value = 5000; " + CHAIN,
    "captured": "run(captured(spin, second))\n",
}
OTHER = {
    "other edges": "g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second)); run(g)\n",
    "the other way round": "g = graph(); b = add(g, kernel(second)); a = add(g, kernel(spin), b); run(g)\n",
    "another grid": "g = graph(); a = add(g, kernel(spin, 2)); b = add(g, kernel(second), a); run(g)\n",
    "another kernel": "g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(spin), a); run(g)\n",
    "one more": "g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a); add(g, kernel(spin), b); run(g)\n",
    "another module": "h = functions(PTX + b'// changed'); g = graph(); a = add(g, kernel(h['fikit_spin'])); "
    "add(g, kernel(h['second']), a); run(g)\n",
}


@pytest.mark.parametrize("way", SAME)
def test_the_same_structure_is_the_same_graph(way: str, on_gpu: Start, daemon: StartDaemon) -> None:
    (known,) = described(CHAIN + SAME[way], on_gpu, daemon(), 1)
    assert known["name"] == "graph of 2 nodes"
    assert known["kind"] == 1


@pytest.mark.parametrize("way", OTHER)
def test_another_structure_is_another_graph(way: str, on_gpu: Start, daemon: StartDaemon) -> None:
    one, two = described(CHAIN + OTHER[way], on_gpu, daemon(), 2)
    assert one["module"] != two["module"]


def test_a_graph_is_the_same_in_every_process(on_gpu: Start, daemon: StartDaemon) -> None:
    code = CHAIN + "inner = graph(); add(inner, kernel(spin)); g = graph(); add_child(g, inner); run(g)"
    runs = [described(code, on_gpu, daemon(), 2) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][0]["module"] != runs[0][1]["module"]


def test_a_child_graphs_kernels_are_part_of_it(on_gpu: Start, daemon: StartDaemon) -> None:
    code = "".join(
        f"inner = graph(); add(inner, kernel({inner})); g = graph(); add_child(g, inner); run(g)\n"
        for inner in ("spin", "spin, 3", "second", "spin")
    )
    graphs = described(code, on_gpu, daemon(), 3)
    assert {graph["name"] for graph in graphs} == {"graph of 2 nodes"}


def test_sizes_of_fills_are_part_of_it(on_gpu: Start, daemon: StartDaemon) -> None:
    code = """
p = made(call("cuMemAlloc_v2", ctypes.c_size_t(MIB)))
ctx = ctypes.c_void_p(); check(cu.cuCtxGetCurrent(ctypes.byref(ctx)))
for width, value in ((100, 1), (100, 2), (200, 1)):
    g = graph()
    made(call("cuGraphAddMemsetNode", g, *after(()), ctypes.byref(FillNode(p, 0, value, 1, width, 1)), ctx))
    run(g)
"""
    described(code, on_gpu, daemon(), 2)


def test_new_arguments_keep_the_identity_and_another_grid_changes_it_until_it_is_back(
    on_gpu: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    code = """
g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a)
exec_ = run(g)
NS.value = 7000
set_kernel(exec_, a, kernel(spin)); launch(exec_)
set_kernel(exec_, a, kernel(spin, 9)); launch(exec_); launch(exec_)
set_kernel(exec_, a, kernel(spin)); launch(exec_)
params = NodeParams(type=0, kernel=kernel(second, 5))
check(cu.cuGraphExecNodeSetParams(exec_, ctypes.c_void_p(b), ctypes.byref(params))); launch(exec_)
set_kernel(exec_, b, kernel(second)); launch(exec_)
"""
    graphs = described(code, on_gpu, fikitd, 3)
    assert len({graph["module"] for graph in graphs}) == 3
    assert [fikitd.page().u64("slot_launches", slot) for slot in (1, 2, 3)] == [4, 2, 1]


def test_a_node_switched_off_makes_another_graph(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a)
exec_ = run(g)
for on in (0, 0, 1, 1):
    check(cu.cuGraphNodeSetEnabled(exec_, ctypes.c_void_p(a), on)); launch(exec_)
"""
    described(code, on_gpu, fikitd, 2)
    assert [fikitd.page().u64("slot_launches", slot) for slot in (1, 2)] == [3, 2]


def test_a_whole_update_makes_it_the_graph_it_was_updated_from(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a)
wide = graph(); a2 = add(wide, kernel(spin, 4)); b2 = add(wide, kernel(second), a2)
class Outcome(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_", ctypes.c_void_p)]
exec_ = run(g)
set_kernel(exec_, a, kernel(spin, 9))
for of in (wide, g):
    check(cu.cuGraphExecUpdate_v2(exec_, of, ctypes.byref(Outcome())))
    launch(exec_)
run(wide)
other = graph(); add(other, kernel(spin))
assert cu.cuGraphExecUpdate_v2(exec_, other, ctypes.byref(Outcome())) != 0
launch(exec_)
"""
    described(code, on_gpu, fikitd, 2)
    assert [fikitd.page().u64("slot_launches", slot) for slot in (1, 2)] == [3, 2]


def test_an_update_that_makes_two_kernels_change_places_makes_another_graph(on_gpu: Start, daemon: StartDaemon) -> None:
    code = """
g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(second), a)
swapped = graph(); a2 = add(swapped, kernel(second)); b2 = add(swapped, kernel(spin), a2)
class Outcome(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_", ctypes.c_void_p)]
exec_ = run(g)
check(cu.cuGraphExecUpdate_v2(exec_, swapped, ctypes.byref(Outcome()))); launch(exec_)
"""
    described(code, on_gpu, daemon(), 2)


def test_no_names_are_used_up_on_the_way_from_one_graph_to_another(on_gpu: Start, daemon: StartDaemon) -> None:
    """Each of 100 nodes gets each of 90 grids: 9,000 graphs, of which 90 are launched."""
    fikitd = daemon()
    code = """
g = graph(); nodes = [add(g, kernel(spin)) for _ in range(100)]
exec_ = run(g)
for grid in range(2, 92):
    for node in nodes:
        set_kernel(exec_, node, kernel(spin, grid))
    launch(exec_)
"""
    graphs = described(code, on_gpu, fikitd, 91)
    assert len({graph["module"] for graph in graphs}) == 91


def test_a_destroyed_executables_handle_means_the_next_one(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
seen = {}
for grid in range(1, 40):
    g = graph(); add(g, kernel(spin, grid))
    exec_ = run(g)
    seen.setdefault(exec_.value, []).append(grid)
    check(cu.cuCtxSynchronize()); check(cu.cuGraphExecDestroy(exec_)); check(cu.cuGraphDestroy(g))
"""
    assert len({graph["module"] for graph in described(code, on_gpu, fikitd, 39)}) == 39


def test_a_graph_with_a_collective_kernel_is_exclusive(on_gpu: Start, daemon: StartDaemon) -> None:
    code = """
g = graph(); add(g, kernel(nccl)); run(g)
inner, g = graph(), graph(); add(inner, kernel(nccl)); add_child(g, inner); run(g)
g = graph(); add(g, kernel(spin)); run(g)
"""
    assert [graph["kind"] for graph in described(code, on_gpu, daemon(), 3)] == [2, 2, 1]


def test_a_captured_cooperative_launch_makes_the_graph_exclusive(on_gpu: Start, daemon: StartDaemon) -> None:
    code = """
stream, g = ctypes.c_void_p(made(call("cuStreamCreate", 0))), ctypes.c_void_p()
check(cu.cuStreamBeginCapture_v2(stream, 2))
check(cu.cuLaunchCooperativeKernel(ctypes.c_void_p(spin), 1, 1, 1, 32, 1, 1, 0, stream, ARGUMENTS))
check(cu.cuStreamEndCapture(stream, ctypes.byref(g)))
run(g)
run(captured(spin))
"""
    assert [graph["kind"] for graph in described(code, on_gpu, daemon(), 2)] == [2, 1]


def test_a_graph_with_a_cooperative_kernel_is_exclusive_and_another_one(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
context()
for kind in (1, 2):
    fake.fake_graph(kind)
    exec_ = ctypes.c_void_p()
    check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec_), None, ctypes.c_ulonglong(0)))
    check(cu.cuGraphLaunch(exec_, None))
"""
    program(code, fikitd).finish()
    wait_for(lambda: len(fikitd.kernels) == 2, "two descriptions")
    assert [kernel["kind"] for _, kernel in sorted(fikitd.kernels.items())] == [1, 2]


def test_collective_kernels_are_exclusive_however_they_are_launched(on_gpu: Start, daemon: StartDaemon) -> None:
    code = """
for function in (nccl, spin):
    check(cu.cuLaunchKernel(ctypes.c_void_p(function), 1, 1, 1, 32, 1, 1, 0, None, ARGUMENTS, None))
"""
    kernels = described(code, on_gpu, daemon(), 2)
    assert [(kernel["name"], kernel["kind"]) for kernel in kernels] == [
        ("ncclDevKernel_AllReduce", 2),
        ("fikit_spin", 0),
    ]


def test_a_graph_has_a_duration_of_its_own(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(measure=True)
    code = """
NS.value = 1_000_000
g = graph(); a = add(g, kernel(spin)); b = add(g, kernel(spin), a); exec_ = executable(g)
for _ in range(5): launch(exec_)
"""
    described(code, on_gpu, fikitd, 1)
    samples = [entry.value for entry in fikitd.page().of_kind(SAMPLE)]
    assert len(samples) == 5
    assert all(1_900_000 < value < 20_000_000 for value in samples)  # a busy machine makes it longer, never shorter


ALLOCATING = """
g = graph()
a, pointer = add_alloc(g, 3 * MIB)
freed = add_free(g, pointer, a)
b, pointer2 = add_alloc(g, 2 * MIB, freed)
add_free(g, pointer2, b)
"""


def test_a_graphs_memory_is_held_by_its_executable(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = (
        ALLOCATING
        + """
exec_ = run(g); say(); pause()
check(cu.cuCtxSynchronize()); check(cu.cuGraphExecDestroy(exec_)); say(); pause()
"""
    )
    run = on_gpu(IMPORTS + code, fikitd)
    run.line()
    assert fikitd.memory.held() == 3 * MIB
    run.go()
    run.line()
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, 3 * MIB)
    run.go()
    run.finish()


def test_the_limit_holds_for_a_graphs_memory(on_gpu: Start, daemon: StartDaemon) -> None:
    code = (
        ALLOCATING
        + """
say(instantiate(g)[0])
h = graph(); a, _ = add_alloc(h, MIB); add_alloc(h, 3 * MIB, a)
say(instantiate(h)[0])
"""
    )
    out, err = on_gpu(IMPORTS + code, daemon(limit_bytes=3 * MIB)).finish()
    assert out == "0\n2\n"
    assert "4.0 MiB more were asked for" in err
