"""What `fikit advise --site` is made of: jobs of a week, those of few users for figures that a test can add up, and many for the look of a page."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from cli_samples import REPORT

UNTIL = datetime(2026, 11, 22, tzinfo=UTC)
WEEK = UNTIL - timedelta(days=7)
GPU = {"uuid": "GPU-1", "name": "H200", "emulated": False, "memory_bytes": 141 * 2**30}
USE: dict[str, Any] = {
    "format": "fikit-use", "version": 1, "job": "31", "uid": os.getuid(), "node": "n1", "name": "", "gpus": [GPU], "started": "2026-11-21T12:00:00Z",
    "ended": "2026-11-21T12:29:00Z", "shared": False, "looks": 115, "every_s": 15.0, "busy": 0.21, "peak_bytes": 10 * 2**30,
}  # fmt: skip


def use(job: str, hours: float, busy: float | None, **more: Any) -> dict[str, Any]:
    ended = datetime(2026, 11, 21, 12, tzinfo=UTC)
    started = ended - timedelta(hours=hours)
    return {
        **USE,
        "job": job,
        "started": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "ended": f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        "busy": busy,
        **more,
    }


def report(job: str, **more: Any) -> dict[str, Any]:
    return {**REPORT, "job": job, "device": {**REPORT["device"], "emulated": False}, **more}


BROKEN = report(
    "20", kept=False, slowdown=1.2, elapsed_s=100.0, delays=[{"job": "18", "priority": 8, "total_s": 9.0, "count": 3},
    {"job": "7", "priority": 0, "total_s": 50.0, "count": 3}], host={"start_s": 0.0, "late_s": 3.0, "end_s": 0.0, "unknown_s": 0.0},
)  # fmt: skip
USES = [
    use("31", 10, 0.1), use("32", 4, 0.4, peak_bytes=int(0.7 * 141 * 2**30)), use("33", 2, 0.9), use("34", 1, None),
    use("35", 3, 0.1, gpus=[*USE["gpus"], *USE["gpus"]]), use("36", 5, None, shared=True, gpus=[]),
    use("30", 99, 0.1, ended="2026-11-01T12:00:00Z"),
]  # fmt: skip

MANY_REPORTS = [report("12"), BROKEN] + [
    {**BROKEN, "job": str(100_000 + number), "name": f"train-{'very-long-name-' * (number % 4)}{number}.sh", "uid": 90_000 + number % 5, "node": f"gpu{number:03d}",
     "kept": number % 3 != 0, "slowdown": 1.1 + number / 100}
    for number in range(30)
]  # fmt: skip
MANY_USES = [
    *USES, *(use(str(200_000 + number), 1 + number, number / 40, uid=90_000 + number % 9, node=f"gpu{number:03d}") for number in range(30)),
]  # fmt: skip
