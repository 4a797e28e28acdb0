"""The policy `budget` in manual time: equals share the device by user, then by job, then by process."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from decisions import grants, wake
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH = 1


class Owner(NamedTuple):
    """Of a low client."""

    user: int
    job: int


def shares(
    owners: list[Owner],
    *,
    ms: int = 400,
    length: int = 200 * US,
    asks_at_once: bool = True,
    late: frozenset[int] = frozenset(),
) -> Counter[int]:
    """Device time by place in `owners`. Each client asks for its next kernel when its newest one begins (asks_at_once) or ends.

    Clients at a place in `late` come after half of the time, and only what is served from then on counts.
    """
    made = Policy("budget", max_slowdown=1)  # it can pay for all that it fears
    made.event("client_added", HIGH, 0, priority=1)
    made.event("launched", HIGH, 0, duration_ns=0, slack_ns=[100_000 * S])
    now, wake_at = 0, None
    served: Counter[int] = Counter()
    asked: Counter[int] = Counter()
    running: list[tuple[int, int, int]] = []  # end on the device, client, request

    def tell(kind: str, client: int, **fields: int | bool) -> None:
        nonlocal wake_at
        pending = [(kind, client, fields)]
        while pending:
            kind, client, fields = pending.pop(0)
            said = made.event(kind, client, now, **fields)  # type: ignore[arg-type]
            wake_at = wake(said)
            for low in grants(said):
                end = max(now, running[-1][0] if running else 0) + length
                running.append((end, low, asked[low]))
                served[low] += length
                pending.append(("launched", low, {"granted": True, "request": asked[low], "duration_ns": length}))
                if asks_at_once:
                    asked[low] += 1
                    pending.append(("waiting", low, {"request": asked[low], "duration_ns": length}))

    def come(place: int) -> None:
        low = place + 2
        made.event("client_added", low, now, priority=8, user=owners[place].user, job=owners[place].job)
        asked[low] += 1
        tell("waiting", low, request=asked[low], duration_ns=length)

    for place in range(len(owners)):
        if place not in late:
            come(place)
    while now < ms * MS:
        assert wake_at is not None or running, "nobody is asked any more"
        moments = ([running[0][0]] if running else []) + ([] if wake_at is None else [max(wake_at, now + 1)])
        before, now = now, min(moments)
        if late and before < ms * MS // 2 <= now:
            served.clear()
            for place in sorted(late):
                come(place)
        if running and running[0][0] <= now:
            _, low, request = running.pop(0)
            tell("grant_done", low, request=request)
            if not asks_at_once:
                asked[low] += 1
                tell("waiting", low, request=asked[low], duration_ns=length)
        else:
            tell("tick", 0)
    return Counter({low - 2: ns for low, ns in served.items()})


def of(served: Counter[int], places: range) -> float:
    """The share of these clients."""
    return sum(served[place] for place in places) / served.total()


@pytest.mark.parametrize(("length", "asks_at_once"), [(200 * US, True), (1 * MS, False)])
@pytest.mark.parametrize("late", [frozenset(), frozenset({8}), frozenset(range(8))])
def test_a_user_with_eight_processes_gets_no_more_than_one_with_one(
    late: frozenset[int], length: int, *, asks_at_once: bool
) -> None:
    """Whoever came first, and however many jobs the eight are of."""
    for jobs in (1, 8):
        owners = [Owner(1000, 1 + place % jobs) for place in range(8)] + [Owner(1001, 99)]
        assert of(shares(owners, length=length, asks_at_once=asks_at_once, late=late), range(8)) == pytest.approx(
            0.5, abs=0.03
        )


def test_jobs_of_a_user_have_equal_shares_however_many_processes_they_have() -> None:
    served = shares([*[Owner(1000, 1)] * 3, Owner(1000, 2), Owner(1001, 3)])
    assert of(served, range(3)) == pytest.approx(0.25, abs=0.03)
    assert of(served, range(3, 4)) == pytest.approx(0.25, abs=0.03)
    assert all(served[place] / served.total() == pytest.approx(1 / 12, abs=0.02) for place in range(3))


def test_a_job_number_of_another_user_is_another_job() -> None:
    served = shares([Owner(1000, 1), Owner(1001, 1), Owner(1001, 1)])
    assert of(served, range(1)) == pytest.approx(0.5, abs=0.03)
