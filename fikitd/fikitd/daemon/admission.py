"""Who is let in at a socket, decided by the user that the kernel names before any work is done for the connection (D19).

A user without a job on this node has nothing to look for at the client socket, and is known only to few at the other one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fikitd.base.rates import Rate, Rates
from fikitd.base.shares import NoPlace, Places


@dataclass(frozen=True)
class Pace:
    """How often a user may connect: one with a job on this node, and one without. Never too often: root, and the daemon's own user."""

    known: Rate
    stranger: Rate


# A job's processes come all at once. A stranger's few are looked at closely, so that the refusal can say what is wrong.
HELLOS: Final = Pace(known=Rate(at_once=600, per_s=50), stranger=Rate(at_once=8, per_s=0.5))
# Of the control socket: `fikit top` asks once a second, a script for each of its jobs.
REQUESTS: Final = Pace(known=Rate(at_once=200, per_s=50), stranger=Rate(at_once=20, per_s=4))


class Admission:
    """At one socket. Only the event loop touches it."""

    def __init__(
        self,
        places: Places,
        pace: Pace,
        users: Callable[[], frozenset[int]],
        *,
        masters_pass: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`users`: those with a job on this node. `masters_pass`: no limit holds for root and the daemon's own user."""
        self.places = places
        self._masters = frozenset({0, os.geteuid()})
        self._pace, self._users, self._masters_pass = pace, users, masters_pass
        self._rates = Rates(clock)

    def why_not(self, uid: int) -> str | None:
        """Why a connection of that user is refused now, in one sentence; None: it is let in."""
        if uid not in self._masters:
            known = uid in self._users()
            if not self._rates.take((uid, known), self._pace.known if known else self._pace.stranger):
                return f"uid {uid} connects too often" + ("" if known else " and has no job on this node")
        try:
            self.places.check(uid)
        except NoPlace as error:
            return None if uid in self._masters and self._masters_pass else str(error)
        return None
