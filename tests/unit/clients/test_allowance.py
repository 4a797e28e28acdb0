"""How much time of workers a user may take for work that nobody waits for."""

from __future__ import annotations

from fikitd.workers.allowance import FORGET_AT, Allowance

S = 1_000_000_000


def test_a_burst_then_a_share_of_the_time() -> None:
    allowance = Allowance(60 * S, 0.1)
    now_ns = 0
    took_ns = 0
    while now_ns < 10_000 * S:
        wait_ns = allowance.wait_ns(1, now_ns)
        if wait_ns:
            now_ns += wait_ns
            continue
        now_ns += 4 * S
        took_ns += 4 * S
        allowance.took(1, now_ns, 4 * S)
    assert (60 + 1000 - 10) * S <= took_ns <= (60 + 1000 + 10) * S


def test_one_users_work_is_not_anothers() -> None:
    allowance = Allowance(60 * S, 0.1)
    allowance.took(1, 0, 100 * S)
    assert allowance.wait_ns(1, 0) == 400 * S + 1
    assert allowance.wait_ns(1, 400 * S + 1) == 0
    assert allowance.wait_ns(2, 0) == 0


def test_nobody_saves_up_more_than_a_burst_and_a_clock_that_stands_still_gives_nothing() -> None:
    allowance = Allowance(60 * S, 0.1)
    allowance.took(1, 0, 30 * S)
    allowance.took(1, 100_000 * S, 70 * S)
    assert allowance.wait_ns(1, 100_000 * S) == 100 * S + 1
    assert allowance.wait_ns(1, 99_000 * S) == 100 * S + 1


def test_users_with_a_full_burst_are_not_kept() -> None:
    allowance = Allowance(60 * S, 0.1)
    for uid in range(10 * FORGET_AT):
        allowance.took(uid, uid * 100 * S, S)
    assert len(allowance._purses) <= FORGET_AT + 1
    allowance.took(7, 0, 100 * S)
    for uid in range(100, 100 + 2 * FORGET_AT):
        allowance.took(uid, 0, 100 * S)
    assert allowance.wait_ns(7, 0) > 0, "who is in debt is kept"
