"""Code for programs under the shim: each call of the driver that copies, moves managed memory or fills, by one function.

`work(symbol, way, size, stream)` makes the call: way 0 within the device, 1 to it, 2 from it. `ways(symbol)` says which of the three it has. Both
raise KeyError for a symbol that they do not know: a row of entry_points.def without arguments here fails its tests.
Memory of the stand-in driver's device lies below 1 GiB.
"""

from __future__ import annotations

CALLS = r"""
import re
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p, Structure, byref
HOST, DEVICE, OTHER = 0x7f0000000000, 0x1000, 0x2000
class Rectangle(Structure):
    _fields_ = [(s + n, t) for s in ("src", "dst") for n, t in (("X", c_size_t), ("Y", c_size_t), ("type", c_int), ("host", c_void_p),
                ("device", c_void_p), ("array", c_void_p), ("pitch", c_size_t))] + [("width", c_size_t), ("height", c_size_t)]
class Box(Structure):
    _fields_ = [("src", c_uint64 * 11), ("dst", c_uint64 * 11), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]
class Operand(Structure):
    _fields_ = [("type", c_int), ("at", c_uint64), ("row", c_size_t), ("rows", c_size_t), ("hint", c_uint64)]
class Piece(Structure):
    _fields_ = [("src", Operand), ("dst", Operand), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("order", c_int), ("flags", c_uint)]
class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]
EITHER, IN, OUT, WITHIN = [0, 1, 2], [1], [2], [0]
WAYS = {
    "cuMemcpyHtoD": IN, "cuMemcpyHtoDAsync": IN, "cuMemcpyDtoH": OUT, "cuMemcpyDtoHAsync": OUT, "cuMemcpyDtoD": WITHIN, "cuMemcpyDtoDAsync": WITHIN,
    "cuMemcpy": EITHER, "cuMemcpyAsync": EITHER, "cuMemcpyWithAttributesAsync": EITHER, "cuMemcpyBatchAsync": EITHER,
    "cuMemcpy2D": EITHER, "cuMemcpy2DUnaligned": EITHER, "cuMemcpy2DAsync": EITHER,
    "cuMemcpy3D": EITHER, "cuMemcpy3DAsync": EITHER, "cuMemcpy3DPeer": WITHIN, "cuMemcpy3DPeerAsync": WITHIN,
    "cuMemcpy3DBatchAsync": EITHER, "cuMemcpy3DWithAttributesAsync": EITHER, "cuMemcpyPeer": WITHIN, "cuMemcpyPeerAsync": WITHIN,
    "cuMemcpyAtoA": WITHIN, "cuMemcpyAtoD": WITHIN, "cuMemcpyDtoA": WITHIN, "cuMemcpyAtoH": OUT, "cuMemcpyAtoHAsync": OUT, "cuMemcpyHtoA": IN, "cuMemcpyHtoAAsync": IN,
    "cuMemPrefetchAsync": [1, 2], "cuMemPrefetchBatchAsync": [1, 2], "cuMemDiscardAndPrefetchBatchAsync": [1, 2], "cuMemBatchDecompressAsync": WITHIN,
    **{f"cuMemset{d}{bits}{a}": WITHIN for d in ("D", "D2D") for bits in (8, 16, 32) for a in ("", "Async")},
}
def name_of(symbol):
    return re.sub(r"_v\d+$", "", re.sub(r"_pt(sz|ds)$", "", symbol))
def ways(symbol):
    return WAYS[name_of(symbol)]
def words(*values):
    return (c_uint64 * len(values))(*values)
# The last argument of a call that fills its list is where the driver says which piece failed.
def arguments(symbol, way, size, types):
    name = name_of(symbol)
    to, origin = ((OTHER, DEVICE), (DEVICE, HOST), (HOST, DEVICE))[way]
    kinds = types or ((2, 2), (1, 2), (2, 1))[way]
    failed = [byref(c_size_t())]
    if name in ("cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy2DAsync"):
        at = {"srchost": origin, "dsthost": to, "srcdevice": origin, "dstdevice": to}
        return [byref(Rectangle(srctype=kinds[0], dsttype=kinds[1], width=size // 4, height=4, **at))]
    if name in ("cuMemcpy3D", "cuMemcpy3DAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"):
        ends = [words(0, 0, 0, 0, kind, at, at, 0, 0, 0, 0) for kind, at in ((kinds[0], origin), (kinds[1], to))]
        return [byref(Box(*ends, size // 4, 2, 2))]
    piece = Piece(Operand(1, origin, 0, 0, 0), Operand(1, to, 0, 0, 0), size // 4, 2, 2, 0, 0)
    if name == "cuMemcpy3DBatchAsync": return [c_size_t(1), byref(piece), *([] if "_v2" in symbol else failed), c_uint64(0)]
    if name == "cuMemcpy3DWithAttributesAsync": return [byref(piece), c_uint64(0)]
    if name == "cuMemcpyBatchAsync":
        return [words(to), words(origin), words(size), c_size_t(1), None, None, c_size_t(0), *([] if "_v2" in symbol else failed)]
    if name == "cuMemcpyWithAttributesAsync": return [c_void_p(to), c_void_p(origin), c_size_t(size), None]
    if name.startswith("cuMemcpyPeer"): return [c_void_p(to), None, c_void_p(origin), None, c_size_t(size)]
    if name == "cuMemcpyAtoA": return [c_void_p(1), c_size_t(0), c_void_p(2), c_size_t(0), c_size_t(size)]
    if name in ("cuMemcpyAtoD", "cuMemcpyAtoH", "cuMemcpyAtoHAsync"): return [c_void_p(to), c_void_p(1), c_size_t(0), c_size_t(size)]
    if name in ("cuMemcpyDtoA", "cuMemcpyHtoA", "cuMemcpyHtoAAsync"): return [c_void_p(1), c_size_t(0), c_void_p(origin), c_size_t(size)]
    if name == "cuMemBatchDecompressAsync": return [None, c_size_t(size), 0, *failed]
    place = Location(1, 0) if way == 1 else Location(2, 0)
    if name == "cuMemPrefetchAsync":
        return [c_void_p(DEVICE), c_size_t(size), *((place, 0) if "_v2" in symbol else (0 if way == 1 else -1,))]
    if "PrefetchBatch" in name: return [words(DEVICE), words(size), c_size_t(1), byref(place), words(0), c_size_t(1), c_uint64(0)]
    if name.startswith("cuMemsetD2D"): return [c_void_p(DEVICE), c_size_t(4096), 7, c_size_t(size // 4), c_size_t(4)]
    if name.startswith("cuMemset"): return [c_void_p(DEVICE), 7, c_size_t(size)]
    return [c_void_p(to), c_void_p(origin), c_size_t(size)]
def work(symbol, way, size, stream=None, types=None):
    more = [stream] if "Async" in symbol else []
    return getattr(cu, symbol)(*arguments(symbol, way, size, types), *more)
"""
