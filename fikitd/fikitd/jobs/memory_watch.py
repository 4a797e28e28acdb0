"""Looks once a second how much of the jobs' memory is on the GPUs, while there is a job that may have some on the host."""

from __future__ import annotations

import asyncio
from typing import Final

from fikitd.jobs.registry import Jobs

LOOK_S: Final = 1.0  # memory_story.STEP_S: one look, one point of a short job's picture


class MemoryWatch:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def watch(self) -> None:
        """For ever."""
        while True:
            await self._jobs.memory_on_host.wait()
            self._jobs.memory_on_host.clear()
            while self._jobs.look_at_memory():
                await asyncio.sleep(LOOK_S)
