"""A user's many wait for each other, and nobody else does."""

from __future__ import annotations

import asyncio

from fikitd.clients.turns import Turns


def test_a_users_many_wait_in_their_order_and_another_user_does_not() -> None:
    async def run() -> list[str]:
        turns, done, go = Turns(2), [], asyncio.Event()

        async def one(uid: int, name: str) -> None:
            async with turns.of(uid):
                if uid == 1:
                    await go.wait()
                done.append(name)

        tasks = [asyncio.ensure_future(one(1, f"first {number}")) for number in range(5)]
        await asyncio.sleep(0)
        await one(2, "second")
        tasks.pop().cancel()  # one that waits goes away
        go.set()
        await asyncio.gather(*tasks)
        assert vars(turns)["_users"] == {}
        return done

    assert asyncio.run(run()) == ["second", "first 0", "first 1", "first 2", "first 3"]
