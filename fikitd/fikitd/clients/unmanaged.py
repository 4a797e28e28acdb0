"""Programs that use the GPU of a sharing job around fikit: LD_PRELOAD unset, linked statically, refused, or with a connection and a page
that do not tell what they do.

The shim cannot prevent them; NVML shows them. What NVML sees a process do on a GPU is compared with what the process reports of that GPU.
Each is named once, in the log and in its job's report, and in the reports of all jobs on that GPU.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Set
from pathlib import Path
from typing import Final

from fikitd.base.protocol import Device
from fikitd.base.scarcity import scarce
from fikitd.clients.present import Reported
from fikitd.gpus.devices import Devices, digits
from fikitd.gpus.nvml import NoNvml, Seen, ask
from fikitd.jobs.identify import Unidentified, identify, read_process
from fikitd.jobs.registry import Jobs
from fikitd.mps.control import is_server
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage

_log = logging.getLogger("fikitd")

DRIVERS_UID: Final = -1  # whose place the reading of /proc takes in Storage: nobody's

# What a program has on a GPU that it did not ask for: the driver's context, code, libraries' work space.
CONTEXT_BYTES: Final = 2 * 2**30

SOON_S: Final = 2  # from a first suspicion to the next look

Suspect = tuple[str, int, int]  # GPU, pid, start of the process


class Unmanaged:
    """Looks while jobs share; `interval_s` 0 = never."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        records: JobRecords,
        storage: Storage,
        proc: Path,
        interval_s: int,
        devices: Devices | None = None,
        reported: Callable[[], Mapping[tuple[str, int], Reported]] = dict,
        mps: Callable[[], Set[int]] = frozenset,
        ask: Callable[[], Coroutine[None, None, list[Seen]]] = ask,
    ) -> None:
        self._jobs, self._records, self._storage = jobs, records, storage
        self._proc, self._interval_s, self._ask = proc, interval_s, ask
        self._devices, self._reported, self._mps = devices, reported, mps
        self._reports: Mapping[tuple[str, int], Reported] = {}  # at the last look
        self._forged: set[tuple[str, int]] = set()
        self._suspects: set[Suspect] = set()
        self._told: set[Suspect] = set()

    async def watch(self) -> None:
        """Until cancelled, or until there is no NVML to ask."""
        while self._interval_s:
            new = self._suspects - self._told  # one look more tells
            await asyncio.sleep(min(SOON_S, self._interval_s) if new else self._interval_s)
            if not self._records.any():
                self._suspects.clear()
                continue
            try:
                await self.look()
            except (NoNvml, OSError, ValueError) as error:
                if scarce(error):
                    raise  # that is no answer of NVML's
                _log.info("programs that go around the shim are not looked for any more, because of NVML: %s", error)
                return

    async def look(self) -> None:
        """A process is named at the second look: at the first it may be about to connect, or to launch."""
        asked = await self._ask()
        if self._devices:
            self._devices.note(asked)
        reported = self._reported()
        seen = {gpu["uuid"]: gpu for gpu in asked}
        around = [
            (uuid, pid)
            for uuid, gpu in seen.items()
            for pid in gpu["processes"]
            if not self._is_of_mps(pid) and self._is_around(gpu, pid, reported.get((digits(uuid), pid)))
        ]
        processes = {pid: read_process(self._proc, pid) for _, pid in around}
        suspects = {(uuid, pid, process.start_ticks) for uuid, pid in around if (process := processes[pid]) is not None}
        for suspect in sorted((suspects & self._suspects) - self._told):
            uuid, pid, _ = suspect
            gpu = seen[uuid]
            await self._tell(pid, Device(str(gpu["name"]), uuid, int(gpu["memory_bytes"])))
            self._told.add(suspect)
        self._tell_all(suspects, reported)
        self._told = {told for told in self._told if self._lives(told)}
        self._suspects = suspects
        self._look_for_forged(seen, reported)
        self._reports = reported

    def _tell_all(self, suspects: set[Suspect], reported: Mapping[tuple[str, int], Reported]) -> None:
        """Every job on the GPU of one: of those that have been named for certain, of the others until the next look."""
        for (gpu, _), seen in reported.items():
            there = sorted(suspect for suspect in suspects if digits(suspect[0]) == gpu)
            seen.job.suspected = bool(there)
            for suspect in there:
                if suspect in self._told:
                    seen.job.was_beside(suspect[1])

    def _is_of_mps(self, pid: int) -> bool:
        """A server of MPS has a context on the GPU, and no work of its own."""
        return pid in self._mps() or is_server(self._proc, pid)

    def _is_around(self, gpu: Seen, pid: int, reported: Reported | None) -> bool:
        """Whether what NVML sees the process do is not what it reports. One without a page reports nothing."""
        if reported is None:
            return True
        if self._has_moved(digits(gpu["uuid"]), pid, reported):
            return False
        if pid in (gpu.get("busy") or ()):
            return True
        hidden = gpu.get("used_bytes", {}).get(str(pid), 0) - reported.held_bytes
        return reported.kernels == 0 and hidden > CONTEXT_BYTES

    def _has_moved(self, gpu: str, pid: int, reported: Reported) -> bool:
        before = self._reports.get((gpu, pid))
        if before is None or before.job is not reported.job:
            return reported.kernels > 0
        return reported.kernels != before.kernels or reported.under_way_ns != before.under_way_ns

    def _look_for_forged(self, seen: Mapping[str, Seen], reported: Mapping[tuple[str, int], Reported]) -> None:
        """Who reports launches on a GPU that NVML does not see it using; as far as NVML sees any of the clients, by their pids."""
        there = {(digits(uuid), pid) for uuid, gpu in seen.items() for pid in gpu["processes"]}
        known = {gpu for gpu, _ in there}
        forged = set()
        if there & reported.keys():
            forged = {
                (gpu, pid)
                for (gpu, pid), now in reported.items()
                if gpu in known and (gpu, pid) not in there and self._has_moved(gpu, pid, now)
            }
        for key in sorted(forged & self._forged):
            reported[key].job.warn(
                f"process {key[1]} reports launches on a GPU that it does not use, as far as NVML sees"
            )
        self._forged = forged

    def around(self) -> list[tuple[str, int]]:
        """GPU and pid of the programs that have been named and are still there, as of the last look."""
        return sorted(
            (uuid, pid) for uuid, pid, start in self._told & self._suspects if self._lives((uuid, pid, start))
        )

    def _lives(self, suspect: Suspect) -> bool:
        _, pid, start = suspect
        process = read_process(self._proc, pid)
        return process is not None and process.start_ticks == start

    async def _tell(self, pid: int, device: Device) -> None:
        process = read_process(self._proc, pid)
        if process is None:
            return

        def find() -> JobRecord:
            return identify(self._proc, pid, process.real_uid, self._records, daemon_uid=os.geteuid())

        try:
            record = await self._storage.run(DRIVERS_UID, find)
        except Unidentified:
            if device.uuid in self._jobs.gpus():
                _log.info(
                    "process %d of uid %d uses %s beside fikit's jobs, and belongs to none of them",
                    pid, process.real_uid, device.uuid, extra={"uid": process.real_uid},
                )  # fmt: skip
            return
        except OSError:
            return
        self._jobs.of(record, device).unmanaged_process(pid)
