"""cuda.core's graphs on the emulated GPU, unmodified: explicit nodes, captures, children, updates and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import kernels, run_script

pytest.importorskip("cuda.core")
Env = Callable[..., dict[str, str]]

SETUP = '''
import ctypes
from cuda.core import Device, GraphMemoryResource, LaunchConfig, ObjectCode, launch
from cuda.core.graph import GraphBuilder, GraphDefinition
device = Device()
device.set_current()
code = ObjectCode.from_ptx(b""".version 7.0
.target sm_70
.address_size 64
.visible .entry emu_increment(.param .u64 p) { ret; }
""")
kernel = code.get_kernel("emu_increment")
one = LaunchConfig(grid=1, block=1)
stream = device.create_stream()
buffer = device.allocate(64, stream=stream)
stream.sync()
word = lambda at=0: ctypes.c_uint32.from_address(int(buffer.handle) + at).value
def play(graph, times=1):
    for _ in range(times):
        graph.launch(stream)
    stream.sync()
'''

BUILT = (
    SETUP
    + """
called = []
event = device.create_event()
child = GraphDefinition()
child.launch(one, kernel, buffer).launch(one, kernel, buffer)
graph = GraphDefinition()
first = graph.memset(buffer, 5, 4)
second = first.embed(child).record(event).callback(lambda: called.append(word()))
last = second.wait(event).memcpy(int(buffer.handle) + 32, buffer, 4)
assert len(graph.nodes()) == 6 and len(graph.edges()) == 5
ready = graph.instantiate()
play(ready, 2)
assert called == [0x05050507] * 2 and word(32) == 0x05050507, called
graph.debug_dot_print("graph.dot")
assert open("graph.dot").read().count("->") == 6
last.destroy()
assert len(graph.nodes()) == 5
play(ready)
assert len(called) == 3
"""
)

UPDATED = (
    SETUP
    + """
def increments(target, count):
    graph = GraphDefinition()
    node = graph.memset(int(buffer.handle) + 32, 0, 1)
    for _ in range(count):
        node = node.launch(one, kernel, target)
    return graph
graph = increments(int(buffer.handle), 2).instantiate()
play(graph)
graph.update(increments(int(buffer.handle) + 8, 2))
play(graph, 2)
assert (word(), word(8)) == (2, 4), (word(), word(8))
try:
    graph.update(increments(int(buffer.handle), 3))
except Exception as error:
    assert "topology" in str(error).lower(), error
else:
    raise AssertionError("a graph of another shape was accepted")
builder = device.create_graph_builder().begin_building()
launch(builder, one, kernel, buffer)
left, right = builder.split(2)
for branch in left, right:
    launch(branch, one, kernel, buffer)
builder = GraphBuilder.join(left, right)
inner = device.create_graph_builder().begin_building()
launch(inner, one, kernel, buffer)
inner.end_building()
builder.embed(inner)
play(builder.end_building().complete())
assert word() == 6, word()
"""
)

MEMORY = (
    SETUP
    + """
memory = GraphMemoryResource(device)
builder = device.create_graph_builder().begin_building()
inside = memory.allocate(1 << 20, stream=builder)
launch(builder, one, kernel, inside)
launch(builder, one, kernel, buffer)
inside.close(builder)
graph = builder.end_building().complete()
play(graph, 3)
assert word() == 3
assert memory.attributes.used_mem_current == 0 and memory.attributes.used_mem_high == 1 << 20, memory.attributes
assert memory.attributes.reserved_mem_current == 1 << 20
graph.close()
memory.trim()
assert memory.attributes.reserved_mem_current == 0
explicit = GraphDefinition()
node = explicit.allocate(4096)
node.launch(one, kernel, node.dptr).deallocate(node.dptr)
play(explicit.instantiate(), 2)
"""
)


@pytest.mark.parametrize(
    ("script", "launched"), [(BUILT, 6), (UPDATED, 10), (MEMORY, 8)], ids=["built", "updated", "memory"]
)
def test_cuda_core_graphs(native: Path, emulator_env: Env, tmp_path: Path, script: str, launched: int) -> None:
    env = emulator_env()
    run_script(script, env, tmp_path)
    assert kernels(native, env) == launched
