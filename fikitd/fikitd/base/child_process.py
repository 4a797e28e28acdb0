"""The end of a program that fikitd began to ask it something, and that need not have ended by itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

END_S: Final = 1.0


async def end(child: asyncio.subprocess.Process) -> None:
    """Kill it, if it is there. One that hangs in the driver cannot be ended: nobody waits for it for long."""
    with suppress(ProcessLookupError):
        child.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await child.wait()
