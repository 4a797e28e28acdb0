"""What a worker makes of accesses that a user's program has said: outlines and plans, and nothing of what is none."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from fikitd._core import pack_profile
from fikitd.gpus.memory_outline import Outline, Planned
from fikitd.profiles import memory_plan
from fikitd.workers import user_work

CHUNK = memory_plan.CHUNK_BYTES
LIMIT = 4 * 2**20


def accesses(launches: int = 20, chunks: int = 40) -> dict[str, Any]:
    """Forwards and back through the chunks of an allocation."""
    touches = []
    for step in range(launches):
        layer = min(step, launches - 1 - step)
        touches += [[step, 0, 512 * (layer * 2 * chunks // launches + i), 1] for i in range(2 * chunks // launches)]
    return {
        "version": 1, "pages": [512 * chunks], "iterations": [{
            "path": "00000000000000aa", "length_ns": launches * 1_000_000, "passes": 2, "kernels": ["0000000000000001"],
            "steps": [[0, 1_000_000, 1]] * launches, "touches": touches,
        }],
    }  # fmt: skip


def pack(said: dict[str, Any] | None) -> bytes:
    """As a dispatcher packs what a client's kernels touch."""
    rhythm = {"version": 1, "slacks": {}, "segments": {}, "accesses": said or {}}
    return pack_profile([], rhythm, LIMIT)


def work(said: dict[str, Any] | None, budget_bytes: int | None, room_bytes: int = 0) -> tuple[Any, bytes]:
    packed = pack(said)
    arguments = {"link_bytes_per_s": [24e9, 24e9], "room_bytes": room_bytes, "budget_bytes": budget_bytes}
    result, answer = user_work.do("plan_memory", arguments, iter([packed] if packed else []), [])
    return json.loads(json.dumps(result)), b"".join(answer)


def test_without_a_budget_it_says_what_each_would_cost() -> None:
    said, answer = work(accesses(), None, room_bytes=31 * CHUNK)
    outline = Outline.of(said)
    assert answer == b""
    assert (outline.path, outline.launches, outline.peak_bytes) == ("00000000000000aa", 20, 40 * CHUNK)
    assert 31 * CHUNK in [point.budget_bytes for point in outline.points]


def test_with_one_it_makes_the_moves() -> None:
    said, answer = work(accesses(), 30 * CHUNK)
    planned = Planned.of(said)
    assert planned.budget_bytes == 30 * CHUNK
    assert len(answer) == 16 * planned.moves > 0


def test_of_nothing_it_makes_nothing() -> None:
    assert work(None, None) == (None, b"")
    assert work(accesses(), CHUNK) == (None, b""), "less than a launch touches"


def test_it_tries_no_other_budget_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_work, "PLAN_CPU_S", -1.0)
    said, _ = work(accesses(), None)
    assert Outline.of(said).points == [(40 * CHUNK, 0.0, 0)]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_program_says_of_its_accesses_is_a_plan_or_an_error(seed: int) -> None:
    """Bytes of what the core packs, broken anywhere."""
    random = Random(seed)
    packed = bytearray(pack(accesses(6, 12)))
    for _ in range(random.randint(1, 4)):
        packed[random.randrange(len(packed))] = random.randrange(256)
    for budget in (None, 8 * CHUNK):
        arguments = {"link_bytes_per_s": [24e9, 24e9], "room_bytes": 8 * CHUNK, "budget_bytes": budget}
        try:
            said, answer = user_work.do("plan_memory", arguments, iter([bytes(packed)]), [])
        except ValueError:
            continue
        if said is not None and budget is None:
            Outline.of(json.loads(json.dumps(said)))
        elif said is not None:
            assert len(b"".join(answer)) == 16 * Planned.of(said).moves


@pytest.mark.parametrize("pages", [2**32 - 1, 512 * 2**20])
def test_more_memory_than_can_be_planned_is_refused(pages: int) -> None:
    said = {**accesses(), "pages": [pages]}
    with pytest.raises(ValueError, match="planned"):
        work(said, None)


@pytest.mark.parametrize(
    "broken",
    [
        None, [], {}, {"points": []}, {"points": [[1, 2]]}, {"points": [[1, 0.0, 0]] * 17}, {"points": [[-1, 0.0, 0]]},
        {"points": [[1, float("inf"), 0]]}, {"path": 5}, {"path": "0" * 17}, {"launches": 0}, {"length_ns": 0}, {"looked_at": "all"},
        {"peak_bytes": 2**60},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_outline_is_not_taken(broken: Any) -> None:
    good, _ = work(accesses(), None)
    Outline.of(good)
    with pytest.raises(ValueError, match=" "):
        Outline.of({**good, **broken} if isinstance(broken, dict) and broken else broken)


@pytest.mark.parametrize(
    "broken",
    [
        None, [], {}, {"path": None}, {"launches": 2**17}, {"budget_bytes": -1}, {"moved_bytes": 1.5}, {"stretch": float("nan")},
        {"stretch": -0.1}, {"length_ns": 0}, {"moves": 2**20}, {"peak_bytes": None},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_plan_is_not_taken(broken: Any) -> None:
    good, _ = work(accesses(), 30 * CHUNK)
    Planned.of(good)
    with pytest.raises(ValueError, match=" "):
        Planned.of({**good, **broken} if isinstance(broken, dict) and broken else broken)
