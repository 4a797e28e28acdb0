"""fikitd's log has a bound for each user and for all, and says what it left out."""

from __future__ import annotations

import logging
import sys

from fikitd.daemon.log_bounds import OF_ALL, OF_REFUSED, OF_USER, OF_USERS, Bounded


class Log:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.bounded = Bounded(lambda: self.now_s)

    def write(self, lines: int, **about: object) -> list[str]:
        """What comes through of so many lines."""
        written = []
        for number in range(lines):
            record = logging.makeLogRecord({"msg": "line %d", "args": (number,), "levelno": logging.INFO, **about})
            if self.bounded.filter(record):
                written.append(record.getMessage())
        return written


def test_a_user_writes_so_many_lines_and_others_go_on() -> None:
    log = Log()
    assert len(log.write(1000, uid=1000)) == OF_USER.at_once
    assert len(log.write(1000, uid=1000, refused=True)) == OF_REFUSED.at_once
    assert len(log.write(10, uid=1001)) == 10
    assert len(log.write(10)) == 10


def test_refusals_of_four_users_are_few_lines() -> None:
    log = Log()
    written = 0
    for _ in range(100):  # ten seconds
        written += sum(len(log.write(50, uid=uid, refused=True)) for uid in range(1, 5))
        log.now_s += 0.1
    assert written <= 4 * (OF_REFUSED.at_once + 1)


def test_any_number_of_users_together_write_less_than_ten_lines_a_second() -> None:
    log = Log()
    for uid in range(500):
        log.write(50, uid=uid)
    log.write(500)
    log.now_s += 100.0
    written = sum(len(log.write(50, uid=uid)) for uid in range(500)) + len(log.write(500))
    assert written <= OF_USERS.at_once + OF_ALL.at_once
    assert OF_USERS.per_s + OF_ALL.per_s < 10


def test_a_traceback_counts_as_its_lines() -> None:
    log = Log()
    try:
        raise ValueError
    except ValueError:
        fault = sys.exc_info()
    assert len(log.write(1000, exc_info=fault)) == OF_ALL.at_once / 20


def test_what_was_left_out_is_told_by_the_next_line() -> None:
    log = Log()
    log.write(OF_REFUSED.at_once.__int__() + 7, uid=1, refused=True)
    assert log.write(2) == ["line 0 (7 lines before this one were left out)", "line 1"]
