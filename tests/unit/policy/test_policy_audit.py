"""The policy `budget` in manual time: measured waits, and no forecast, decide what lower work has cost and when lower work stops."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, LOWER, OTHER = 1, 2, 3, 4
ALONE = 2 * MS
"""Blocked time of one of the high client's waits without lower work."""
EARNED = int(0.05 / 1.2 * (ALONE + MS))
"""What the high client's budget grows by with each wait, and the rest before that."""


class Pair:
    """A high client that launches, waits and rests for 1 ms, above a low client."""

    def __init__(self, **options: Any) -> None:
        self.policy = Policy("budget", **options)
        self.policy.event("client_added", HIGH, 0, priority=1)
        self.policy.event("client_added", LOW, 0, priority=8)
        self.now = 0
        self.request = 0  # the newest
        self.launched = 0  # the newest that was granted

    def waits(self, blocked: int = ALONE, predicted: int = ALONE, count: int = 1, client: int = HIGH) -> None:
        """`count` waits; the predictor says that each would be `predicted` long alone."""
        for _ in range(count):
            self.policy.event("launched", client, self.now, duration_ns=predicted, slack_ns=[1])
            self.policy.event(
                "drained",
                client,
                self.now + blocked,
                began_ns=self.now,
                duration_ns=0,
                slack_ns=[1],
                idle_ns=[MS],
            )
            self.now += blocked + MS

    def granted(self, client: int = LOW, length: int = 10 * US) -> bool:
        """The low client asks for a short kernel while the high client rests, and launches the kernel where granted."""
        self.request += 1
        asked = self.policy.event("waiting", client, self.now - 900 * US, request=self.request, duration_ns=length)
        if grants(asked) != [client]:
            self.policy.event("waiting_ended", client, self.now - 890 * US, request=self.request)
            return False
        self.launched = self.request
        self.policy.event(
            "launched", client, self.now - 880 * US, granted=True, request=self.request, duration_ns=length
        )
        return True

    def copies(self) -> bool:
        """May the low client copy? The high one never does."""
        self.request += 1
        asked = self.policy.event(
            "waiting", LOW, self.now - 700 * US, request=self.request, duration_ns=2 * MS, engine="to_device"
        )
        self.policy.event("waiting_ended", LOW, self.now - 690 * US, request=self.request)
        return grants(asked) == [LOW]

    def confirmed(self, client: int = LOW) -> None:
        self.policy.event("grant_done", client, self.now - 800 * US, request=self.launched)


@pytest.mark.parametrize(("blocked", "goes_on"), [(2 * ALONE, False), (ALONE, True)])
def test_delays_that_the_predictor_takes_for_the_clients_own_are_found_and_charged(
    blocked: int, *, goes_on: bool
) -> None:
    """The predictor has learnt the slow waits as the client's own: each of them ends as predicted."""
    pair = Pair()
    pair.waits(count=20)
    assert pair.granted()
    pair.waits(blocked=blocked, predicted=blocked, count=30)
    pair.confirmed()
    assert pair.granted() is goes_on


def test_waits_long_after_a_confirmed_grant_are_the_clients_own() -> None:
    pair = Pair()
    pair.waits(count=20)
    assert pair.granted()
    pair.confirmed()
    pair.now += 100 * MS
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=30)
    assert pair.granted()


