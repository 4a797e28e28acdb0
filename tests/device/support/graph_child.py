"""Imported by programs that run under the shim on the emulated GPU: graphs, by hand and captured."""

from __future__ import annotations

import ctypes

from memory_child import MIB, call, check, context, cu, made, pause, say  # noqa: F401

NAMES = ("fikit_spin", "second", "ncclDevKernel_AllReduce")
PTX = b".version 8.0\n.target sm_90\n.address_size 64\n" + b"".join(
    b".visible .entry %b(.param .u64 ns) { ret; }\n" % name.encode() for name in NAMES
)


class KernelNode(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class NodeParams(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("kernel", KernelNode),
        ("rest", ctypes.c_longlong * 21),
    )


class FillNode(ctypes.Structure):
    _fields_ = (
        ("to", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class AllocNode(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("rest", ctypes.c_uint64 * 9),
        ("access", ctypes.c_void_p),
        ("access_count", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("pointer", ctypes.c_uint64),
    )


def functions(image: bytes = PTX) -> dict[str, int]:
    module = ctypes.c_void_p(made(call("cuModuleLoadData", image)))
    return {name: made(call("cuModuleGetFunction", module, name.encode())) for name in NAMES}


NS = ctypes.c_uint64(1000)
ARGUMENTS = (ctypes.c_void_p * 1)(ctypes.addressof(NS))


def kernel(function: int, grid: int = 1) -> KernelNode:
    node = KernelNode(function, (grid, 1, 1), (32, 1, 1), 0)
    node.parameters = ctypes.addressof(ARGUMENTS)
    return node


def graph() -> ctypes.c_void_p:
    return ctypes.c_void_p(made(call("cuGraphCreate", 0)))


def after(nodes: tuple[int, ...]) -> tuple[object, ctypes.c_size_t]:
    return (ctypes.c_void_p * max(len(nodes), 1))(*nodes), ctypes.c_size_t(len(nodes))


def add(to: ctypes.c_void_p, node: KernelNode, *before: int) -> int:
    return made(call("cuGraphAddKernelNode_v2", to, *after(before), ctypes.byref(node)))


def add_child(to: ctypes.c_void_p, child: ctypes.c_void_p, *before: int) -> int:
    return made(call("cuGraphAddChildGraphNode", to, *after(before), child))


def add_alloc(to: ctypes.c_void_p, bytes_: int, *before: int) -> tuple[int, int]:
    params = AllocNode(type=1, location_type=1, bytes=bytes_)
    node = made(call("cuGraphAddMemAllocNode", to, *after(before), ctypes.byref(params)))
    return node, params.pointer


def add_free(to: ctypes.c_void_p, pointer: int, *before: int) -> int:
    return made(call("cuGraphAddMemFreeNode", to, *after(before), ctypes.c_uint64(pointer)))


def instantiate(of: ctypes.c_void_p) -> tuple[int, int]:
    return call("cuGraphInstantiateWithFlags", of, ctypes.c_ulonglong(0))


def executable(of: ctypes.c_void_p) -> ctypes.c_void_p:
    return ctypes.c_void_p(made(instantiate(of)))


def launch(exec_: ctypes.c_void_p) -> None:
    check(cu.cuGraphLaunch(exec_, None))


def run(of: ctypes.c_void_p) -> ctypes.c_void_p:
    """Instantiate and launch once."""
    exec_ = executable(of)
    launch(exec_)
    return exec_


def set_kernel(exec_: ctypes.c_void_p, node: int, to: KernelNode) -> None:
    check(cu.cuGraphExecKernelNodeSetParams_v2(exec_, ctypes.c_void_p(node), ctypes.byref(to)))


def captured(*functions: int) -> ctypes.c_void_p:
    """The graph of launches of these, one after the other."""
    stream, out = ctypes.c_void_p(made(call("cuStreamCreate", 0))), ctypes.c_void_p()
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    for function in functions:
        check(cu.cuLaunchKernel(ctypes.c_void_p(function), 1, 1, 1, 32, 1, 1, 0, stream, ARGUMENTS, None))
    check(cu.cuStreamEndCapture(stream, ctypes.byref(out)))
    return out
