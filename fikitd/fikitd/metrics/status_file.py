"""What this node tells the whole cluster: a file in `status_dir` that fikitd renews, for `fikit top --all`. Nothing here ever fails fikitd."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from fikitd.api import statuses
from fikitd.api.status_format import COUNTS, FORMAT, MOST_GPUS, MOST_JOBS, SUFFIX, VERSION
from fikitd.gpus.devices import digits
from fikitd.gpus.nvml import Seen
from fikitd.jobs.gpu_use import Look
from fikitd.metrics import table
from fikitd.metrics.meter import Here, Meter, Values
from fikitd.metrics.publisher import PLACE
from fikitd.metrics.today import Today
from fikitd.store import temporary
from fikitd.store.storage import Storage, reason, write_atomic

_log = logging.getLogger("fikitd")

EVERY_S: Final = 15.0
WRITE_S: Final = 10.0  # so long shared storage may take

Gpu = dict[str, Any]


class StatusFile:
    """Only the event loop touches it. `use`: what NVML said last."""

    def __init__(
        self, directory: str, meter: Meter, *, policy: str, use: Callable[[], Look], storage: Storage,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._node = socket.gethostname().partition(".")[0].lower()
        self._path = Path(directory) / (self._node + SUFFIX)
        self._policy, self._meter, self._use, self._storage, self._wall = policy, meter, use, storage, wall
        self._today: Today | None = None
        self._before: tuple[float, dict[int, int]] = (wall(), {})
        self._told: set[str] = set()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.write()
                self._told.clear()
            except (OSError, ValueError) as error:
                if (
                    sentence := f"the status of this node cannot be written to {self._path}: {reason(error)}"
                ) not in self._told:
                    self._told.add(sentence)
                    _log.warning("%s: fikitd tries again every %g s", sentence, EVERY_S)
            await asyncio.sleep(EVERY_S)

    async def write(self) -> None:
        """As of now."""
        if self._today is None:
            self._today = Today(await self._storage.run(PLACE, self._left, WRITE_S))
        text = json.dumps(self.document(self._today)).encode()
        await self._storage.run(PLACE, partial(write_atomic, self._path, text, 0o644), WRITE_S)

    def _left(self) -> Mapping[str, Any] | None:
        """What an earlier fikitd of this node wrote last; None: nothing that can be believed. What it was killed over goes."""
        temporary.remove_of(self._path)
        with suppress(OSError, ValueError):
            return statuses.read(self._path.parent, self._wall()).by_node.get(self._node)
        return None

    def document(self, today: Today) -> dict[str, Any]:
        """As status_format has it."""
        now_s, values, here = self._wall(), self._meter.values(), self._meter.here()
        since_s, sums, broken = today.now(self._meter.counted(), self._meter.broken(), now_s)
        gpus = gpus_of(here, self._shares(here, now_s), values, self._use())
        for gpu in gpus:
            gpu["harvest_s"] = sums.get(gpu["uuid"], 0.0)
        return {
            "format": FORMAT, "version": VERSION, "node": self._node, "policy": self._policy, "written_s": int(now_s),
            "every_s": EVERY_S, "gpus": gpus, "broken": broken,
            "today": {"since_s": since_s, **{count: sums[count] for count in COUNTS}},
        }  # fmt: skip

    def _shares(self, here: Sequence[Here], now_s: float) -> dict[int, float | None]:
        """Of each client, which part of the time since the last document it had the GPU."""
        began_s, before = self._before
        self._before = now_s, {each.number: each.gpu_ns for each in here}
        took_s = now_s - began_s
        if took_s <= 0:
            return {}
        return {each.number: max(each.gpu_ns - before.get(each.number, 0), 0) / 1e9 / took_s for each in here}


def gpus_of(here: Sequence[Here], shares: Mapping[int, float | None], values: Values, look: Look) -> list[Gpu]:
    """Every GPU that fikit or NVML knows, in the order of their numbers; what fikit says of one goes before what NVML says."""
    seen = {digits(str(gpu["uuid"])): gpu for gpu in look.seen}
    by_gpu: dict[str, list[Here]] = defaultdict(list)
    for each in here:
        by_gpu[each.gpu].append(each)
    # A GPU that is shared under another name than its UUID is not known for certain (Devices): NVML's words are none of it.
    found = [_shared(name, clients, shares, values, seen.get(digits(name), {})) for name, clients in by_gpu.items()]
    shared = {digits(name) for name in by_gpu}
    found += [_alone(gpu, look) for key, gpu in seen.items() if key not in shared]
    return sorted(found, key=lambda gpu: (gpu["index"] is None, gpu["index"] or 0, gpu["uuid"]))[:MOST_GPUS]


def _shared(name: str, clients: Sequence[Here], shares: Mapping[int, float | None], values: Values, seen: Seen) -> Gpu:
    device = clients[0].device
    by_job: dict[str, list[Here]] = defaultdict(list)
    for each in clients:
        by_job[each.job.record.job].append(each)
    jobs = sorted(
        (_job(of_job, shares, values) for of_job in by_job.values()), key=lambda job: (job["priority"], job["job"])
    )
    known = [job["share"] for job in jobs]
    busy = None if None in known else min(sum(known), 1.0)
    return {
        "uuid": name, "index": seen.get("index"), "name": device.name, "emulated": device.emulated, "memory_bytes": device.memory_bytes,
        "held_bytes": seen.get("held_bytes") or sum(each.held_bytes for each in clients),
        "use": seen.get("use") if busy is None else busy, "by_nvml": busy is None and seen.get("use") is not None,
        "unmanaged": int(values[table.UNMANAGED].get((name,), 0)), "jobs": jobs[:MOST_JOBS],
    }  # fmt: skip


def _job(clients: Sequence[Here], shares: Mapping[int, float | None], values: Values) -> dict[str, Any]:
    record = clients[0].job.record
    labels = (record.job, str(record.uid), str(record.priority))
    known = [shares.get(each.number) for each in clients]
    allowed = values[table.ALLOWED].get(labels)
    return {
        "job": record.job, "uid": record.uid, "priority": record.priority,
        "share": None if None in known else min(sum(share for share in known if share is not None), 1.0),
        "slowdown": values[table.SLOWDOWN].get(labels), "max_slowdown": None if allowed is None else max(allowed - 1, 0.0),
    }  # fmt: skip


def _alone(gpu: Seen, look: Look) -> Gpu:
    """One that no job shares now: idle, or a job's that has it to itself."""
    uuid, name = str(gpu["uuid"]), str(gpu["name"])
    holder = look.holder(uuid)
    jobs = (
        []
        if holder is None
        else [
            {
                "job": holder.job,
                "uid": holder.uid,
                "priority": None,
                "share": None,
                "slowdown": None,
                "max_slowdown": None,
            }
        ]
    )
    return {
        "uuid": uuid, "index": gpu.get("index"), "name": name, "emulated": "emulated" in name.lower(), "memory_bytes": gpu.get("memory_bytes"),
        "held_bytes": gpu.get("held_bytes"), "use": gpu.get("use"), "by_nvml": gpu.get("use") is not None,
        "unmanaged": look.around(gpu) if holder is None else 0, "jobs": jobs,
    }  # fmt: skip
