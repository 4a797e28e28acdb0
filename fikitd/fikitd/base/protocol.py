"""Mirror of core/protocol/fikit_protocol.h for the messages Python handles; a test compiles the header and compares.

The shared page is not here: only the native core touches it. The memory page of a job is: `memory.py` looks after it.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Final, TypeVar

from fikitd.base.validation import printable

OLDEST: Final = 2
VERSION: Final = 8
MEMORY_VERSION: Final = 2
SOCKET_NAME: Final = "fikitd.sock"
CONTROL_NAME: Final = "control.sock"
USERS_DIRECTORY: Final = "users"  # of a socket <uid>.sock for each user with a job, for that user alone
HOOKS_DIRECTORY: Final = "hooks"  # of a second control socket, for root alone
ENV_SOCKET: Final = "FIKIT_SOCKET"
DEFAULT_RUN_DIR: Final = "/run/fikit"
SLOTS: Final = 4096
NAME_BYTES: Final = 1024
REASON_BYTES: Final = 256
COLLECTIVES_BYTES: Final = 2048
MESSAGE_BYTES: Final = 2048
ANSWER_S: Final = 5
HELLO, WELCOME, REFUSED, KERNEL, JOIN, OUTSIDE = 1, 2, 3, 4, 5, 6
MEMORY_MAGIC: Final = 0x464B4D4D
MEMORY_SHARES: Final = 256
KIND_KERNEL, KIND_GRAPH, KIND_COOPERATIVE = 0, 1, 2
PURPOSE_WORK, PURPOSE_WATCH, PURPOSE_JOIN = 0, 1, 2
PURPOSE_MASK: Final = 0xFF
MPS_REFUSALS: Final = range(805, 810)  # CUDA_ERROR_MPS_CONNECTION_FAILED to CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED
HELLO_MPS, HELLO_NO_MPS = 0x100, 0x200  # in the purpose
COPY_NONE, COPY_IN, COPY_OUT = 0, 1, 2
PLAN_CHUNK_BYTES: Final = 2 * 2**20
PLAN_CHUNKS: Final = 32  # of one move
PLAN_MOVES: Final = 8192
PLAN_LAUNCHES: Final = 16384  # of a pass
PLAN_MOVE: Final = struct.Struct("=IIIHBB")  # after, before, chunk, allocation, chunks, copy


_Layout = TypeVar("_Layout", bound=ctypes.Structure)


class HeadLayout(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint32), ("bytes", ctypes.c_uint32))


class HelloLayout(ctypes.Structure):
    _fields_ = (
        ("head", HeadLayout),
        ("version", ctypes.c_uint32),
        ("purpose", ctypes.c_uint16),
        ("newest", ctypes.c_uint16),
        ("gpu_uuid", ctypes.c_uint8 * 16),
        ("gpu_memory_bytes", ctypes.c_uint64),
        ("gpu_name", ctypes.c_uint8 * 256),
    )


class WelcomeLayout(ctypes.Structure):
    _fields_ = (
        ("head", HeadLayout),
        ("version", ctypes.c_uint32),
        ("page_bytes", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint32),
        ("memory_share", ctypes.c_uint32),
    )


class RefusedLayout(ctypes.Structure):
    _fields_ = (("head", HeadLayout), ("reason", ctypes.c_uint8 * REASON_BYTES))


class OutsideLayout(ctypes.Structure):
    _fields_ = (("head", HeadLayout), ("refusal", ctypes.c_int32), ("outside", ctypes.c_int32))


class KernelLayout(ctypes.Structure):
    _fields_ = (
        ("head", HeadLayout),
        ("slot", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("module_hash", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("name", ctypes.c_uint8 * NAME_BYTES),
    )


KERNEL_BYTES: Final = ctypes.sizeof(KernelLayout)


class MemoryShareLayout(ctypes.Structure):
    _fields_ = (
        ("held_bytes", ctypes.c_uint64),
        ("wanted_bytes", ctypes.c_uint64),
        ("peak_bytes", ctypes.c_uint64),
        ("plain_bytes", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 4),
    )


class MemoryLayout(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("limit_bytes", ctypes.c_uint64),
        ("host_bytes", ctypes.c_uint64),
        ("pad0", ctypes.c_uint8 * 32),
        ("shares", ctypes.c_uint32),
        ("reserved1", ctypes.c_uint32),
        ("peak_bytes", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("pad1", ctypes.c_uint8 * 40),
        ("share", MemoryShareLayout * MEMORY_SHARES),
    )


class ProtocolError(ValueError):
    """A packet that no shim sends; its sender is disconnected."""


@dataclass(frozen=True)
class Device:
    """The GPU a client says it uses. `uuid` has nvidia-smi's form, GPU-8-4-4-4-12, or MIG-... of an instance."""

    name: str
    uuid: str
    memory_bytes: int

    @property
    def emulated(self) -> bool:
        return "Emulated" in self.name


