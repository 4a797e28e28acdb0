"""Which jobs have which GPU, as files that dcgm-exporter reads (`--hpc-job-mapping-dir`): one for each GPU, by its number, with a job's number on each line.

From root's records of jobs with shares and of jobs with whole GPUs. dcgm-exporter then has a label `hpc_job` beside each figure. Nothing here ever fails fikitd.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.gpus.devices import given
from fikitd.gpus.nvml import NoNvml, Seen, ask
from fikitd.jobs.gpu_use import CANDIDATES, candidates
from fikitd.metrics.publisher import AGAIN_S, PLACE
from fikitd.store import changes
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage, is_temporary, reason, write_atomic

_log = logging.getLogger("fikitd")

LOOK_S: Final = 30.0  # where the kernel does not tell of changes, and for what went wrong
TOGETHER_S: Final = 0.05  # of changes that come so close, one file is written
WRITE_S: Final = 10.0


class JobMap:
    """Only the event loop touches it."""

    def __init__(
        self, directory: str, run_dir: Path, records: JobRecords, storage: Storage,
        *, ask: Callable[[], Coroutine[None, None, list[Seen]]] = ask,
    ) -> None:  # fmt: skip
        self._directory, self._run_dir, self._records, self._storage, self._ask = (
            Path(directory),
            run_dir,
            records,
            storage,
            ask,
        )
        self._seen: Sequence[Seen] | None = None
        self._written: dict[str, str] | None = None
        self._told = ""

    async def watch(self) -> None:
        """Until cancelled."""
        with suppress(NoNvml, OSError, ValueError):
            self._seen = await self._ask()
        (self._run_dir / CANDIDATES).mkdir(mode=0o755, exist_ok=True)
        changed, loop = asyncio.Event(), asyncio.get_running_loop()
        fd = changes.watch(self._run_dir / CANDIDATES, self._records.directory)
        if fd >= 0:
            loop.add_reader(fd, changed.set)
        try:
            while True:
                await self._write_or_say()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S if self._written is not None else AGAIN_S):
                        await changed.wait()
                        await asyncio.sleep(TOGETHER_S)
                changed.clear()
                if fd >= 0:
                    changes.take(fd)
        finally:
            if fd >= 0:
                loop.remove_reader(fd)
                os.close(fd)

    async def _write_or_say(self) -> None:
        try:
            await self.write()
            self._told = ""
        except OSError as error:
            self._written = None
            if (why := reason(error)) != self._told:
                self._told = why
                _log.warning(
                    "which jobs have which GPU cannot be written to %s: %s: fikitd tries again", self._directory, why
                )

    async def write(self) -> None:
        """As the records are now; files that say it already stay as they are."""
        wanted = jobs_of_gpus([*self._records.all(), *candidates(self._run_dir / CANDIDATES)], self._seen)
        if wanted == self._written:
            return
        before = self._written

        def save() -> None:
            if before is None:  # of an earlier fikitd
                for path in self._directory.iterdir():
                    if _ours(path.name) and path.name not in wanted:
                        path.unlink(missing_ok=True)
            for name in (before or {}).keys() - wanted.keys():
                (self._directory / name).unlink(missing_ok=True)
            for name, text in wanted.items():
                if (before or {}).get(name) != text:
                    write_atomic(self._directory / name, text.encode(), 0o644)

        await self._storage.run(PLACE, save, WRITE_S)
        self._written = wanted


def _ours(name: str) -> bool:
    """Whether a file of `job_map_dir` is of a fikitd: a GPU's, or what one was killed over."""
    number = name.split(".")[1] if is_temporary(name) else name
    return number.isdecimal()


def jobs_of_gpus(records: Iterable[JobRecord], seen: Sequence[Seen] | None) -> dict[str, str]:
    """By the number that NVML and dcgm-exporter give a GPU, the text of its file. A GPU that Slurm calls by a number which may be of something else (MIG) has none."""
    numbers = _numbers(seen)
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if not record.job.isdecimal():
            continue  # of no job of Slurm's
        for name in given(record):
            if (number := name if numbers is None and name.isdecimal() else (numbers or {}).get(name)) is not None:
                found[number].add(record.job)
    return {number: "".join(f"{job}\n" for job in sorted(jobs, key=int)) for number, jobs in found.items()}


def _numbers(seen: Sequence[Seen] | None) -> Mapping[str, str] | None:
    """NVML's numbers by what Slurm may call a GPU: its device file's number, its UUID; None: nobody knows, then they are the same."""
    if seen is None:
        return None
    if any(gpu.get("mig") for gpu in seen):
        return {str(gpu["uuid"]): str(gpu["index"]) for gpu in seen if not gpu.get("mig")}
    files = {str(gpu["index"] if gpu.get("minor") is None else gpu["minor"]): str(gpu["index"]) for gpu in seen}
    return files | {str(gpu["uuid"]): str(gpu["index"]) for gpu in seen}
