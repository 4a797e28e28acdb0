"""One native dispatcher per GPU, made when its first client comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fikitd._core import Room
from fikitd.base.shares import CLIENTS, GPUS, URGENT, NoPlace, Places
from fikitd.config import protection
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.config.protection import Protection
from fikitd.gpus.switches import Switch, Switches
from fikitd.store.records import JobRecord


class Departed(Protocol):
    """`fikitd._core.Departed`."""

    @property
    def stats(self) -> Mapping[str, Any]: ...
    def journal(self) -> Mapping[str, Any]: ...
    def profile(self, limit: int) -> bytes: ...


class Dispatcher(Protocol):
    """`fikitd._core.Dispatcher`; a Protocol so that tests can put another in its place."""

    def add_client(
        self,
        client_id: int,
        memfd: int,
        doorbell: int,
        priority: int,
        measure: bool,
        *,
        max_slowdown: float | None,
        max_delay_ns: int | None,
        gang: int = 0,
        resume: bool = False,
        room: Room | None = None,
        overlaps: bool = False,
        pid: int = 0,
        user: int = 0,
    ) -> None: ...
    def switches(self) -> Sequence[tuple[int, int, int, int, int]]: ...
    def device(self, priority: int = ...) -> Mapping[str, Any]: ...
    def set_priority(self, client_id: int, priority: int) -> None: ...
    def remember_switch(self, switch_ns: int, spread_ns: int, count: int, priority: int) -> None: ...
    def set_goal(self, client_id: int, goal_bytes: int) -> int: ...
    def send_away(self, client_id: int, for_ns: int) -> None: ...
    def standing(self, client_id: int) -> tuple[bool, bool, int]: ...
    def ended(self, client_id: int) -> None: ...
    def remove_client(self, client_id: int) -> Mapping[str, Any]: ...
    def take_client(self, client_id: int) -> Departed: ...
    def use_profile(self, client_id: int, packed: bytes) -> None: ...
    def describe(  # noqa: PLR0917
        self,
        client_id: int,
        slot: int,
        name: str,
        module_hash: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        kind: int,
    ) -> None: ...
    def stats(self, client_id: int) -> Mapping[str, Any]: ...
    def spent(self, client_id: int) -> Mapping[str, Any]: ...
    def moves(self, client_id: int) -> Mapping[str, Any]: ...
    def journal(self, client_id: int) -> Mapping[str, Any]: ...
    def iteration(self, client_id: int) -> tuple[str, int, int, int] | None: ...
    def packed_accesses(self, client_id: int, limit: int) -> bytes: ...
    def set_plan(self, client_id: int, first_launch: int, launches: int, moves: bytes, until_ns: int) -> int: ...
    def renew_plan(self, client_id: int, first_launch: int | None, until_ns: int) -> int: ...
    def drop_plan(self, client_id: int) -> None: ...
    def plan_state(self, client_id: int) -> Mapping[str, Any]: ...
    def stop(self) -> None: ...


class Core(Protocol):
    """`fikitd._core` as the control plane uses it."""

    def Dispatcher(  # noqa: PLR0917
        self,
        policy: str,
        lease_ns: int,
        min_gap_ns: int,
        run_ahead_ns: int,
        idle_after_ns: int,
        spin_ns: int,
        marker_interval: int,
        *,
        max_slowdown: float,
        max_delay_ns: int | None,
        starvation_timeout_ns: int | None,
        trace_events: int,
    ) -> Dispatcher: ...
    def make_page(
        self,
        measure: bool,
        lease_ns: int,
        spin_ns: int,
        sample_every: int,
        version: int,
        *,
        collective_names: str,
    ) -> int: ...


class Gpus:
    def __init__(
        self, core: Core, scheduler: SchedulerConfig, trace_events: int, switches: Switches | None = None
    ) -> None:
        """`switches`: what fikitds of before have measured; None: nothing is remembered."""
        self._core = core
        self._switches = switches
        self._trace_events = trace_events
        self._scheduler = scheduler
        self._dispatchers: dict[str, Dispatcher] = {}
        self._clients: dict[str, Places] = {}

    def make_page(self, measure: bool, version: int) -> int:
        """A new client's page, as its shim reads it: descriptor of a sealed memfd, the caller's to close."""
        s = self._scheduler
        return self._core.make_page(
            measure, s.lease_ms * 1_000_000, s.spin_us * 1000, s.sample_every, version,
            collective_names="".join(f"{name}\0" for name in s.collective_kernels),
        )  # fmt: skip

    def protection(self, record: JobRecord, warn: Callable[[str], None]) -> Protection:
        """What lower jobs may cost this one at most."""
        return protection.of_job(record, self._scheduler, warn)

    def in_use(self, place: str) -> bool:
        """Whether clients share under that name (`Devices.place`)."""
        return place in self._clients

    def acquire(self, place: str, record: JobRecord) -> Dispatcher:
        """The dispatcher of a GPU, by the name under which it is shared, for one more client of a job; give it back with `release`.

        Raises NoPlace where the job, its user or all together have what they may have.
        """
        clients = self._clients.get(place) or Places(CLIENTS)
        clients.check(record.uid, record.job, urgent=record.priority <= URGENT)
        self._check_gpus(place, record)
        dispatcher = self._dispatchers.get(place) or self._start(place)
        clients.add(record.uid, record.job)
        self._clients[place] = clients
        return dispatcher

    def release(self, place: str, record: JobRecord) -> None:
        clients = self._clients[place]
        clients.remove(record.uid, record.job)
        if not clients.taken:
            del self._clients[place]

    def note_switch(self, place: str, users: Mapping[int, int]) -> None:
        """Remember what the clients of a GPU show of its switch; users: whose each client is."""
        dispatcher = self._dispatchers.get(place)  # none any more: fikitd ends, and this client was late to go
        if self._switches is None or dispatcher is None:
            return
        said = [(users[client], Switch(*word)) for client, *word in dispatcher.switches() if client in users]
        if said:
            self._switches.learnt(place, said)

    def _check_gpus(self, place: str, record: JobRecord) -> None:
        others = [clients for name, clients in self._clients.items() if name != place]
        for whose, limit, count in (
            (f"job {record.job}", GPUS.job, sum(1 for clients in others if clients.of_job(record.job))),
            (f"uid {record.uid}", GPUS.user, sum(1 for clients in others if clients.of_user(record.uid))),
        ):
            if count >= limit:
                raise NoPlace(f"{whose} has programs on {count} {GPUS.things} already, which is the limit")
        if place not in self._dispatchers and len(self._dispatchers) >= GPUS.all and not self._drop_unused():
            raise NoPlace(f"programs use {GPUS.all} {GPUS.things} already, which is the limit for all users together")

    def _start(self, place: str) -> Dispatcher:
        s = self._scheduler
        terms = protection.of_site(s)
        self._dispatchers[place] = self._core.Dispatcher(
            s.policy,
            s.lease_ms * 1_000_000,
            s.min_gap_us * 1000,
            s.run_ahead_us * 1000,
            s.idle_after_us * 1000,
            s.spin_us * 1000,
            s.marker_interval,
            max_slowdown=terms.max_slowdown,
            max_delay_ns=terms.max_delay_ns,
            starvation_timeout_ns=s.starvation_timeout_ms * 1_000_000 or None,
            trace_events=self._trace_events,
        )
        if self._switches is not None and (known := self._switches.of(place)) is not None:
            self._dispatchers[place].remember_switch(known.switch_ns, known.spread_ns, known.count, known.priority)
        return self._dispatchers[place]

    def stop(self) -> None:
        """Stop every dispatcher; gates are left open."""
        for dispatcher in self._dispatchers.values():
            dispatcher.stop()
        self._dispatchers.clear()

    def _drop_unused(self) -> bool:
        unused = [place for place in self._dispatchers if place not in self._clients]
        for place in unused:
            self._dispatchers.pop(place).stop()
        return bool(unused)
