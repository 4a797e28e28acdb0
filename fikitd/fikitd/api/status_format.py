"""What a node's fikitd tells the whole cluster of its GPUs (`status_dir`), as whoever reads it checks it (docs/design/contracts.md, "Status files")."""

from __future__ import annotations

from typing import Any, Final

from fikitd.base import schema
from fikitd.base.schema import amount, flag, good_ones, name, null_or, one_of, text, whole

FORMAT: Final = "fikit-status"
VERSION: Final = 1
SUFFIX: Final = ".status"
MOST_BYTES: Final = 2**18
MOST_GPUS: Final = 256
MOST_JOBS: Final = 256  # of a GPU
MOST_BROKEN: Final = 32
LONGEST_S: Final = 86_400

_COUNT: Final = whole()
_SHARE: Final = null_or(amount(1))
_RATIO: Final = null_or(amount(1e6))
_UID: Final = whole(0, 2**32 - 1)
_JOB = schema.fields(
    {"job": name, "uid": _UID, "priority": null_or(whole(0, 9)), "share": _SHARE, "slowdown": _RATIO, "max_slowdown": _RATIO}
)  # fmt: skip
_GPU = schema.fields(
    {
        "uuid": text(96), "index": null_or(whole(0, 4095)), "name": text(256), "emulated": flag, "memory_bytes": null_or(_COUNT),
        "held_bytes": null_or(_COUNT), "use": _SHARE, "by_nvml": flag, "unmanaged": _COUNT, "harvest_s": amount(),
        "jobs": good_ones(_JOB, MOST_JOBS),
    }
)  # fmt: skip
COUNTS: Final = ("gpu_s", "harvest_s", "ended", "kept", "exceeded", "unknown")
"""Since midnight: GPU time of jobs under fikit and what of it ran below a higher job, in seconds; jobs that ended, and what became of promises."""
_TODAY = schema.fields({"since_s": _COUNT, **{count: amount() for count in COUNTS}})
_BROKEN = schema.fields(
    {"job": name, "uid": _UID, "priority": whole(0, 9), "slowdown": _RATIO, "max_slowdown": _RATIO, "ended_s": _COUNT}
)
_STATUS = schema.fields(
    {
        "format": one_of(FORMAT), "version": whole(VERSION, VERSION), "node": text(256), "policy": text(64), "written_s": _COUNT,
        "every_s": amount(LONGEST_S), "gpus": good_ones(_GPU, MOST_GPUS), "today": _TODAY, "broken": good_ones(_BROKEN, MOST_BROKEN),
    }
)  # fmt: skip


def checked(document: Any) -> dict[str, Any]:
    """`document` with known fields only, all within bounds; ValueError says what is not.

    gpus[].jobs[]: `priority` null: it has the GPU alone. `share`: device time of what it launched lately, as a part of that while. `use`: of the
    whole GPU, `by_nvml`: by NVML's word. `slowdown`: elapsed against alone so far, of which `max_slowdown` (0.05 for 5 %) is allowed. Times since 1970 in `written_s`, `since_s`, `ended_s`.
    """
    status: dict[str, Any] = _STATUS(document, "the status")
    return status
