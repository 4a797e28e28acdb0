"""What NVML says of this node's GPUs: asked in a child process, because the driver may hang or crash (gpu_processes.py)."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from typing import Any, Final

from fikitd.base.child_process import end

ASK_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 2**20

Seen = dict[str, Any]  # one GPU or MIG instance, as gpu_processes tells it


class NoNvml(Exception):
    """There is nobody to ask; why."""


async def ask(view: bool = False) -> list[Seen]:
    """Every GPU with its processes, and with `view` what people look at besides (gpu_processes.devices); NoNvml when NVML does not tell, OSError (fikitd.base.scarcity) when it could not be asked."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", "fikitd.gpu_processes", *(["--view"] if view else []),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ASK_S):
            out, error = await child.communicate()
    except TimeoutError:
        raise NoNvml(f"it did not answer within {ASK_S:g} s") from None
    finally:
        await end(child)
    if child.returncode != 0:  # it was killed, or found no memory or descriptor to begin with: that may pass
        last = (error.decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise OSError(errno.EAGAIN, f"NVML could not be asked: {last}")
    answer = json.loads(out) if len(out) <= MAX_ANSWER_BYTES else "its answer is too long"
    if isinstance(answer, str):
        raise NoNvml(answer)
    return list(answer)
