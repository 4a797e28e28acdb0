"""Which GPU a client shares: root's record of its job decides, in NVML's words; the client's own word counts for nothing more (D21).

`gpus=` of a record holds what Slurm says in SLURM_JOB_GPUS: the numbers of device files (/dev/nvidiaN), or UUIDs. A hello holds the UUID
that the driver told the program. NVML knows both. Where it does not, or where Slurm's numbers do not mean device files (MIG), a job's
clients share with those whose records name the same device: what they call it changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from fikitd.base.protocol import Device
from fikitd.gpus.nvml import NoNvml, Seen, ask
from fikitd.store.records import JobRecord

_log = logging.getLogger("fikitd")

LEARN_S: Final = 1.5  # so long a hello waits for the first answer of NVML
ASK_AGAIN_S: Final = 60.0  # after NVML did not answer
STALE_S: Final = 10.0  # an answer older than this is asked for anew before it refuses somebody
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
EXCLUSIVE_PROCESS: Final = 3  # NVML_COMPUTEMODE_EXCLUSIVE_PROCESS


def is_uuid(text: object) -> bool:
    """Whether it is written as NVIDIA writes a GPU's or a MIG instance's UUID."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


class NotItsGpu(Exception):
    """The client named a GPU that is not its job's; one sentence."""


def given(record: JobRecord) -> list[str]:
    """What Slurm calls the job's GPUs; none where the record does not say, or where `fikit run` wrote it, for its own user's daemon."""
    return [] if record.pid else [word.strip() for word in record.gpus.split(",") if word.strip()]


def digits(uuid: str) -> str:
    """Of a UUID what counts: a client says GPU- or MIG- before it as it likes."""
    return uuid.partition("-")[2].upper()


def uuids_of(names: Sequence[str], seen: Sequence[Seen] | None) -> dict[str, str] | None:
    """The UUIDs of the devices that Slurm calls so, by their digits; None where that cannot be said for certain.

    A number is that of the device file. It is certain where NVML counts the GPUs in the same order, which is also how a program without
    a device cgroup counts them, and where no GPU is split: Slurm numbers MIG instances in the order of gres.conf.
    """
    found: dict[str, str] = {}
    for name in names:
        if _UUID.fullmatch(name):
            found[digits(name)] = name
            continue
        if seen is None or not _NUMBER.fullmatch(name) or not all(_counts_alike(gpu) for gpu in seen):
            return None
        same = [str(gpu["uuid"]) for gpu in seen if gpu["index"] == int(name)]
        if len(same) != 1:
            return None
        found[digits(same[0])] = same[0]
    return found or None


def _counts_alike(gpu: Seen) -> bool:
    return not gpu.get("mig") and gpu.get("index") is not None and gpu.get("minor") in (None, gpu["index"])


class Devices:
    """What NVML last said. Only the event loop touches it."""

    def __init__(
        self,
        ask: Callable[[], Coroutine[None, None, list[Seen]]] = ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock = ask, clock
        self._seen: list[Seen] | None = None
        self._asked_s: float | None = None
        self._asking: asyncio.Task[None] | None = None

    def note(self, seen: list[Seen]) -> None:
        """What somebody else asked NVML and was told."""
        self._seen, self._asked_s = seen, self._clock()

    def expect(self, records: Callable[[], list[JobRecord]]) -> None:
        """There are these jobs: ask, before the first hello waits for it."""
        if self._asked_s is None and any(_NUMBER.fullmatch(name) for record in records() for name in given(record)):
            self.learn()

    def learn(self) -> None:
        """Ask soon, if nobody did."""
        if self._asked_s is None or (self._seen is None and self._clock() - self._asked_s >= ASK_AGAIN_S):
            self._begin()

    async def stop(self) -> None:
        """Nobody waits for an answer any more."""
        if self._asking:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    @property
    def exclusive_process(self) -> bool:
        """Whether NVML says of any GPU that it admits one process at a time."""
        return any(gpu.get("compute_mode") == EXCLUSIVE_PROCESS for gpu in self._seen or ())

    def memory_bytes(self, uuid: str) -> int | None:
        """Of a GPU, as NVML has said it; None: it has not."""
        same = [int(gpu["memory_bytes"]) for gpu in self._seen or () if digits(str(gpu["uuid"])) == digits(uuid)]
        return same[0] if len(same) == 1 and same[0] > 0 else None

    async def certain(self, record: JobRecord) -> str | None:
        """The UUID of the one GPU that a job has; None where that cannot be said for certain.

        `fikit run` writes down CUDA's numbers, which need not be NVML's: of its jobs, a UUID or a machine's only GPU is certain.
        """
        names = [word.strip() for word in record.gpus.split(",") if word.strip()]
        numbers = [name for name in names if not _UUID.fullmatch(name)]
        seen = await self._known(names or ["0"])
        if record.pid and (numbers or not names):
            return str(seen[0]["uuid"]) if seen is not None and len(seen) == 1 else None
        found = uuids_of(names, seen)
        return next(iter(found.values())) if found is not None and len(found) == 1 else None

    async def place(
        self, record: JobRecord, device: Device, in_use: Callable[[str], bool] = lambda place: False
    ) -> str:
        """Under which name the client's GPU is shared: its UUID, or what Slurm calls it. Raises NotItsGpu.

        `in_use`: whether clients share under that name now. A GPU keeps the name under which its clients share, when NVML
        answers later than they came.
        """
        names = given(record)
        if not names:
            return device.uuid
        apart = f"{','.join(names)} of SLURM_JOB_GPUS"
        if len(names) > 1:
            apart += f", {device.uuid}"
        mine = digits(device.uuid)
        certain = uuids_of(names, await self._known(names))
        if certain is not None and mine not in certain and self._is_old():
            self._begin()
            certain = uuids_of(names, await self._known(names))
        if certain is None:
            return apart
        if mine not in certain:
            raise NotItsGpu(
                f"{device.uuid} is not a GPU of job {record.job}, to which Slurm gave {','.join(names)}: "
                "leave CUDA_VISIBLE_DEVICES as Slurm sets it"
            )
        return apart if in_use(apart) else certain[mine]

    async def _known(self, names: Sequence[str]) -> list[Seen] | None:
        if all(_UUID.fullmatch(name) for name in names):
            return self._seen
        self.learn()
        if self._asking:
            await asyncio.wait([self._asking], timeout=LEARN_S)
        return self._seen

    def _is_old(self) -> bool:
        return self._asked_s is not None and self._clock() - self._asked_s >= STALE_S

    def _begin(self) -> None:
        if self._asking is None:
            self._asked_s = self._clock()
            self._asking = asyncio.ensure_future(self._learn())

    async def _learn(self) -> None:
        try:
            self.note(await self._ask())
        except (NoNvml, OSError, ValueError) as error:
            _log.info("GPUs are told apart by what Slurm calls them, because NVML does not answer: %s", error)
        finally:
            self._asking = None