@dataclass(frozen=True)
class Hello:
    oldest: int  # of the versions with which the shim works
    newest: int
    device: Device
    watches: bool = False  # it asks about the memory of its job and uses no GPU
    joins: bool = False  # it asks whether it may become a client of MPS
    in_mps: bool | None = None  # whether the program is one, by the driver's word; None: the driver does not say

    @property
    def version(self) -> int | None:
        """The newest version that both sides know; None when there is none."""
        newest = min(self.newest, VERSION)
        return newest if newest >= max(self.oldest, OLDEST) else None


@dataclass(frozen=True)
class Outside:
    """How the driver refused a program as a client of MPS. Both are CUDA errors."""

    refusal: int  # 0: it found no server, and runs outside
    outside: int  # of the second try, outside MPS; 0: the program runs there


@dataclass(frozen=True)
class Kernel:
    slot: int
    kind: int
    module_hash: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    name: str


def _layout(packet: bytes, kind: int, layout: type[_Layout], what: str) -> _Layout:
    if len(packet) != ctypes.sizeof(layout):
        raise ProtocolError(f"{what} has {len(packet)} bytes, not {ctypes.sizeof(layout)}")
    head = HeadLayout.from_buffer_copy(packet)
    if head.type != kind or head.bytes != len(packet):
        raise ProtocolError(f"{what} expected, got a packet of type {head.type} that claims {head.bytes} bytes")
    return layout.from_buffer_copy(packet)


def _text(field: ctypes.Array[ctypes.c_uint8], what: str) -> str:
    raw, terminator, _ = bytes(field).partition(b"\0")
    if not terminator:
        raise ProtocolError(f"{what} is not NUL-terminated")
    return printable(raw.decode("utf-8", "replace"))


def uuid_text(raw: bytes, kind: str = "GPU") -> str:
    """Sixteen bytes as `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`."""
    digits = raw.hex()
    return f"{kind}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_hello(packet: bytes) -> Hello:
    """The first packet of a connection; ProtocolError when it is not a hello."""
    m = _layout(packet, HELLO, HelloLayout, "hello")
    name = _text(m.gpu_name, "gpu_name")
    # The driver's name for a MIG instance is "NVIDIA H200 MIG 3g.71gb"; its UUID is the instance's, as nvidia-smi writes it.
    kind = "MIG" if " MIG " in name else "GPU"
    device = Device(name, uuid_text(bytes(m.gpu_uuid), kind), m.gpu_memory_bytes)
    purpose = m.purpose & PURPOSE_MASK
    return Hello(
        m.version,
        m.newest or m.version,
        device,
        purpose == PURPOSE_WATCH,
        purpose == PURPOSE_JOIN,
        True if m.purpose & HELLO_MPS else False if m.purpose & HELLO_NO_MPS else None,
    )


def parse_outside(packet: bytes) -> Outside:
    """The last packet of a program that fikitd let join MPS; ProtocolError when it is another."""
    m = _layout(packet, OUTSIDE, OutsideLayout, "refusal of MPS")
    if m.refusal != 0 and m.refusal not in MPS_REFUSALS:
        raise ProtocolError(f"CUDA error {m.refusal} is no refusal of MPS")
    return Outside(m.refusal, m.outside)


def parse_kernel(packet: bytes) -> Kernel:
    """A kernel description; ProtocolError when it is not one or its slot or kind does not exist."""
    m = _layout(packet, KERNEL, KernelLayout, "kernel description")
    if not 1 <= m.slot < SLOTS:
        raise ProtocolError(f"slot {m.slot} does not exist")
    if m.kind > KIND_COOPERATIVE:
        raise ProtocolError(f"kernel kind {m.kind} does not exist")
    (gx, gy, gz), (bx, by, bz) = m.grid, m.block
    return Kernel(
        m.slot, m.kind, m.module_hash, (gx, gy, gz), (bx, by, bz), m.shared_bytes, _text(m.name, "kernel name")
    )


def welcome(version: int, page_bytes: int, memory_bytes: int, memory_share: int) -> bytes:
    size = ctypes.sizeof(WelcomeLayout)
    return bytes(WelcomeLayout(HeadLayout(WELCOME, size), version, page_bytes, memory_bytes, memory_share))


def join() -> bytes:
    """Become a client of MPS."""
    return bytes(HeadLayout(JOIN, ctypes.sizeof(HeadLayout)))


def refused(reason: str) -> bytes:
    """A refusal with one sentence, cut to what the message holds."""
    message = RefusedLayout(HeadLayout(REFUSED, ctypes.sizeof(RefusedLayout)))
    text = reason.encode()[: REASON_BYTES - 1].decode("utf-8", "ignore").encode()
    ctypes.memmove(message.reason, text, len(text))
    return bytes(message)
