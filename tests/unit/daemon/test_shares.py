"""Who may have how much of fikitd: one user never all of it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fikitd._core import MAX_CLIENTS
from fikitd.base.shares import (
    CLIENTS,
    CONNECTIONS,
    DESCRIPTIONS,
    GPUS,
    HEAVY_REQUESTS,
    REQUESTS,
    WATCHERS,
    Limit,
    NoPlace,
    Places,
    of_descriptors,
)

ALL = (CLIENTS, GPUS, CONNECTIONS, WATCHERS, REQUESTS, HEAVY_REQUESTS, DESCRIPTIONS)
SMALL = Limit("pipes", all=6, user=3, job=2, kept=1)


@pytest.mark.parametrize("limit", ALL, ids=lambda limit: limit.things)
def test_no_user_reaches_what_all_have_together(limit: Limit) -> None:
    assert 0 < limit.job <= limit.user
    assert 2 * limit.user + limit.kept <= limit.all


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 65536, 2**20])
def test_few_descriptors_make_everybodys_share_smaller(descriptors: int) -> None:
    limit = of_descriptors(CONNECTIONS, descriptors)
    assert 0 < limit.job <= limit.user <= limit.all // 4
    assert limit.all * 6 < descriptors


def test_a_gpu_has_room_for_a_high_job_beside_any_number_of_lower_users() -> None:
    assert CLIENTS.all == MAX_CLIENTS
    clients = Places(CLIENTS)
    for uid in range(1000):
        with suppress(NoPlace):
            while True:
                clients.check(uid, f"job of {uid}", urgent=False)
                clients.add(uid, f"job of {uid}")
    with pytest.raises(NoPlace, match="for all users together"):
        clients.check(4000, "normal", urgent=False)
    with clients.take(5000, "high"):
        pass


def test_what_is_full_says_for_whom() -> None:
    pipes = Places(SMALL)
    pipes.add(1, "12", 2)
    for call, sentence in (
        (lambda: pipes.check(1, "12"), "job 12 has 2 pipes already, which is the limit for one job"),
        (lambda: pipes.check(1, "13", 2), "uid 1 has 2 pipes already, which is the limit for one user"),
        (lambda: pipes.check(2, "14", 2), ""),
    ):
        if not sentence:
            call()
            continue
        with pytest.raises(NoPlace) as full:
            call()
        assert str(full.value) == sentence
    pipes.add(2, "14", 3)
    with pytest.raises(NoPlace, match="there are 5 pipes already, which is the limit for all users together"):
        pipes.check(3, urgent=False)
    pipes.check(3)


def test_places_that_are_given_back_are_there_again_whatever_happened() -> None:
    pipes = Places(SMALL)
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), pipes.take(1, "12"):
            raise ZeroDivisionError
    assert pipes.taken == pipes.of_user(1) == pipes.of_job("12") == 0
