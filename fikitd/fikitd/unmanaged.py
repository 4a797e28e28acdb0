"""Programs that use the GPU of a sharing job and never came to fikitd: LD_PRELOAD unset, linked statically, refused.

The shim cannot prevent them; NVML shows them. Each is named once, in the log and in its job's report.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from fikitd.devices import Devices
from fikitd.identify import Unidentified, identify, read_process
from fikitd.jobs import Jobs
from fikitd.nvml import NoNvml, Seen, ask
from fikitd.protocol import Device
from fikitd.records import JobRecord, JobRecords
from fikitd.scarcity import scarce
from fikitd.storage import Storage

_log = logging.getLogger("fikitd")

DRIVERS_UID: Final = -1  # whose place the reading of /proc takes in Storage: nobody's

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
        ask: Callable[[], Coroutine[None, None, list[Seen]]] = ask,
    ) -> None:
        self._jobs, self._records, self._storage = jobs, records, storage
        self._proc, self._interval_s, self._ask = proc, interval_s, ask
        self._devices = devices
        self._suspects: set[Suspect] = set()
        self._told: set[Suspect] = set()

    async def watch(self) -> None:
        """Until cancelled, or until there is no NVML to ask."""
        while self._interval_s:
            await asyncio.sleep(self._interval_s)
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
        """A process is named at the second look: at the first it may be about to connect."""
        asked = await self._ask()
        if self._devices:
            self._devices.note(asked)
        seen = {gpu["uuid"]: gpu for gpu in asked}
        managed = self._jobs.pids()
        processes = {
            pid: read_process(self._proc, pid)
            for gpu in seen.values()
            for pid in gpu["processes"]
            if pid not in managed
        }
        suspects = {
            (uuid, pid, process.start_ticks)
            for uuid, gpu in seen.items()
            for pid in gpu["processes"]
            if (process := processes.get(pid)) is not None
        }
        for suspect in sorted((suspects & self._suspects) - self._told):
            uuid, pid, _ = suspect
            gpu = seen[uuid]
            await self._tell(pid, Device(str(gpu["name"]), uuid, int(gpu["memory_bytes"])))
            self._told.add(suspect)
        self._told = {told for told in self._told if self._lives(told)}
        self._suspects = suspects

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
