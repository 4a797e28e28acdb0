"""Report records: what a job's use of the GPU looked like, kept as REPORT_DIR/<job>.json, and its one-line summary."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fikitd.storage import read_bounded, unreadable, write_atomic
from fikitd.untrusted import is_name, no_constant

FORMAT: Final = "fikit-report"
VERSION: Final = 1
MAX_BYTES: Final = 2**20
NOT_STORED: Final = "its report could not be stored"  # a warning that begins so is in no report that anybody could read

Report = dict[str, Any]


class ReportError(Exception):
    """A stored report that cannot be used; one sentence names the file."""


class ReportStore:
    """Finished reports. Reads and writes in the calling thread with its rights."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def load(self, job: str) -> Report | None:
        """The report of `job`; None when there is none, ReportError when it cannot be read."""
        if not is_name(job):
            return None
        path = self.directory / f"{job}.json"
        try:
            report = json.loads(read_bounded(path, MAX_BYTES), parse_constant=no_constant)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ReportError(f"report {path} could not be read: {unreadable(path, error)}") from None
        if not isinstance(report, dict) or report.get("format") != FORMAT or report.get("version") != VERSION:
            raise ReportError(f"report {path} is not a version {VERSION} {FORMAT} file")
        return report

    def list(self) -> list[Report]:
        """Every report the caller may read, the latest started last; others are left out."""
        reports = []
        with suppress(OSError):
            for path in self.directory.glob("*.json"):
                with suppress(ReportError):
                    reports.append(self.load(path.stem))
        return sorted((report for report in reports if report), key=lambda report: str(report.get("started", "")))

    def save(self, record: Report, owner: tuple[int, int] | None = None) -> Path:
        """Store a report, replacing an earlier one of the same job; `owner` (uid, gid) gets the file when root writes it."""
        if not is_name(record["job"]):
            raise ValueError("job is not a job id")
        path = self.directory / f"{record['job']}.json"
        write_atomic(path, json.dumps(record, indent=1).encode() + b"\n", mode=0o600, owner=owner)
        return path

    def prepare(self) -> None:
        """Make the directory where only root may; where that fails, `save` says what is wrong."""
        with suppress(OSError):
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)

    def users_may_change(self) -> bool:
        """Whether others than its owner may write into the directory: then root must not, files there may be traps."""
        status = self.directory.stat()
        return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022)


_STORED: Final = {True: "stored", False: "not stored", None: "not stored yet"}


def summary_line(record: Report) -> str:
    """The line at the end of a job's output, such as
    `fikit: job 12 high: 1.04x of its profile's solo time, 1834 kernels, GPU time 3.2 s, waited 12 ms`."""
    kernels, profile = record["kernels"], record["profile"]
    facts: list[str] = []
    if record["measured"]:
        facts.append(f"measured {_count(kernels, 'kernel')}")
        facts += _gpu_time(record)
        facts.append(f"profile {profile['key']} {_STORED[profile['stored']]}")
    else:
        if nothing_completed(record):
            facts.append("nothing is known to have completed")
        elif record["slowdown"] is not None:
            facts.append(f"{record['slowdown']:.2f}x of its profile's solo time")
        facts.append(_count(kernels, "kernel"))
        facts += _gpu_time(record)
        facts.append(f"waited {duration(record['wait']['total_s'])}")
        if not profile["found"] and kernels and profile["stored"]:
            facts.append(f"no profile yet; samples of this run are stored as {profile['key']}")
        elif not profile["found"] and kernels:
            facts.append("no profile yet; run once with --fikit-measure")
        elif record["solo_s"] is None and kernels:
            facts.append(f"profile {profile['key']} does not know all its kernels; run again with --fikit-measure")
    lost = [warning for warning in record["warnings"] if warning.startswith(NOT_STORED)]
    if lost:
        facts += lost
    elif record["warnings"]:
        facts.append(f"{_count(len(record['warnings']), 'warning')}, see fikit-report {record['job']}")
    name = record["priority_name"]
    place = place_of(record)
    task = f" ({place})" if place else ""
    who = f"job {record['job']}{task} {f'priority {name}' if name.isdigit() else name}"
    return f"fikit: {who}: {', '.join(facts)}{' (emulated GPU)' if record['device']['emulated'] else ''}"


def place_of(record: Report) -> str:
    """By which users know it beside its own number: `12_3` of an array, `12+1` of a heterogeneous job, or nothing."""
    return str(record.get("array") or record.get("het") or "")


def nothing_completed(record: Report) -> bool:
    """Nothing to compare with its profile: it was killed before it waited for any of its kernels, perhaps."""
    return record["solo_s"] is not None and not record["span_s"]


def gpu_time_bound(record: Report) -> float | None:
    """Seconds that the job's time on the GPU is at most, where gpu_time_s is null. None where not even that is known."""
    if record["gpu_time_s"] is not None:
        return None
    return record.get("gpu_time_at_most_s") or record["span_s"] or None  # reports of before have the span alone


def _gpu_time(record: Report) -> list[str]:
    if record["gpu_time_s"] is not None:
        return [f"GPU time {duration(record['gpu_time_s'])}"]
    bound = gpu_time_bound(record)
    return [] if bound is None else [f"GPU time at most {duration(bound)}"]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def duration(seconds: float) -> str:
    """A time for people, two digits where they matter: `870 us`, `12 ms`, `3.2 s`, `4 min 10 s`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