@pytest.mark.parametrize(("blocked", "goes_on"), [(2 * ALONE, False), (ALONE + ALONE // 20, True)])
def test_a_client_that_reports_the_end_of_work_that_goes_on_is_found(blocked: int, *, goes_on: bool) -> None:
    """One wait in two has no grant by report, and takes as long as the others; before the low client's first grant waits were quick."""
    pair = Pair()
    pair.waits(count=400)
    went = 0
    for _ in range(200):
        took = ALONE
        if pair.granted():
            went += 1
            took = blocked
            pair.confirmed()
        pair.waits(blocked=took, predicted=took, count=2)
    assert went == 200 if goes_on else went < 100, went


def test_a_grant_counts_as_lower_work_until_its_end_is_confirmed() -> None:
    """The reckoned end passes; the client's next waits are late by a millisecond each, and none of them had a grant."""
    pair = Pair()
    pair.waits(count=20)
    assert pair.granted()
    pair.waits(blocked=ALONE + MS, count=30)
    pair.confirmed()
    assert not pair.granted()


def test_a_measured_delay_may_exceed_all_that_was_granted() -> None:
    pair = Pair()
    pair.waits(count=20)
    assert pair.granted()
    pair.waits(blocked=ALONE + 40 * MS)
    pair.confirmed()
    assert not pair.granted()


def test_one_late_wait_and_waits_that_differ_by_chance_are_not_charged() -> None:
    """A wait in two takes a quarter longer, with lower work and without; one takes 30 ms longer after the end of the grant."""
    pair = Pair()
    for own in (ALONE, ALONE + ALONE // 4) * 10:
        pair.waits(blocked=own, predicted=own)
    for own in (ALONE, ALONE + ALONE // 4) * 30:
        assert pair.granted()
        pair.confirmed()
        pair.waits(blocked=own, predicted=own)
    assert pair.granted()
    pair.confirmed()
    pair.waits(blocked=ALONE + 30 * MS)
    assert pair.granted()


def test_lower_work_pauses_where_no_wait_comes_without_it() -> None:
    """For one wait beside lower work and three without; not where all waits take as long. Then the slow waits are found."""
    pair = Pair()
    for _ in range(12):
        pair.granted()
        pair.waits()
    assert pair.granted()
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=2)
    pauses = 0
    while not pair.granted():
        pair.confirmed()
        pair.waits()
        pauses += 1
    assert pauses == 4
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=30)
    pair.confirmed()
    assert not pair.granted()


@pytest.mark.parametrize("step", [ALONE, 20 * MS])
def test_pauses_take_a_fiftieth_of_the_time_and_end_without_a_confirmation(step: int) -> None:
    """Lower work is never confirmed; a pause of 0.1 s and four steps begins after 20 ms, or a fiftieth of the time, allow for it."""
    pair, paused = Pair(), 0
    for number in range(10 * S // (step + MS)):
        if not pair.copies():
            paused += step + MS
        pair.granted()
        pair.waits(blocked=step + number % 2 * step, predicted=step + number % 2 * step)
    assert 0 < paused < 0.02 * pair.now + 100 * MS + 8 * (step + MS)


@pytest.mark.parametrize(("late", "waits"), [(50 * MS, 20 * MS // EARNED), (40 * MS, 0)])
def test_lower_work_stops_half_a_budget_below_zero_and_goes_on_at_zero(late: int, waits: int) -> None:
    """The budget holds 30 ms. A copy that costs the high client nothing goes at once, or once the client has earned the rest."""
    pair = Pair()
    pair.waits(count=400)
    assert pair.granted()
    pair.waits(blocked=ALONE + late)
    pair.confirmed()
    stopped = 0
    while not pair.copies():
        pair.waits()
        stopped += 1
        assert stopped < 1000
    assert abs(stopped - waits) <= 1


def in_debt(late: int, **options: Any) -> Pair:
    """A full budget, then one wait that lower work has made so late."""
    pair = Pair(**options)
    pair.waits(count=400)
    assert pair.granted()
    pair.waits(blocked=ALONE + late)
    pair.confirmed()
    return pair


@pytest.mark.parametrize("works", [True, False])
def test_a_stop_ends_after_20_seconds_and_leaves_no_debt(*, works: bool) -> None:
    """The high client, at work or at rest, would need 72 s to earn 3 s."""
    pair = in_debt(3 * S)
    begun = pair.now
    while not pair.copies():
        if works:
            pair.waits()
        else:
            pair.now += 10 * MS
    assert 19 * S < pair.now - begun < 21 * S
    pair.waits(count=2)
    assert pair.copies()


@pytest.mark.parametrize(("late", "goes_on"), [(100 * MS, True), (300 * MS, False)])
def test_below_a_client_without_a_budget_lower_work_stops_after_a_delay_of_200_ms(late: int, *, goes_on: bool) -> None:
    assert in_debt(late, max_slowdown=0).copies() is goes_on


def test_a_reference_needs_no_confirmation_once_lower_work_has_paused_for_100_ms() -> None:
    """The low client never confirms its kernel. Slow waits of the first 100 ms are no reference, quick ones after that are."""
    pair = Pair()
    pair.waits()
    assert pair.granted()
    for number in range(20):
        pair.waits(blocked=(1 + number % 2) * ALONE, predicted=(1 + number % 2) * ALONE)
        if not pair.copies():
            break
    paused = pair.now
    while not pair.copies():
        blocked = ALONE if pair.now - paused > 90 * MS else 2 * ALONE
        pair.waits(blocked=blocked, predicted=blocked)
    assert 100 * MS < pair.now - paused < 120 * MS
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=30)
    assert not pair.copies()


def test_work_that_an_open_gate_let_pass_counts_until_it_is_confirmed() -> None:
    """The high client comes while the low one's work is on the device: the slow waits beside it are no reference."""
    pair = Pair.__new__(Pair)
    pair.policy, pair.now, pair.request, pair.launched = Policy("budget"), 2 * MS, 0, 0
    pair.policy.event("client_added", LOW, 0, priority=8)
    pair.policy.event("launched", LOW, MS, duration_ns=50 * MS)
    pair.policy.event("client_added", HIGH, MS, priority=1)
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=20)
    pair.policy.event("drained", LOW, pair.now - 900 * US, duration_ns=0)
    pair.waits(count=4)
    assert pair.granted()
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=30)
    pair.confirmed()
    assert not pair.granted()


@pytest.mark.parametrize(("confirmed", "goes_on"), [(False, False), (True, True)])
def test_work_of_lower_levels_counts_until_it_is_confirmed(*, confirmed: bool, goes_on: bool) -> None:
    pair = Pair()
    pair.policy.event("client_added", LOWER, 0, priority=9)
    pair.waits(count=20)
    assert pair.granted(LOWER)
    if confirmed:
        pair.confirmed(LOWER)
    pair.now += 100 * MS
    pair.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=30)
    assert pair.granted(LOW) is goes_on


def culprit(pair: Pair, client: int) -> None:
    """The client's work makes one of the high client's waits 50 ms late."""
    assert pair.granted(client)
    pair.waits(blocked=ALONE + 50 * MS)
    pair.confirmed(client)


def stopped_beside_another() -> Pair:
    """A high client, LOW, whose work has just stopped all lower work, and OTHER, which cost nothing."""
    pair = Pair()
    pair.policy.event("client_added", OTHER, 0, priority=8)
    pair.waits(count=400)
    assert pair.granted(OTHER)
    pair.confirmed(OTHER)
    culprit(pair, LOW)
    return pair


def asks(pair: Pair, *clients: int) -> list[int]:
    """Which of the clients may go now? Then a wait of the high client."""
    went = []
    for client in clients:
        if pair.granted(client):
            pair.confirmed(client)
            went.append(client)
    pair.waits()
    return went


def test_of_two_low_clients_the_one_that_stops_the_others_is_found_and_kept_for_20_seconds() -> None:
    """Each comes back alone; the first makes a wait late again, and the second goes on alone."""
    pair = stopped_beside_another()
    alone: set[int] = set()
    while LOW not in (went := asks(pair, LOW, OTHER)):
        alone |= set(went)
    assert not alone
    culprit(pair, LOW)
    begun, first, both = pair.now, 0, 0
    while not both:
        went = asks(pair, LOW, OTHER)
        first = first or (pair.now if went == [OTHER] else 0)
        both = pair.now if LOW in went else 0
        assert pair.now - begun < 30 * S
    assert first - begun < 2 * S
    assert 19 * S < both - begun < 21 * S


def test_low_clients_that_cost_nothing_any_more_go_together_again() -> None:
    pair = stopped_beside_another()
    begun = pair.now
    went: list[int] = []
    while went != [LOW, OTHER]:
        went = asks(pair, LOW, OTHER)
        assert pair.now - begun < 3 * S


def stops_of(claimed: int, every: int = 1, *, in_stops: bool) -> tuple[list[int], float]:
    """How many waits each stop in 20 s lasts, and the share of time without a stop. One wait in so many is late, as the high client says."""
    pair = Pair()
    pair.waits(count=400)
    stops, begun, free = [0], pair.now, 0
    for number in range(1, 100_000):
        before = pair.now
        goes = pair.copies()
        pair.waits(blocked=ALONE + (claimed if (goes or in_stops) and number % every == 0 else 0))
        if goes:
            pair.policy.event("grant_done", LOW, pair.now - 500 * US, request=pair.request)
            free += pair.now - before
            if stops[-1]:
                stops.append(0)
        else:
            stops[-1] += 1
        if pair.now - begun > 20 * S:
            break
    return stops[:-1], free / (pair.now - begun)


@pytest.mark.parametrize(("claimed", "every", "free"), [(5 * MS, 1, 0.5), (50 * MS, 50, 0.7)])
def test_a_high_client_that_says_to_be_late_always_stops_lower_work_for_a_trial_and_less_each_time(
    claimed: int, every: int, free: float
) -> None:
    """It says so in stops as well. A client that is late beside lower work only stops that for most of the time."""
    stops, without = stops_of(claimed, every, in_stops=True)
    assert 1 <= stops[-1] <= 16 + every
    assert without > free
    honest, without = stops_of(claimed, every, in_stops=False)
    assert honest[-1] > 100
    assert without < 0.2


def reason(pair: Pair, client: int) -> tuple[str, int] | None:
    """Why the client's short kernel has to wait, as the client is told; None if it goes."""
    pair.request += 1
    asked = pair.policy.event("waiting", client, pair.now - 900 * US, request=pair.request, duration_ns=10 * US)
    why = None if grants(asked) == [client] else pair.policy.held(client)
    pair.policy.event("waiting_ended", client, pair.now - 890 * US, request=pair.request)
    return why


def test_a_stop_a_pause_and_a_turn_tell_a_low_client_no_more_than_a_spent_budget() -> None:
    """The high client works alike in all of them; nothing else keeps these kernels."""
    stopped = stopped_beside_another()
    assert reason(stopped, LOW) == ("budget_spent", HIGH)
    while LOW not in asks(stopped, LOW):
        pass
    assert reason(stopped, OTHER) == ("budget_spent", HIGH), "it is the first one's turn"
    paused = Pair()
    for _ in range(12):
        paused.granted()
        paused.waits()
    paused.waits(blocked=2 * ALONE, predicted=2 * ALONE, count=2)
    assert reason(paused, LOW) == ("budget_spent", HIGH)


def test_each_high_client_has_an_account_of_its_own() -> None:
    """One has a debt; the other one's waits earn nothing for it, and the stop ends when the debtor goes."""
    pair = Pair()
    debtor = 5
    pair.policy.event("client_added", debtor, 0, priority=1)
    pair.waits(count=400)
    pair.waits(count=400, client=debtor)
    assert pair.granted()
    pair.waits(blocked=ALONE + 300 * MS, client=debtor)
    pair.confirmed()
    pair.waits(count=2000)
    assert not pair.copies()
    pair.policy.event("client_removed", debtor, pair.now - 950 * US)
    assert pair.copies()
