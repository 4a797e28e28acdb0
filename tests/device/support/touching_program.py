"""A program that says what it touches: kernels with parameters, then (BUFFERS) buffers a and b of the GPU, one of the host, and rows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim_daemon import Daemon, touches
from shim_program import Program

MIB = 2**20
PAGES = MIB // 4096  # of a MiB
Start = Callable[..., Program]

TOUCHING = """
ptx = b'''.version 8.0
.target sm_90
.address_size 64
.visible .entry two(.param .u32 n, .param .u64 a, .param .u64 b) { ret; }
.visible .entry many(.param .u32 n, .param .align 8 .b8 list[1024], .param .u32 last) { ret; }
.visible .entry odd(.param .align 4 .b8 mixed[12]) { ret; }
.visible .entry behind(.param .u32 n, .param .align 4 .b8 mixed[12]) { ret; }
.visible .entry none() { ret; }
'''
context()
module = made(call("cuModuleLoadData", ptx))
def function(name): return ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(module), name)))
def kernel(name):
    library = made(call("cuLibraryLoadData", ptx, None, None, 0, None, None, 0))
    return ctypes.c_void_p(made(call("cuLibraryGetKernel", ctypes.c_void_p(library), name)))
def u64(n): return ctypes.c_uint64(n)
def pointers(values): return (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
def launch(f, *values, extra=None):
    check(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, pointers(values) if values else None, extra))
    check(cu.cuCtxSynchronize())
class Many(ctypes.Structure): _fields_ = (("p", ctypes.c_uint64 * 128),)
def bytes_(n): return ctypes.c_size_t(n)
def done(result): check(result); check(cu.cuCtxSynchronize())
"""
BUFFERS = """
HOST, DEVICE, UNIFIED = 1, 2, 4
host = ctypes.create_string_buffer(2 * MIB)
a, b, f = made(alloc(2 * MIB)), made(alloc(3 * MIB)), function(b"two")
class End(ctypes.Structure): _fields_ = (("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t))
class Rows(ctypes.Structure): _fields_ = (("source", End), ("to", End), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t))
def rows(source, to):
    at = ctypes.addressof(host)
    return ctypes.byref(Rows(End(0, 1, source, at, a, None, 4096), End(8, 3, to, at, b, None, 4096), 100, 3))
here, own = ctypes.c_void_p(made(call("cuCtxGetCurrent"))), ctypes.c_void_p(made(call("cuStreamCreate", 1)))
class Side(ctypes.Structure): _fields_ = (("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("lod", ctypes.c_size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("context", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("rows", ctypes.c_size_t))
class Box(ctypes.Structure): _fields_ = (("source", Side), ("to", Side), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t))
def box(source, to, context=None):
    at = ctypes.addressof(host)
    return ctypes.byref(Box(Side(0, 1, 0, 0, source, at, a, None, context, 4096, 4), Side(8, 3, 0, 0, to, at, b, None, context, 4096, 4), 100, 2, 2))
class Attributes(ctypes.Structure): _fields_ = (("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("to", ctypes.c_int * 2), ("flags", ctypes.c_uint))
def batch(*copies):
    to, source = ((ctypes.c_uint64 * len(copies))(*[copy[i] for copy in copies]) for i in (0, 1))
    sizes = (ctypes.c_size_t * len(copies))(*[copy[2] for copy in copies])
    return to, source, sizes, bytes_(len(copies)), ctypes.byref(Attributes(1)), (ctypes.c_size_t * 1)(0), bytes_(1)
"""


def touched(start: Start, daemon: Daemon, code: str, **env: str) -> tuple[list[Any], str]:
    """What the shim has said of the program's launches, and what the program has printed. start: the fixture of touching_fixtures.py."""
    out, err = start(code, daemon, **env).finish()
    assert err == "", err
    return touches(daemon.page()), out
