"""The clients that are there now, as `fikit top` shows a node: who uses which GPU, and what each has done so far.

Everybody may ask. What squeue and nvidia-smi tell everybody is for everybody (job, user, priority, time on the GPU); the rest
of a client is for its user and root.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fikitd.api import node_format
from fikitd.api.report_format import SLICES
from fikitd.base import priorities
from fikitd.base.protocol import Device
from fikitd.gpus.devices import digits
from fikitd.jobs.job import Job
from fikitd.jobs.totals import Stats
from fikitd.metrics.meter import Meter

FRESH_S: Final = 0.2  # so long one look serves all who ask: asking often costs the dispatchers nothing
LOOKS: Final = 20  # and for so many times as long as it took: looking takes a twentieth of fikitd's time at most
PUBLIC: Final = tuple(node_format.PUBLIC)


class _Client(NamedTuple):
    pid: int
    device: Device
    job: Job
    stats_now: Callable[[], Stats]
    held_bytes: Callable[[], int]
    mode: str
    device_now: Callable[[], Mapping[str, Any]] | None
    link_now: Callable[[], tuple[float | None, float | None]] | None


class Reported(NamedTuple):
    """What the pages of one process say so far of one GPU."""

    job: Job
    kernels: int
    under_way_ns: int
    held_bytes: int


class Present:
    """Only the event loop touches it."""

    def __init__(
        self, policy: str, around: Callable[[], list[tuple[str, int]]], meter: Meter | None = None, config: str = ""
    ) -> None:
        """`around`: GPU and pid of the programs that use a GPU without fikit. `meter`: hears who comes and goes. `config`: Config.mark()."""
        self._policy, self._around, self._meter, self._config = policy, around, meter, config
        self._clients: dict[int, _Client] = {}
        self._looked_s, self._fresh_s = -FRESH_S, FRESH_S
        self._views: dict[int, str] = {}  # of the last look, by who asked
        self._seen: list[dict[str, Any]] = []
        self._seen_around: list[dict[str, Any]] = []
        self._seen_ns = 0
        self._switches: dict[str, dict[str, Any]] = {}  # by GPU

    def came(
        self,
        number: int,
        pid: int,
        device: Device,
        job: Job,
        *,
        stats_now: Callable[[], Stats],
        held_bytes: Callable[[], int],
        mode: str = SLICES,
        device_now: Callable[[], Mapping[str, Any]] | None = None,
        place: str = "",
        link_now: Callable[[], tuple[float | None, float | None]] | None = None,
    ) -> None:
        """`link_now`: rates of the GPU's link, in and out, as MemoryRotation.link_of() says them. `device_now`: what is known of the GPU itself, as Dispatcher.device() says it. `place`: under which name it is shared."""
        client = self._clients[number] = _Client(pid, device, job, stats_now, held_bytes, mode, device_now, link_now)
        if self._meter:
            self._meter.came(
                number, place or device.uuid, device, job, stats_now=stats_now, held_bytes=held_bytes,
                switch_ns=lambda: _switch_ns(client),
            )  # fmt: skip

    def went(self, number: int) -> None:
        self._clients.pop(number, None)

    def departed(self, number: int, stats: Stats) -> None:
        """These are the counters of one that went."""
        if self._meter:
            self._meter.went(number, stats)

    def priority_changed(self) -> None:
        """Of a job that is there."""
        if self._meter:
            self._meter.priority_changed()

    def reported(self) -> dict[tuple[str, int], Reported]:
        """By the GPU that it names (the digits of its UUID) and its pid; of one with several connections, the sums."""
        found: dict[tuple[str, int], Reported] = {}
        for client in self._clients.values():
            stats, key = client.stats_now(), (digits(client.device.uuid), client.pid)
            before = found.get(key, Reported(client.job, 0, 0, 0))
            found[key] = Reported(
                client.job,
                before.kernels + stats["kernels"],
                before.under_way_ns + stats["under_way_ns"],
                before.held_bytes + client.held_bytes(),
            )
        return found

    def view(self, uid: int) -> str:
        """What a user may see now, as JSON (docs/design/contracts.md, "Control socket", `node`)."""
        if time.monotonic() - self._looked_s >= self._fresh_s:
            self._look()
        master = uid in (0, os.geteuid())
        if (viewer := -1 if master else uid) not in self._views:
            self._views[viewer] = json.dumps(self._view(uid, master))
        return self._views[viewer]

    def _view(self, uid: int, master: bool) -> dict[str, Any]:
        gpus = {client.device.uuid: client.device for client in self._clients.values()}
        return {
            "format": node_format.FORMAT,
            "version": node_format.VERSION,
            "node": socket.gethostname().partition(".")[0],
            "policy": self._policy,
            "config": self._config,
            "now_ns": self._seen_ns,
            "gpus": [
                {
                    "uuid": uuid,
                    "name": gpu.name,
                    "memory_bytes": gpu.memory_bytes,
                    "emulated": gpu.emulated,
                    "switch": self._switches.get(uuid),
                }
                for uuid, gpu in sorted(gpus.items())
            ],
            "unmanaged": self._seen_around,
            "clients": [
                seen if master or seen["uid"] == uid else {key: seen[key] for key in PUBLIC} for seen in self._seen
            ],
        }

    def _look(self) -> None:
        self._looked_s, self._seen_ns = time.monotonic(), time.monotonic_ns()
        self._switches = {c.device.uuid: found for c in self._clients.values() if (found := _switch(c)) is not None}
        times = {job: {key: said[key] for key in node_format.TIME} for job, said in self._times()}
        self._seen = [_seen(number, client, times[client.job.number]) for number, client in self._clients.items()]
        self._seen_around = [{"gpu": uuid, "pid": pid} for uuid, pid in self._around()]
        self._views.clear()
        self._fresh_s = max(FRESH_S, LOOKS * (time.monotonic() - self._looked_s))

    def _times(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Where their time went so far, by the numbers of the jobs that are there."""
        for number, job in {client.job.number: client.job for client in self._clients.values()}.items():
            yield number, job.time_so_far()


def _switch(client: _Client) -> dict[str, Any] | None:
    """How long the GPU takes to go to another process, as its clients show; None: nobody knows, or they overlap (MPS)."""
    known = client.device_now() if client.device_now is not None else {}
    if known.get("switch_ns") is None:
        return None
    return {"switch_us": known["switch_ns"] / 1e3, "spread_us": known["spread_ns"] / 1e3, "samples": known["samples"]}


def _switch_ns(client: _Client) -> int | None:
    found: int | None = client.device_now().get("switch_ns") if client.device_now is not None else None
    return found


def _link(client: _Client) -> dict[str, float | None] | None:
    """How fast memory moves over the GPU's link, as moves showed; None: nothing has moved."""
    inward, outward = client.link_now() if client.link_now is not None else (None, None)
    return None if inward is None and outward is None else {"in_bytes_per_s": inward, "out_bytes_per_s": outward}


def _seen(number: int, client: _Client, job_time: dict[str, Any]) -> dict[str, Any]:
    stats, record = client.stats_now(), client.job.record
    gpu_time_ns = stats["gpu_time_ns"]
    return {
        "client": number,
        "gpu": client.device.uuid,
        "job": record.job,
        "uid": record.uid,
        "priority": record.priority,
        "priority_name": priorities.name(record.priority),
        "gpu_time_s": None if gpu_time_ns is None else gpu_time_ns / 1e9,
        "name": record.name,
        "pid": client.pid,
        "kernels": stats["kernels"],
        "others_kernels": stats["others_kernels"],
        "memory_bytes": client.held_bytes(),
        "memory_limit_bytes": client.job.memory_limit_bytes,
        "memory_on_gpu_bytes": client.job.bytes_on_gpu(client.device.uuid) if client.job.memory_story else None,
        "memory_plan": client.job.memory_plan,
        "link": _link(client),
        "device_mode": client.mode,
        "auto": (client.job.auto_said() or {}).get("state"),
        "job_time": job_time,
    }
