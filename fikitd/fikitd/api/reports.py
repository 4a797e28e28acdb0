"""Report records: what a job's use of the GPU looked like, kept as REPORT_DIR/<uid>/<job>.json, and its one-line summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fikitd.api import elapsed, report_format
from fikitd.api.report_format import MIXED, MPS, OTHER_MPS, Report
from fikitd.store.user_files import Kind, UserFiles

SUFFIX: Final = ".json"
MAX_BYTES: Final = 2**20
MOST_DAMAGED: Final = 20  # of one user's: then the rest of that user's is not looked at
MOST_READ: Final = 2**26  # bytes of one user's reports for one list: some twenty thousand reports
NOT_STORED: Final = "its report could not be stored"  # a warning that begins so is in no report that anybody could read

Skipped = Callable[[str], None]


class ReportError(Exception):
    """A stored report that cannot be used; one sentence names the file."""


class ReportStore:
    """Finished reports. Reads and writes in the calling thread with its rights: users see their own, root everybody's."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._files = UserFiles(self.directory, Kind("report", SUFFIX, MAX_BYTES, report_format.parse, ReportError))

    def load(self, job: str, uid: int | None = None) -> Report | None:
        """The report of `job`, of user `uid`'s where several have one; None when there is none, ReportError when it cannot be read."""
        return self._files.load(job, uid)

    def newest(
        self,
        limit: int | None = None,
        uid: int | None = None,
        skipped: Skipped | None = None,
        since_s: float = 0.0,
    ) -> list[Report]:
        """The reports that were written last, and not before `since_s` (Unix time), the newest first; of user `uid` alone. `skipped` hears
        of each that is none, and of each user of whom not all were read.
        """
        found: list[Report] = []
        damaged: Counter[int] = Counter()
        read: Counter[int] = Counter()  # bytes
        for file in self._files.newest(since_s):
            if len(found) == limit:
                break
            if uid not in (None, file.uid) or damaged[file.uid] >= MOST_DAMAGED or read[file.uid] > MOST_READ:
                continue
            try:
                data = self._files.bytes_of(file)
                read[file.uid] += len(data)
                found.append(self._files.read(file, data))
            except FileNotFoundError:
                continue  # removed meanwhile
            except ReportError as error:
                damaged[file.uid] += 1
                if skipped is not None:
                    skipped(str(error))
            if read[file.uid] > MOST_READ and skipped is not None:
                skipped(
                    f"the reports of uid {file.uid} in {self.directory} are more than {MOST_READ >> 20} MiB, "
                    "and only the newest of them were read"
                )
        return found

    def jobs(self) -> list[str]:
        """The jobs that have a report which the caller may see, the newest first."""
        return [file.job for file in self._files.newest()]

    def parts(self, whole: str) -> list[Report]:
        """The reports of the tasks of array `whole`, and of the components of heterogeneous job `whole`."""
        found = []
        for file in self._files.newest():
            with suppress(FileNotFoundError, ReportError):
                data = self._files.bytes_of(file)
                # Of twenty thousand, some: a look is cheaper than understanding all of them.
                if f'"{whole}_'.encode() in data or f'"{whole}+'.encode() in data:
                    report = self._files.read(file, data)
                    if place_of(report).replace("+", "_").startswith(f"{whole}_"):
                        found.append(report)
        return found

    def has(self, job: str, uid: int | None = None) -> bool:
        """Whether there is one, or one of user `uid`'s, readable or not. OSError: nobody can say."""
        return self._files.has(job, uid)

    def save(self, record: Report) -> Path:
        """Store a report in its user's directory, replacing an earlier one of the same job."""
        return self._files.save(record, json.dumps(record, indent=1).encode() + b"\n")

    def list(self) -> list[Report]:
        """Every report that the caller may read, the latest started last; others are left out."""
        return sorted(self.newest(), key=lambda report: str(report["started"]))


_UNDER_MPS: Final = {MPS: "under MPS", OTHER_MPS: "under an MPS that is not fikit's", MIXED: "partly under MPS"}
_STORED: Final = {True: "stored", False: "not stored", None: "not stored yet"}


