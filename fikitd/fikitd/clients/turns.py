"""Whose turn it is: so many of a user's things are done at a time, the others wait in their order, and other users do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Only the event loop touches it."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._users: dict[
            int, tuple[asyncio.Semaphore, list[None]]
        ] = {}  # with one entry for each that waits or has its turn

    @asynccontextmanager
    async def of(self, uid: int) -> AsyncIterator[None]:
        """Waits for one of the user's turns, which lasts as long as the block."""
        turn, there = self._users.setdefault(uid, (asyncio.Semaphore(self._at_once), []))
        there.append(None)
        try:
            async with turn:
                yield
        finally:
            there.pop()
            if not there:
                del self._users[uid]
