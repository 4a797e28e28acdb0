"""What NVML says of this node's GPUs: asked in a child process, because the driver may hang or crash (gpu_processes.py)."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any, Final

ASK_S: Final = 10.0
END_S: Final = 1.0
MAX_ANSWER_BYTES: Final = 2**20

Seen = dict[str, Any]  # one GPU or MIG instance, as gpu_processes tells it


class NoNvml(Exception):
    """There is nobody to ask; why."""


async def ask() -> list[Seen]:
    """Every GPU with its processes; NoNvml when NVML does not tell."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", "fikitd.gpu_processes",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ASK_S):
            out, error = await child.communicate()
    except TimeoutError:
        raise NoNvml(f"it did not answer within {ASK_S:g} s") from None
    finally:
        await _end(child)
    if child.returncode != 0 or len(out) > MAX_ANSWER_BYTES:
        raise NoNvml((error.decode(errors="replace").strip().splitlines() or ["it does not answer"])[-1])
    return list(json.loads(out))


async def _end(child: asyncio.subprocess.Process) -> None:
    """One that hangs in the driver cannot be ended: nobody waits for it for long."""
    with suppress(ProcessLookupError):
        child.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await child.wait()
