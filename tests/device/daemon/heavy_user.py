"""A user who makes fikitd's work as large as possible, and what the others notice of it."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import socket
import statistics
import struct
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from daemon_process import Fikitd
from fikitd.api.client import Control
from fikitd.base import protocol
from fikitd.store.records import JobRecord

HEAVY, OTHER = 65533, 65534  # uids without rights
LAUNCH = 1
RING_ENTRIES = 4096


def hello(gpu: int = 1) -> bytes:
    """What a shim on that GPU sends first."""
    packet = protocol.HelloLayout(version=protocol.VERSION, purpose=protocol.PURPOSE_WORK, gpu_memory_bytes=2**34)
    packet.head.type, packet.head.bytes = protocol.HELLO, ctypes.sizeof(packet)
    packet.gpu_uuid[:] = [gpu] * 16
    packet.gpu_name[:3] = b"GPU"
    return bytes(packet)


def description(slot: int, name: bytes) -> bytes:
    packet = protocol.KernelLayout(protocol.HeadLayout(protocol.KERNEL, protocol.KERNEL_BYTES), slot, 0, 0xAB)
    packet.grid[:], packet.block[:] = (1, 1, 1), (1, 1, 1)
    ctypes.memmove(packet.name, name, len(name))
    return bytes(packet)


def connect(run_dir: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(60)
    client.connect(str(run_dir / protocol.SOCKET_NAME))
    return client


def managed(run_dir: Path, gpu: int = 1) -> tuple[socket.socket, list[int]]:
    """A client with its descriptors, once fikitd has welcomed it."""
    client = connect(run_dir)
    client.send(hello(gpu))
    packet, descriptors, _, _ = socket.recv_fds(client, 4096, 3)
    assert protocol.HeadLayout.from_buffer_copy(packet).type == protocol.WELCOME, packet
    return client, list(descriptors)


def fill_journal(page: int, ring_at: int, head_at: int, launches: int) -> None:
    """As many launches as that in the page of a client, as fast as they are read."""
    with mmap.mmap(page, 0) as memory:
        for number in range(launches):
            at = ring_at + 32 * (number % RING_ENTRIES)
            struct.pack_into("<QqIIQ", memory, at, number + 1, time.monotonic_ns(), 1 + number % 4000, LAUNCH, 0)
            struct.pack_into("<Q", memory, head_at, number + 1)
            if number % 2048 == 2047:
                time.sleep(0.02)


def crafted_profile(size: int) -> bytes:
    """A valid profile of about so many bytes."""
    histogram = {str(bucket): 1 for bucket in range(1000)}
    times = {"count": 1000, "mean_ns": 1.0, "m2": 0.0, "histogram": histogram}
    kernel = {
        "name": "k", "module": "ab", "grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0, "kind": 0, "context": [],
        "duration": times, "gap": times, "boundary": times,
    }  # fmt: skip
    one = len(json.dumps(kernel, separators=(",", ":"))) + 10
    kernels = [{**kernel, "name": f"k{number}"} for number in range(size // one)]
    document = {"format": "fikit-profile", "version": 1, "key": "heavy", "device": {"name": "GPU"}, "kernels": kernels}
    return json.dumps(document, separators=(",", ":")).encode()


class Child:
    """A process of this program's with another user's rights. What it does begins when its job has a record."""

    def __init__(self, daemon: Fikitd, uid: int, job: str, do: Callable[[], Any], **facts: Any) -> None:
        begin, go = os.pipe()
        self._ready, ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.read(begin, 1)
                kept = do()
                os.write(ready, b"1")
                signal.pause()
                del kept
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(begin)
        os.close(ready)
        JobRecord(job=job, uid=uid, gid=uid, priority=5, pid=self.pid, **facts).write(daemon.run_dir)
        os.write(go, b"1")
        os.close(go)

    def wait_until_ready(self) -> None:
        assert os.read(self._ready, 1), "the child has failed"

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ready)


def others_notice(daemon: Fikitd, times: int, pause_s: float = 0.02) -> dict[str, list[float]]:
    """How long a request of root's takes (a prolog's, an epilog's), and a first launch of another user's program; seconds."""
    report, result = os.pipe()

    def look() -> None:
        control = Control(daemon.run_dir, timeout_s=120)
        taken: dict[str, list[float]] = {"request": [], "first launch": []}
        for _ in range(times):
            begin = time.monotonic()
            control.ping()
            taken["request"].append(time.monotonic() - begin)
            begin = time.monotonic()
            client, descriptors = managed(daemon.run_dir, gpu=2)
            taken["first launch"].append(time.monotonic() - begin)
            client.close()
            for descriptor in descriptors:
                os.close(descriptor)
            time.sleep(pause_s)
        os.write(result, json.dumps(taken).encode())
        os.close(result)

    child = Child(daemon, OTHER, "2", look)
    os.close(result)
    said = b""
    while part := os.read(report, 65536):
        said += part
    os.close(report)
    child.end()
    return dict(json.loads(said))


def median_ms(seconds: list[float]) -> float:
    return 1e3 * statistics.median(seconds)


def memory_mib(daemon: Fikitd, what: str = "VmHWM") -> float:
    """Most memory that fikitd's own process has held."""
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1024


def ask_for_traces(run_dir: Path, job: str, times: int) -> list[socket.socket]:
    """Requests whose answers nobody reads."""
    asked = []
    for _ in range(times):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(run_dir / protocol.CONTROL_NAME))
        connection.send(f"trace {job}".encode())
        asked.append(connection)
    return asked
