"""Status files of made-up nodes (fikitd.api.status_format)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOW_S = 1_790_000_000  # a Monday in September 2026
GIB = 2**30


def job(
    number: int, priority: int | None = 1, uid: int = 4711, share: float | None = 0.4, **more: Any
) -> dict[str, Any]:
    return {
        "job": str(number),
        "uid": uid,
        "priority": priority,
        "share": share,
        "slowdown": None,
        "max_slowdown": None,
        **more,
    }


def gpu(index: int, *jobs: dict[str, Any], node: int = 0, **more: Any) -> dict[str, Any]:
    use = min(sum(each["share"] or 0.0 for each in jobs), 1.0)
    return {
        "uuid": f"GPU-{node:08x}-0000-0000-0000-{index:012x}", "index": index, "name": "H200", "emulated": False, "memory_bytes": 141 * GIB,
        "held_bytes": 31 * GIB, "use": use, "by_nvml": not jobs, "unmanaged": 0, "harvest_s": 0.0, "jobs": list(jobs), **more,
    }  # fmt: skip


def status(node: str, *gpus: dict[str, Any], today: dict[str, float] | None = None, **more: Any) -> dict[str, Any]:
    counts = {
        "gpu_s": 0.0,
        "harvest_s": 0.0,
        "ended": 0.0,
        "kept": 0.0,
        "exceeded": 0.0,
        "unknown": 0.0,
        **(today or {}),
    }
    return {
        "format": "fikit-status", "version": 1, "node": node, "policy": "budget", "written_s": NOW_S - 5, "every_s": 15.0, "gpus": list(gpus),
        "today": {"since_s": NOW_S - 3600, **counts}, "broken": [], **more,
    }  # fmt: skip


def write(directory: Path, *documents: dict[str, Any]) -> Path:
    """Each under its node's name."""
    directory.mkdir(mode=0o755, exist_ok=True)
    for document in documents:
        path = directory / f"{document['node']}.status"
        path.write_text(json.dumps(document))
        path.chmod(0o644)
    return directory
