"""How busy this node's GPUs are, by NVML's word, also those that fikit does not share: asked every `gpu_use_s` seconds, 0 = never."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fikitd.base.scarcity import scarce
from fikitd.gpus.devices import digits, given, uuids_of
from fikitd.gpus.nvml import NoNvml, Seen, ask
from fikitd.store.records import JobRecord, RecordError

_log = logging.getLogger("fikitd")

CANDIDATES: Final = "candidates"
MOST: Final = 4096  # jobs on a node
AGAIN_S: Final = 300.0  # after NVML did not answer


@dataclass(frozen=True)
class Look:
    """What NVML said at one moment. alone: the job that has a GPU to itself, by the digits of the GPU's UUID, as far as that is certain."""

    seen: Sequence[Seen] = ()
    alone: dict[str, JobRecord] | None = None

    def holder(self, uuid: str) -> JobRecord | None:
        return (self.alone or {}).get(digits(uuid))


class GpuUse:
    """Asks while fikitd runs. Only the event loop touches it."""

    def __init__(
        self, run_dir: Path, interval_s: int, ask: Callable[[bool], Coroutine[None, None, list[Seen]]] = ask
    ) -> None:
        self._directory, self._interval_s, self._ask = run_dir / CANDIDATES, interval_s, ask
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
        self.last = Look(seen, holders(candidates(self._directory), seen))


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