def summary_line(record: Report) -> str:
    """The line at the end of a job's output, such as
    `fikit: job 12 high: 1.04x of its time alone (1.05x allowed), 1834 kernels, GPU time 3.2 s, waited 12 ms`."""
    kernels, profile = record["kernels"], record["profile"]
    facts: list[str] = []
    if record["measured"]:
        facts.append(f"measured {_count(kernels, 'kernel')}")
        facts += _gpu_time(record)
        facts.append(f"profile {profile['key']} {_STORED[profile['stored']]}")
    else:
        facts += [said] if (said := against_alone(record)) else []
        facts.append(_count(kernels, "kernel"))
        facts += _gpu_time(record)
        facts.append(f"waited {duration(record['wait']['total_s'])}")
        facts += _moved(record)
        facts += [how] if (how := _UNDER_MPS.get(record.get("device_mode", ""))) else []
        if not profile["found"] and kernels and profile["stored"]:
            facts.append(f"no profile yet; samples of this run are stored as {profile['key']}")
        elif not profile["found"] and kernels:
            facts.append("no profile yet; run once with --fikit-measure")
        elif borrowed := profile.get("borrowed"):
            facts.append(f"times from {borrowed['run']} ({borrowed['known']} of {borrowed['kernels']} kernels known)")
        elif record["span_alone_s"] is None and kernels:
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


def _moved(record: Report) -> list[str]:
    """How much of its memory was moved between GPU and host ahead of need; nothing where none was."""
    moved = (record.get("memory") or {}).get("moved")
    if not moved or not (moved["in_bytes"] or moved["out_bytes"]):
        return []
    return [
        f"memory moved {(moved['in_bytes'] + moved['out_bytes']) / 2**30:.3g} GiB ({duration(moved['moving_s'])} waited for it)"
    ]


def place_of(record: Report) -> str:
    """By which users know it beside its own number: `12_3` of an array, `12+1` of a heterogeneous job, or nothing."""
    return str(record.get("array") or record.get("het") or "")


def against_alone(record: Report) -> str:
    """`1.04x of its time alone (1.05x allowed)`, or what is missing for that; nothing where there is nothing to compare, and for
    reports of before, which compared their span with the profile and left out start-up and pauses."""
    if not has_times(record):
        return ""
    if record["slowdown"] is not None:
        return f"{ratio(record)} of its time alone{_allowed(record)}"
    elapsed_s = max(record["elapsed_s"], 1e-9)
    if record["no_slowdown"] == elapsed.UNEXPLAINED:
        return f"not compared with its time alone: {100 * record['unexplained_s'] / elapsed_s:.0f} % of it is not explained"
    if record["no_slowdown"] == elapsed.AROUND:
        return "not compared with its time alone: a program around fikit used its GPU"
    if record["no_slowdown"] == elapsed.EDGES and record["profile"]["found"]:
        unknown = f"{duration(record['host']['unknown_s'])} of {duration(elapsed_s)}"
        return f"not compared with its time alone: no profile knows how long it takes to start and end ({unknown})"
    return ""


def has_times(record: Report) -> bool:
    """Reports of before do not say where the time went."""
    return record.keys() >= elapsed.KEYS


def ratio(record: Mapping[str, Any]) -> str:
    """`1.04x`: elapsed without suspended / alone; nothing where the sum supports no ratio."""
    return "" if record["slowdown"] is None else f"{record['slowdown']:.2f}x"


def allowance(record: Mapping[str, Any]) -> str:
    """`1.05x`: what lower jobs may make of its time alone; nothing where its policy promises nothing."""
    return "" if record["max_slowdown"] is None else f"{1 + record['max_slowdown']:.4g}x"


def _allowed(record: Report) -> str:
    if not (allowed := allowance(record)):
        return ""
    missed = ", which lower jobs did not keep to" if record["kept"] is False else ""
    return f" ({allowed} allowed{missed})"


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
