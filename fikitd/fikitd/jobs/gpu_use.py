"""How busy this node's GPUs are, by NVML's word, also those that fikit does not share: asked every `gpu_use_s` seconds, 0 = never."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fikitd.api import uses
from fikitd.api.uses import MOST_GPUS, Use
from fikitd.base.scarcity import scarce
from fikitd.gpus.devices import digits, given, uuids_of
from fikitd.gpus.nvml import NoNvml, Seen, ask
from fikitd.store.records import JobRecord, JobRecords, RecordError

_log = logging.getLogger("fikitd")

CANDIDATES: Final = "candidates"
MOST: Final = 4096  # jobs on a node
AGAIN_S: Final = 300.0  # after NVML did not answer


@dataclass(frozen=True)
class Look:
    """What NVML said at one moment. alone: the job that has a GPU to itself, by the digits of the GPU's UUID, as far as that is certain.

    whole: all jobs that have whole GPUs.
    """

    seen: Sequence[Seen] = ()
    alone: dict[str, JobRecord] | None = None
    whole: frozenset[str] = frozenset()

    def holder(self, uuid: str) -> JobRecord | None:
        return (self.alone or {}).get(digits(uuid))

    @property
    def unplaced(self) -> bool:
        """Whether a job has a GPU of which nobody can say which one it is (MIG): of none that has no holder it is certain that nobody has it."""
        return bool(self.whole - {record.job for record in (self.alone or {}).values()})

    def around(self, gpu: Seen) -> int:
        """How many processes on a GPU without a holder are of no job that has a whole GPU."""
        owners = gpu.get("owners") or {}
        return sum((owners.get(str(pid)) or {}).get("job") not in self.whole for pid in gpu.get("processes", ()))


@dataclass
class _Watched:
    """A job that has its GPUs alone, and what NVML said of them at each look."""

    record: JobRecord
    gpus: Mapping[str, Seen] = field(default_factory=dict)
    looks: int = 0
    use: float = 0.0
    peak_bytes: int | None = None
    split: bool = False  # it has, or may have, an instance of a GPU, of which NVML does not say how busy it is

    def add(self, gpus: Mapping[str, Seen], split: bool) -> None:
        """split: the node has instances."""
        instances = any(gpu.get("mig") for gpu in gpus.values())
        self.split = self.split or instances or (split and not gpus)
        known = [gpu["use"] for gpu in gpus.values() if gpu.get("use") is not None]
        if not gpus or (len(known) < len(gpus) and not instances):
            return
        self.gpus = gpus
        held = [gpu["held_bytes"] for gpu in gpus.values() if gpu.get("held_bytes") is not None]
        self.peak_bytes = max(self.peak_bytes or 0, sum(held)) if held else self.peak_bytes
        if len(known) == len(gpus):
            self.looks, self.use = self.looks + 1, self.use + sum(known) / len(known)

    def ended(self, now_s: float, every_s: float) -> Use:
        busy = self.use / self.looks if self.looks else None
        split = self.split and not self.looks
        whole = len(given(self.record)) if split and not self.gpus else 0
        return use_of(
            self.record, now_s, gpus=self.gpus, looks=self.looks, every_s=every_s, busy=busy, peak_bytes=self.peak_bytes,
            whole=whole, split=split,
        )  # fmt: skip


class GpuUse:
    """Asks while fikitd runs. Only the event loop touches it.

    `ended` hears how busy the GPU of each job was that had one alone, once its epilog has run; of one that began under an earlier fikitd, since then.
    """

    def __init__(
        self, run_dir: Path, interval_s: int, ended: Callable[[JobRecord, Use], None] = lambda record, use: None,
        ask: Callable[[bool], Coroutine[None, None, list[Seen]]] = ask, wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._run_dir, self._interval_s, self._ended, self._ask, self._wall = run_dir, interval_s, ended, ask, wall
        self._jobs: dict[str, _Watched] = {}
        self.last = Look()
        self._silent = False

    async def watch(self) -> None:
        """Until cancelled; returns at once where nobody wants to know."""
        while self._interval_s:
            try:
                await self.look()
                self._silent = False
                await asyncio.sleep(self._interval_s)
            except (NoNvml, OSError, ValueError) as error:
                if scarce(error):
                    raise  # that is no answer of NVML's
                if not self._silent:
                    _log.info("how busy GPUs are is not known, because of NVML: %s", error)
                self._silent, self.last = True, Look()
                await asyncio.sleep(max(AGAIN_S, self._interval_s))

    async def look(self) -> None:
        seen = await self._ask(True)
        records = candidates(self._run_dir / CANDIDATES)
        _name_by_id(seen, [*records, *JobRecords(self._run_dir).all()])
        alone = holders(records, seen)
        self.last = Look(seen, alone, frozenset(record.job for record in records))
        self._count(records, alone, {digits(str(gpu["uuid"])): gpu for gpu in seen})

    def _count(self, records: Sequence[JobRecord], alone: Mapping[str, JobRecord], seen: Mapping[str, Seen]) -> None:
        there = {record.job: record for record in records}
        for job, watched in list(self._jobs.items()):
            if (now := there.get(job)) is None or now.started_ns != watched.record.started_ns:
                del self._jobs[job]
                if (watched.looks or watched.split) and not (
                    self._run_dir / "jobs" / job
                ).exists():  # else it has shards: it shares
                    self._ended(watched.record, watched.ended(self._wall(), self._interval_s))
        split = any(gpu.get("mig") for gpu in seen.values())
        for record in records:
            watched = self._jobs.setdefault(record.job, _Watched(record))
            watched.add({uuid: seen[uuid] for uuid, holder in alone.items() if holder.job == record.job}, split)


def _name_by_id(seen: Sequence[Seen], records: Iterable[JobRecord]) -> None:
    """Owners that NVML's child knows by the SLUID of a run have their job's id from here on."""
    ids = {record.sluid: record.job for record in records if record.sluid}
    for owner in (owner for gpu in seen for owner in (gpu.get("owners") or {}).values() if owner):
        owner["job"] = ids.get(owner["job"], owner["job"])


def use_of(
    record: JobRecord, now_s: float, *, gpus: Mapping[str, Seen] | None = None, looks: int = 0, every_s: float = 0.0,
    busy: float | None = None, peak_bytes: int | None = None, shared: bool = False, whole: int = 0, split: bool = False,
) -> Use:  # fmt: skip
    """Of a job that ended now (fikitd.api.uses)."""
    described = [
        {"uuid": str(gpu["uuid"]), "name": str(gpu["name"]), "emulated": "emulated" in str(gpu["name"]).lower(), "memory_bytes": gpu.get("memory_bytes")}
        for gpu in (gpus or {}).values()
    ]  # fmt: skip
    return {
        "format": uses.FORMAT, "version": uses.VERSION, "job": record.job, "uid": record.uid, "node": socket.gethostname().partition(".")[0],
        "name": record.name, "gpus": described[:MOST_GPUS], "started": _moment(record.started_ns / 1e9), "ended": _moment(now_s), "shared": shared,
        "looks": looks, "every_s": float(every_s), "busy": None if busy is None else min(busy, 1.0), "peak_bytes": peak_bytes,
        **({"whole": min(whole, MOST_GPUS)} if whole else {}), **({"split": True} if split else {}),
    }  # fmt: skip


def _moment(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))


def candidates(directory: Path) -> list[JobRecord]:
    """The jobs that have GPUs and no option of fikit's, as root's prolog wrote them down. Who has shards is none of them from the first step on."""
    found = []
    with suppress(OSError):
        for path in sorted(directory.glob("[0-9]*"))[:MOST]:
            with suppress(OSError, RecordError):
                if path.lstat().st_uid in (0, os.geteuid()):
                    found.append(JobRecord.read(path))
    return found


def holders(records: Sequence[JobRecord], seen: Sequence[Seen]) -> dict[str, JobRecord]:
    """By the digits of its UUID, whose each GPU is. One that several say is theirs is nobody's: an epilog did not run."""
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        for uuid in uuids_of(given(record), seen) or ():
            found.setdefault(uuid, []).append(record)
    return {uuid: of_it[0] for uuid, of_it in found.items() if len(of_it) == 1}
