"""The report record: checking one that somebody wrote (docs/design/contracts.md, "Report records").

A stored report is its user's own file, and root reads it too: what gets through here can be added, compared and printed.
"""

from __future__ import annotations

from typing import Any, Final

from fikitd.api import former_names, memory_story
from fikitd.api.elapsed import WHY_NOT
from fikitd.base import schema
from fikitd.base.schema import amount, empty_or, flag, moment, name, null_or, one_of, several, text, whole

FORMAT: Final = "fikit-report"
VERSION: Final = 1

# How a GPU is shared: contexts take turns; kernels overlap under fikit's MPS, or under one of the user's or the site's own; not all alike.
SLICES: Final = "slices"
MPS: Final = "mps"
OTHER_MPS: Final = "other-mps"
MIXED: Final = "mixed"
MODE: Final = one_of(SLICES, MPS, OTHER_MPS, MIXED)

Report = dict[str, Any]

_COUNT: Final = whole()
_TIME: Final = amount()
_PRIORITY: Final = whole(0, 9)
_MAX_ENTRIES: Final = 1024

DEVICE: Final = schema.fields(
    {"name": text(256), "emulated": flag}, {"uuid": text(96), "memory_bytes": null_or(_COUNT)}
)
_WAIT = schema.fields({"count": _COUNT, "total_s": _TIME, "mean_us": _TIME, "p99_us": _TIME})
_GAPS = schema.fields(
    {
        "offered": _COUNT, "filled": _COUNT, "others_kernels": _COUNT,
        "predicted_us": _TIME, "actual_us": _TIME, "error_p50_us": _TIME, "error_p90_us": _TIME,
    }
)  # fmt: skip
_WAIT_REASON = schema.fields(
    {
        "reason": text(64), "job": null_or(name), "priority": null_or(_PRIORITY), "kernel": text(1024),
        "p90_us": null_or(_TIME), "total_s": _TIME, "count": _COUNT,
    },
    {"cost_s": _TIME},
)  # fmt: skip
_HOST = schema.fields({"start_s": _TIME, "late_s": _TIME, "end_s": _TIME, "unknown_s": _TIME})
_DELAY = schema.fields({"job": null_or(name), "priority": null_or(_PRIORITY), "total_s": _TIME, "count": _COUNT})
_MEMORY = schema.fields(
    {"limit_bytes": null_or(_COUNT), "peak_bytes": _COUNT, "refused": _COUNT},
    {"moved": null_or(memory_story.CHECK), "plan": null_or(memory_story.PLAN_CHECK)},
)
_BORROWED = schema.fields({"run": text(1024), "kernels": _COUNT, "known": _COUNT, "borrowed": _COUNT})
AUTO_STATES: Final = ("alone", "ordered", "equal", "turn", "unknown", "user")  # fikitd.jobs.auto_levels.State
AUTO = schema.fields(
    {"highest": _PRIORITY, "lowest": _PRIORITY, "state": one_of(*AUTO_STATES), "rest_s": null_or(_TIME), "runs": _COUNT}
)
_PROFILE = schema.fields(
    {"key": empty_or(name), "found": flag, "stored": null_or(flag)}, {"borrowed": null_or(_BORROWED)}
)
ABOUT: Final = {
    "job": name, "name": text(1024), "uid": whole(0, 2**32 - 1), "node": text(256), "priority": _PRIORITY,
    "policy": text(64), "state": one_of("running", "ended"), "device": DEVICE,
}  # fmt: skip
_RECORD = schema.fields(
    {
        "format": one_of(FORMAT), "version": whole(VERSION, VERSION), **ABOUT,
        "priority_name": text(32), "measured": flag, "started": moment, "ended": null_or(moment), "processes": _COUNT,
        "kernels": _COUNT, "gpu_time_s": null_or(_TIME), "span_s": _TIME, "span_alone_s": null_or(_TIME),
        "slowdown": null_or(_TIME), "wait": _WAIT, "gaps": _GAPS, "expired": _COUNT, "profile": _PROFILE,
        "warnings": several(text(8192), _MAX_ENTRIES),
    },
    {  # which reports of before do not have
        "array": text(64), "het": text(64), "unmanaged": _COUNT, "gpu_time_at_most_s": null_or(_TIME),
        "untimed": _COUNT, "beside": _COUNT, "doubtful": _COUNT, "unfinished": _COUNT, "drifted": _COUNT, "memory": _MEMORY,
        "elapsed_s": _TIME, "alone_s": _TIME, "waited_s": _TIME, "delayed_s": _TIME, "host_s": _TIME, "unexplained_s": _TIME,
        "pauses_s": _TIME, "suspended_s": _TIME, "host": _HOST, "no_slowdown": one_of(*WHY_NOT), "max_slowdown": null_or(amount(1)),
        "kept": null_or(flag), "kept_unknown": one_of(*WHY_NOT), "auto": null_or(AUTO),
        "wait_reasons": several(_WAIT_REASON, _MAX_ENTRIES), "delays": several(_DELAY, _MAX_ENTRIES), "device_mode": MODE,
    },
)  # fmt: skip


def parse(data: bytes) -> Report:
    """A checked report; ValueError with the reason, as the end of a sentence, for anything that is not one."""
    return checked(schema.document(data))


def checked(document: Any) -> Report:
    """`document` with known fields only, all within bounds, under the names of today and their former ones; ValueError says what is not."""
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"it is not a version {VERSION} {FORMAT} file")
    report: Report = _RECORD(former_names.renamed("report", document), "the report")
    return former_names.with_former("report", report)
