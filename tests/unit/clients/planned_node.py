"""A GPU whose jobs have less room than they need, in manual time: fikitd.clients.memory_plans, with dispatchers that write down what they are told and a worker
that answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from functools import wraps
from types import SimpleNamespace
from typing import Any

from fikitd.api.memory_story import MemoryPlan, MemoryStory
from fikitd.clients.memory_plans import MemoryPlans
from fikitd.gpus.link_rate import LinkRate
from fikitd.gpus.memory_outline import Outline, Planned, Point
from fikitd.gpus.memory_turns import MovableJob, Process
from fikitd.workers.pool import Rights

GIB = 2**30
S = 1_000_000_000
PATH = "a" * 16
POINTS = [Point(6 * GIB, 0.05, 4 * GIB), Point(8 * GIB, 0.0, 0)]
OUTLINE = Outline(PATH, 50, S // 10, 1.0, 8 * GIB, POINTS)
PLANNED = Planned(PATH, 50, 6 * GIB, 8 * GIB, 4 * GIB, 0.05, S // 10, 3)


@dataclass
class FakeDispatcher:
    passes: int = 0
    skipped: int = 5  # under the fikitd before
    refused: int = 0
    missed_bytes: int = 0
    most_bytes: int = 0  # that it lately had, and when
    most_at_ns: int = -1
    bytes_per_s: int = 0  # of its moves in both directions, by a shim before protocol 8
    in_per_s: int = 0
    out_per_s: int = 0
    takes: bool = True
    told: list[tuple[Any, ...]] = field(default_factory=list)
    inside: bool = True
    gone: bool = False
    path: str = PATH

    def iteration(self, client: int) -> tuple[str, int, int, int] | None:
        return (self.path, 50, 1 + 50 * self.passes, S // 10) if self.inside else None

    def plan_state(self, client: int) -> dict[str, int]:
        return {"refused": self.refused, "skipped": self.skipped, "bytes_per_s": self.bytes_per_s}

    def moves(self, client: int) -> dict[str, int]:
        return {
            "missed_bytes": self.missed_bytes, "most_bytes": self.most_bytes, "most_at_ns": self.most_at_ns, "in_per_s": self.in_per_s,
            "out_per_s": self.out_per_s,
        }  # fmt: skip

    def packed_accesses(self, client: int, limit: int) -> bytes:
        if self.gone:
            raise IndexError("no such client")
        return b"accesses"

    def set_plan(self, client: int, first: int, launches: int, moves: bytes, until_ns: int) -> int:
        if moves == b"wrong":
            raise ValueError("a move of a plan is out of its bounds")
        self.told.append(("set", first, launches, moves, until_ns))
        return 7 if self.takes else 0

    def renew_plan(self, client: int, first: int | None, until_ns: int) -> int:
        self.told.append(("renew", first, until_ns))
        return 7

    def drop_plan(self, client: int) -> None:
        self.told.append(("drop",))


class Node:
    """A GPU of 16 GiB with room for 7 of a job's 8. answers: of a worker, by whether it is asked for a plan."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.has_bytes = 8 * GIB  # each process, at a look
        self.answers: dict[bool, Any] = {False: (asdict(OUTLINE), b""), True: (asdict(PLANNED), b"moves")}
        self.asked: list[tuple[Rights, str, dict[str, Any], list[bytes]]] = []
        self.at_work = 0
        self.takes_ns = 0  # a worker, for each answer
        self.worked_ns = 0
        self.uids = {1000}
        self.dispatcher = FakeDispatcher()
        self.link = LinkRate()
        self.story = MemoryStory(16 * GIB)
        self.plans = MemoryPlans(SimpleNamespace(run=self._run), self._work, lambda: self.now_ns)  # type: ignore[arg-type]
        self.client: Any = SimpleNamespace(
            number=3, version=7, place="gpu", record=SimpleNamespace(job="12", uid=1000, gid=100),
            job=SimpleNamespace(number=12, memory_story=self.story), peer=SimpleNamespace(pid=4003),
        )  # fmt: skip
        self.approved = 256 * GIB
        self.hangs = asyncio.Event()
        self.hangs.set()

    def second(self) -> list[tuple[Any, ...]]:
        """A second process of the job; what its dispatcher is told."""
        client = SimpleNamespace(**{**vars(self.client), "number": 4, "peer": SimpleNamespace(pid=4004)})
        other = FakeDispatcher()
        self.plans.came(client, other)  # type: ignore[arg-type]
        return other.told

    def elsewhere(self) -> MemoryStory:
        """What is told of a job that goes by a plan on another GPU."""
        story = MemoryStory(16 * GIB)
        client: Any = SimpleNamespace(
            number=9, version=7, place="other", record=self.client.record, job=SimpleNamespace(number=19, memory_story=story),
        )  # fmt: skip
        self.plans.came(client, FakeDispatcher())  # type: ignore[arg-type]
        story.planned(9, MemoryPlan(6 * GIB, 8 * GIB, 4 * GIB, 0.05, 1, 0))
        return story

    async def _run(self, uid: int, function: Callable[[], Any], timeout_s: float) -> Any:
        assert uid in self.uids
        return function()

    async def _work(
        self, rights: Rights, work: str, arguments: dict[str, Any], *, chunks: list[bytes], **bounds: Any
    ) -> Any:
        assert bounds["timeout_s"] <= 20
        assert bounds["answer_bytes"] == 8192 * 16
        self.asked.append((rights, work, arguments, chunks))
        self.at_work += 1
        try:
            await self.hangs.wait()
        finally:
            self.at_work -= 1
        self.now_ns += self.takes_ns
        self.worked_ns += self.takes_ns
        answer = self.answers[arguments["budget_bytes"] is not None]
        if isinstance(answer, Exception):
            raise answer
        said, moves = answer
        points = said.get("points") if isinstance(said, dict) and said != {"points": 5} else None
        return ({**said, "points": [list(point) for point in points]} if points else said), moves  # as JSON has it

    async def look(
        self,
        room: int = 7 * GIB,
        processes: int = 1,
        job: int = 12,
        first: int = 3,
        *,
        others: Sequence[MovableJob] = (),
        away: Container[int] = (),
        changing: bool = False,
    ) -> None:
        own = [Process(first + i, self.has_bytes, 0, 0, False, False, 0) for i in range(processes)]
        seen = [MovableJob(job, own, self.approved), *others]
        found = self.plans.look("gpu", room, 16 * GIB, seen, self.link)[0].processes
        self.enough = [each.enough_bytes for each in found]
        self.plans.act("gpu", seen, away, changing=changing)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now_ns += S // 20
        self.dispatcher.passes += 1

    async def looks(self, count: int, **how: Any) -> list[tuple[Any, ...]]:
        begin = len(self.dispatcher.told)
        for _ in range(count):
            await self.look(**how)
        return self.dispatcher.told[begin:]


def with_client() -> Node:
    """A node whose client may have a plan."""
    node = Node()
    node.plans.came(node.client, node.dispatcher)  # type: ignore[arg-type]
    return node


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run
