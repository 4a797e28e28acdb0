"""Which job a process belongs to: from the kernel and from root's records, never from what the process says (D5).

Pure functions over a /proc root, so that tests show them a tree of their own. Nothing here reads memory of a process that
a user controls (its cmdline, say): such a read can be made to hang. OSError comes out of them only where fikitd itself has run out
of descriptors or memory (fikitd.base.scarcity): that a process could not be read then does not mean that it is gone.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fikitd.base.scarcity import scarce
from fikitd.base.validation import printable
from fikitd.store.records import SLUID, JobRecord, JobRecords, start_ticks, stat_fields

MAX_ANCESTORS: Final = 64
# Slurm names a job's cgroup job_12; since 26.05 it goes by the SLUID of the run, unless cgroup.conf has CgroupJobIdPaths=yes.
_CGROUP_JOB = re.compile(
    rf"/(?:job_(\d{{1,20}})|(?<=slurmstepd\.scope/)({SLUID.pattern}))(?=/|$)(/step_extern(?=/|$))?",
    re.ASCII | re.MULTILINE,
)
_STEPD_JOB = re.compile(r"slurmstepd: \[(\d{1,20})\.", re.ASCII)
_STEPD_EXTERN = re.compile(r"slurmstepd: \[\d{1,20}\.extern\]", re.ASCII)
# `started_ns` of a record and start times in /proc are taken from two clocks, one of which ticks every 10 ms.
CLOCK_SLACK_NS: Final = 1_000_000_000


class Unidentified(Exception):
    """The process belongs to no job this daemon may manage; one sentence says why."""


@dataclass(frozen=True)
class Process:
    pid: int
    ppid: int
    real_uid: int
    start_ticks: int  # clock ticks after boot


def read_process(proc: Path, pid: int) -> Process | None:
    """What /proc says about `pid`; None when it is gone or unreadable."""
    try:
        after_name = stat_fields(pid, proc)
        status = (proc / str(pid) / "status").read_text(errors="replace")
        uid_line = next(line for line in status.splitlines() if line.startswith("Uid:"))
        return Process(pid, int(after_name[1]), int(uid_line.split()[1]), start_ticks(after_name))
    except (OSError, ValueError, IndexError, StopIteration) as error:
        if scarce(error):
            raise
        return None


def _read(path: Path) -> bytes:
    """A file of /proc; empty when its process is gone, or is not ours to read."""
    try:
        return path.read_bytes()
    except OSError as error:
        if scarce(error):
            raise
        return b""


def family(proc: Path, pid: int) -> Iterator[Process]:
    """The process itself, its parent, and so on, init among them: in a container that may be `fikit run`."""
    for _ in range(MAX_ANCESTORS):
        process = read_process(proc, pid) if pid > 0 else None
        if process is None:
            return
        yield process
        pid = process.ppid


def job_of_cgroup(text: str) -> str | None:
    """Slurm's name for the job in a /proc/PID/cgroup file, v1 or v2: its id, or the SLUID of its run (JobRecords.by_slurms_name).

    The outermost one counts: a job may make groups below its own and call them what it likes.
    """
    match = _CGROUP_JOB.search(text)
    return match.group(1) or match.group(2) if match else None


def _title_of_root(proc: Path, process: Process) -> str:
    """What a root's process calls itself; "" for every other one.

    The real uid is asked first: anybody can call himself slurmstepd, also in a set-uid program, but not as real root.
    """
    if process.real_uid != 0:
        return ""
    return _read(proc / str(process.pid) / "cmdline").decode("ascii", "replace")


def job_of_slurmstepd(proc: Path, process: Process) -> str | None:
    """The job that a root-owned slurmstepd serves; None for every other process."""
    match = _STEPD_JOB.match(_title_of_root(proc, process))
    return match.group(1) if match else None


def _cgroup(proc: Path, pid: int) -> str:
    """Of a process; empty when it is gone."""
    return _read(proc / str(pid) / "cgroup").decode(errors="replace")


def job_of_process(proc: Path, pid: int) -> str | None:
    """Slurm's name (`job_of_cgroup`) for the job that a process is part of, or serves as its slurmstepd.

    None for every other process, and for one that is gone.
    """
    if (job := job_of_cgroup(_cgroup(proc, pid))) is not None:
        return job
    process = read_process(proc, pid)
    return job_of_slurmstepd(proc, process) if process else None


def is_of_extern_step(proc: Path, pid: int) -> bool:
    """Whether a process belongs to what Slurm keeps on every node of a job from its begin to its end (PrologFlags=Contain)."""
    if match := _CGROUP_JOB.search(_cgroup(proc, pid)):
        return bool(match.group(3))
    process = read_process(proc, pid)
    return process is not None and _STEPD_EXTERN.match(_title_of_root(proc, process)) is not None


def boot_realtime_ns() -> int:
    """CLOCK_REALTIME at the moment from which /proc counts start times."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def is_the_records(process: Process, record: JobRecord, boot_ns: int) -> bool:
    """Whether the process is the one the record means, not a later one with the same pid.

    A record without pid_start is compared by its age, which is wrong after somebody set the clock.
    """
    if record.pid_start:
        return process.start_ticks == record.pid_start
    start_ns = boot_ns + process.start_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return record.started_ns == 0 or start_ns <= record.started_ns + CLOCK_SLACK_NS


def candidates(proc: Path, pid: int, records: JobRecords, boot_ns: int) -> Iterator[JobRecord]:
    """Records the process may belong to, the most certain evidence first."""
    relatives = list(family(proc, pid))
    cgroup = _cgroup(proc, pid)
    by_slurm: list[Callable[[], str | None]] = [lambda: job_of_cgroup(cgroup)]
    by_slurm += [lambda p=p: job_of_slurmstepd(proc, p) for p in relatives]  # type: ignore[misc]
    for ask in by_slurm:
        if (job := ask()) is not None and (record := records.by_slurms_name(job)) is not None:
            yield record
    # Of two records with one pid, the later one is about the living process.
    roots = {record.pid: record for record in sorted(records.all(), key=lambda r: r.started_ns) if record.pid}
    for process in relatives:
        root = roots.get(process.pid)
        if root is not None and is_the_records(process, root, boot_ns):
            yield root


def identify(
    proc: Path, pid: int, uid: int, records: JobRecords, *, daemon_uid: int, boot_ns: int | None = None
) -> JobRecord:
    """The job of the process that SO_PEERCRED names; Unidentified when there is none.

    The start time before and after must be the same: a pid that changed hands meanwhile proves nothing.
    """
    before = read_process(proc, pid) if pid > 0 else None
    if before is None:
        raise Unidentified(f"process {pid} of uid {uid} is not visible to fikitd")
    foreign: JobRecord | None = None
    for record in candidates(proc, pid, records, boot_realtime_ns() if boot_ns is None else boot_ns):
        if record.uid == uid or (daemon_uid != 0 and uid == daemon_uid):
            after = read_process(proc, pid)  # its parent may have changed honestly: orphans move to init
            if after is None or after.start_ticks != before.start_ticks:
                raise Unidentified(f"process {pid} of uid {uid} ended while it was identified")
            return record
        foreign = foreign or record
    if foreign is not None:
        raise Unidentified(
            f"process {pid} runs as uid {uid} but its job {printable(foreign.job)} is uid {foreign.uid}'s"
        )
    raise Unidentified(f"process {pid} of uid {uid} belongs to no fikit job on this node")
