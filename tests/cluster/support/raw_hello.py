"""A shim's first packet, as somebody without a shim would make it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from fikitd.base import protocol

if TYPE_CHECKING:
    from cluster_jobs import Cluster


def hello(uuid: str) -> str:
    """What a shim on that GPU sends first, in hexadecimal digits."""
    packet = protocol.HelloLayout(version=protocol.VERSION, purpose=protocol.PURPOSE_WORK, gpu_memory_bytes=2**34)
    packet.head.type, packet.head.bytes = protocol.HELLO, ctypes.sizeof(packet)
    packet.gpu_uuid[:] = bytes.fromhex(uuid.removeprefix("GPU-").replace("-", ""))
    packet.gpu_name[:8] = b"Emulated"
    return bytes(packet).hex()


def uuids(cluster: Cluster) -> list[str]:
    """Of the node's GPUs, in Slurm's order."""
    libraries = {"LD_LIBRARY_PATH": str(cluster.sandbox.root / "native" / "emulator")}
    asked = [sys.executable, "-m", "fikitd.gpu_processes"]
    answer = subprocess.run(asked, env=cluster.env | libraries, capture_output=True, check=True).stdout
    return [gpu["uuid"] for gpu in json.loads(answer)]
