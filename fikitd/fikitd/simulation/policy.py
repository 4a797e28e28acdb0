"""A scheduling policy written in Python, for `fikit sim --policy mine.py` (docs/write-a-policy.md).

It is asked what a policy of the native core is asked (fikitd/core/policy/base/level_policy.hpp), under the same names, and sees the same
events and clients; fikitd/core/policy/baselines/prio.hpp explains both. One object decides about the clients of one priority. Times are int
nanoseconds; None: unknown, or never.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from fikitd._simulator import Client, Event, Given, Launches, Level, Options, Progress, Protection, Run

__all__ = [
    "DECIDED_BY", "Client", "Decision", "Event", "EventKind", "Given", "Launches", "Options", "Policy", "Progress", "Protection", "Run",
]  # fmt: skip

EventKind = Literal[
    "client_added", "client_removed", "profiled", "launched", "waiting", "copied", "waiting_ended", "drained", "running",
    "grant_done", "host_stands", "exclusive_runs", "tick",
]  # fmt: skip
"""Of `Event.kind`; what each says is in fikitd/core/policy/base/events.hpp."""

Decision = Literal["open", "close", "ask_copies", "grant", "extend_run", "end_run", "wake_at"]

DECIDED_BY: Final[dict[Decision, tuple[str, ...]]] = {
    "open": ("gates",),
    "close": ("gates",),
    "ask_copies": ("copies_that_matter",),
    "grant": ("choose", "granted", "choose_copy"),
    "extend_run": ("extended",),
    "end_run": ("overstaying",),
    "wake_at": ("next_change_ns",),
}
"""The methods of Policy that answer for each decision."""


class Policy:
    """Derive from it, and write choose(). Its clients, options and helpers are there from the first question on, not in __init__.

    A policy answers by what it was told: no clock, no randomness, nothing that two of its objects share.
    """

    _level: Level

    # What is asked.

    def choose(self, now_ns: int) -> Client | None:
        """The client whose request goes next; None: nobody's. Asked while one of its level waits, until it says None; what it chose counts as
        in flight at once."""
        raise NotImplementedError

    def granted(self, client: Client) -> Launches:
        """What the grant of a chosen client covers: its request, and of those that follow it so many less one."""
        return self._level.only_one(client)

    def next_change_ns(self, now_ns: int) -> int | None:
        """When choose() may answer differently although no event comes; after now. Unless it says so: when some client's work is over."""
        return self._level.next_moment_ns(now_ns)

    def gates(self) -> bool:
        """Are clients held at all for the sake of those that outrank them?"""
        return True

    def looks_ahead(self) -> bool:
        """Does it read the outlooks of events? Where nobody does they are empty. Asked once."""
        return False

    def extended(self, now_ns: int) -> tuple[Client, Launches] | None:
        """A client whose run goes on, and how far; asked until it says None."""
        return None

    def overstaying(self, now_ns: int) -> Client | None:
        """A client whose run must not go on; asked until it says None."""
        return None

    def copies_that_matter(self, client: Client) -> Iterable[str]:
        """Of "to_device" and "to_host", which of this held client's long copies have to ask. After a change of mind: look_at_gates()."""
        return ()

    def choose_copy(self, now_ns: int) -> Client | None:
        """Of those whose copy stands at the gate, the next to go; asked until it says None. Unless it says so: each, at once."""
        return next((client for client in self.clients if client.copy != "compute" and client.decided == "here"), None)

    def charged_ns(self, client: Client, granted: Launches) -> int:
        """For how much device time those above a client are asked when it is granted that."""
        return self._level.charged_ns(client, granted)

    # What is told.

    def noted(self, event: Event, client: Client) -> None:
        """What just happened to a client of its level or above it; `client` already knows."""

    def noted_given(self, given: Given, client: Client, now_ns: int) -> None:
        """The client is about to be given that by the object of another level."""

    def noted_done_below(self, event: Event) -> None:
        """A client below its level says that a grant of its is over: all that is known of such a client but its grants."""

    def learn(self, higher: Any) -> None:
        """Begin with what the object of a higher level knows. By default: a copy of all of it."""
        same = {id(theirs): mine for theirs, mine in zip(higher.clients, self.clients, strict=True)}
        known = {name: value for name, value in vars(higher).items() if name != "_level"}
        vars(self).update(copy.deepcopy(known, same))

    # What may be asked.

    @property
    def clients(self) -> list[Client]:
        """Who shares the GPU, the highest first."""
        return self._level.clients

    @property
    def options(self) -> Options:
        """Times and protection as fikit.toml, or the command line, says them."""
        return self._level.options

    @property
    def level(self) -> int:
        """The priority that it decides about; 10: of nobody yet."""
        return self._level.level

    @property
    def queue_free_ns(self) -> int:
        """When all known work of everybody is off the device."""
        return self._level.queue_free_ns

    def highest(self, holds: Callable[[Client], bool]) -> Client | None:
        """The highest client for which this holds, measuring ones left out: if it does not outrank somebody, none of them does."""
        return next((client for client in self.clients if not client.measuring and holds(client)), None)

    def first_waiting(self, now_ns: int) -> Client | None:
        """Of all that wait the highest, and of these the longest waiting. It may be another level's: see Client.waits_here()."""
        return self._level.first_waiting(now_ns)

    def keeps_from_gap(self, client: Client, now_ns: int) -> Client | None:
        """Whoever keeps this one's kernel, which waits for others of its job and so fills no gap, from going."""
        return self._level.keeps_from_gap(client, now_ns)

    def next_idle_ns(self, now_ns: int) -> int | None:
        """When that may be over for one of those that wait."""
        return self._level.next_idle_ns(now_ns)

    def next_end_ns(self, now_ns: int) -> int | None:
        """The next moment at which some client's work, or a grant, is over, as far as is reckoned."""
        return self._level.next_end_ns(now_ns)

    def look_at_gates(self) -> None:
        """What copies_that_matter() says has changed."""
        self._level.look_at_gates()

    def hold(self, client: Client, reason: str, by: Client | None = None) -> None:
        """Why it goes on waiting, and for whom, in the words of fikitd/core/policy/base/reason.hpp; before choose() says None."""
        self._level.hold(client, reason, None if by is None else by.id)
