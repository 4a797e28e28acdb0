"""Who is let in at a socket: by user, before anything is done for the connection."""

from __future__ import annotations

import itertools

from fikitd.base.rates import MOST_KEYS, Rate, Rates
from fikitd.base.shares import Limit, Places
from fikitd.daemon.admission import HELLOS, REQUESTS, Admission, Pace

ROOT, USER, STRANGER = 0, 1000, 2000
PLACES = Limit("connections", all=1000, user=100, job=100)


class Door:
    def __init__(self, pace: Pace = HELLOS, *, masters_pass: bool = False) -> None:
        self.now_s = 0.0
        self.users = frozenset({USER})
        self.admission = Admission(
            Places(PLACES), pace, lambda: self.users, masters_pass=masters_pass, clock=lambda: self.now_s
        )

    def let_in(self, uid: int, tries: int) -> int:
        """How many of so many connections that come at once."""
        return sum(self.admission.why_not(uid) is None for _ in range(tries))


def test_a_stranger_is_heard_a_few_times_and_then_seldom() -> None:
    for pace in (HELLOS, REQUESTS):
        door = Door(pace)
        assert door.let_in(STRANGER, 10_000) == pace.stranger.at_once
        door.now_s += 4
        assert door.let_in(STRANGER, 10_000) == 4 * pace.stranger.per_s
        assert door.admission.why_not(STRANGER) == f"uid {STRANGER} connects too often and has no job on this node"


def test_strangers_do_not_use_up_what_others_have() -> None:
    door = Door()
    for uid in range(STRANGER, STRANGER + 50):
        door.let_in(uid, 1000)
    assert door.let_in(USER, 600) == 600
    assert door.let_in(ROOT, 5000) == 5000


def test_a_user_with_a_job_has_room_for_all_its_processes_and_no_more() -> None:
    door = Door()
    assert door.let_in(USER, 10_000) == HELLOS.known.at_once
    assert door.admission.why_not(USER) == f"uid {USER} connects too often"


def test_a_strangers_first_job_is_a_users_at_once() -> None:
    door = Door()
    door.let_in(STRANGER, 1000)
    door.users = frozenset({STRANGER})
    assert door.let_in(STRANGER, 100) == 100


def test_a_user_whose_places_are_taken_is_refused_and_root_passes_where_it_may() -> None:
    door, hooks = Door(), Door(masters_pass=True)
    for each in (door, hooks):
        for uid in (ROOT, USER):
            each.admission.places.add(uid, count=100)
        assert (
            each.admission.why_not(USER) == f"uid {USER} has 100 connections already, which is the limit for one user"
        )
    assert door.let_in(ROOT, 1) == 0
    assert hooks.let_in(ROOT, 1000) == 1000


def test_rates_of_those_who_had_their_rest_are_forgotten() -> None:
    now_s = itertools.count()
    rates = Rates(lambda: next(now_s))
    for key in range(10 * MOST_KEYS):
        assert rates.take(key, Rate(at_once=2, per_s=0.5))
    assert len(vars(rates)["_left"]) <= MOST_KEYS + 1
