"""A node's GPUs as NVML tells them, and root's records of who has one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fikitd.jobs import gpu_use
from fikitd.jobs.gpu_use import Look
from fikitd.store.records import JobRecord

GPU = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
OTHER = "GPU-11111111-0405-0607-0809-0a0b0c0d0e0f"


def seen(uuid: str, index: int, use: float | None = 0.21, processes: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "uuid": uuid, "index": index, "minor": index, "mig": False, "name": "H200", "memory_bytes": 2**37, "held_bytes": 2**30,
        "use": use, "processes": list(processes), "owners": {},
    }  # fmt: skip


def record(number: int, gpus: str) -> JobRecord:
    return JobRecord(job=str(number), uid=4712, gid=100, priority=5, gpus=gpus)


def candidate(run_dir: Path, record: JobRecord) -> Path:
    (run_dir / "candidates").mkdir(exist_ok=True)
    path = run_dir / "candidates" / record.job
    path.write_text(record.text())
    return path


def look(*gpus: dict[str, Any], alone: tuple[JobRecord, ...] = ()) -> Look:
    return Look(gpus, gpu_use.holders(alone, gpus))
