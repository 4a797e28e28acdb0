"""Job records: what root's prolog (or `fikit run`) says about a job, one file per job in RUN_DIR/jobs."""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from fikitd.base import priorities, quantities
from fikitd.base.scarcity import scarce
from fikitd.base.validation import integer, is_name, printable
from fikitd.store.changed_priorities import AUTO, USER, ChangedPriorities
from fikitd.store.storage import read_bounded, write_atomic

_log = logging.getLogger("fikitd")

DIRECTORY: Final = "jobs"  # in run_dir
MAX_BYTES: Final = 4096
FRESH_S: Final = 0.005
TICK_NS: Final = 50_000_000
SLUID: Final = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}", re.ASCII)  # src/common/sluid.c of Slurm: Crockford's base 32
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_TASK = re.compile(r"\d{1,10}_\d{1,10}", re.ASCII)
_COMPONENT = re.compile(r"\d{1,10}\+\d{1,10}", re.ASCII)


def stat_fields(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """What /proc/PID/stat says from its third field on; OSError when there is no such process."""
    # The name in field 2 may hold anything, also `) R 1`; the fields after the last `)` are the kernel's.
    return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def start_ticks(fields: list[str]) -> int:
    """When the process of these `stat_fields` began, in clock ticks after the boot."""
    return int(fields[19])


class RecordError(ValueError):
    """A record that cannot be used; says which file and why."""


@dataclass(frozen=True)
class JobRecord:
    """One job. Bytes and numbers are plain integers; `started_ns` is CLOCK_REALTIME; 0, "" or None mean not given.

    pid_start: when process `pid` began, in ticks since the boot, so that a later one with its number is another.
    mem_host_bytes: beside mem_bytes, what may lie in host memory (fikitd.config.oversubscribe says whether it does).
    sluid: by which Slurm 26.05 names the cgroups of this run; one run has one, and a job that is requeued another one.
    max_slowdown (a share) and max_delay_ns: what lower jobs may cost it at most. batch: its batch step has begun here.
    array: `12_3`, task 3 of array 12. het: `12+1`, component 1 of heterogeneous job 12.
    priority: in force; approved: what slurmctld approved, where that is another one.
    auto_highest, auto_lowest: with --fikit-priority=auto, between which priorities fikitd may choose (fikitd.jobs.auto_priority). chosen: of such a
    job, who chose the one in force: AUTO or USER; "": it is the approved one.
    """

    job: str
    uid: int
    gid: int
    priority: int
    measure: bool = False
    mem_bytes: int = 0
    profile: str = ""
    gpus: str = ""
    name: str = ""
    pid: int = 0
    pid_start: int = 0
    started_ns: int = 0
    max_slowdown: float | None = None
    max_delay_ns: int | None = None
    batch: bool = False
    array: str = ""
    het: str = ""
    approved: int | None = None
    auto_highest: int | None = None
    auto_lowest: int | None = None
    chosen: str = ""
    mem_host_bytes: int = 0
    sluid: str = ""

    @property
    def auto(self) -> priorities.Range | None:
        """Between which priorities fikitd chooses; None: it does not."""
        if self.auto_highest is None or self.auto_lowest is None:
            return None
        return priorities.Range(self.auto_highest, self.auto_lowest)

    @property
    def automatic(self) -> bool:
        """Whether fikitd chooses its priority, and nobody has said another one."""
        return self.auto is not None and self.chosen != USER and not self.measure

    def text(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {"measure": int(self.measure), "batch": int(self.batch)}
        values["name"], values["gpus"] = printable(self.name)[:256], printable(self.gpus)
        if self.max_slowdown is not None:
            values["max_slowdown"] = f"{self.max_slowdown:.6f}"
        said = {
            key: value
            for key, value in values.items()
            if value is not None
            and (key not in {"pid", "pid_start", "array", "het", "chosen", "mem_host_bytes", "sluid"} or value)
        }
        return "version=1\n" + "".join(f"{key}={value}\n" for key, value in said.items())

    def write(self, run_dir: Path | str) -> Path:
        """Write the record atomically into RUN_DIR/jobs (made when missing); returns its path."""
        if not is_name(self.job):
            raise RecordError(f'"{printable(self.job)}" cannot be a job id')
        jobs = Path(run_dir) / DIRECTORY
        jobs.mkdir(mode=0o755, exist_ok=True)
        path = jobs / self.job
        write_atomic(path, self.text().encode(), mode=0o644)
        return path

    @classmethod
    def parse(cls, text: str) -> JobRecord:
        """A record from its lines; unknown keys are ignored; ValueError names the key that is wrong."""
        # Not splitlines(): a name may hold what only that takes for the end of a line, and its user would write what follows.
        values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)

        def whole(key: str, maximum: int, default: int | None = None) -> int:
            raw = values.get(key, "" if default is None else str(default))
            if not _NUMBER.fullmatch(raw):
                raise ValueError(f"{key} is not a number")
            return integer(int(raw), key, 0, maximum)

        def share(key: str) -> float | None:
            try:
                return quantities.share(values[key]) if key in values else None
            except ValueError:
                raise ValueError(f"{key} is not a share") from None

        whole("version", 1)
        auto = _range(values)
        job, profile, array, het = (values.get(key, "") for key in ("job", "profile", "array", "het"))
        if not is_name(job):
            raise ValueError("job is not a job id")
        if profile and not is_name(profile):
            raise ValueError("profile is not a profile name")
        if array and not _TASK.fullmatch(array):
            raise ValueError("array is not a task of an array")
        sluid = values.get("sluid", "")
        if sluid and not SLUID.fullmatch(sluid):
            raise ValueError("sluid is not one of Slurm's")
        if het and not _COMPONENT.fullmatch(het):
            raise ValueError("het is not a component of a heterogeneous job")
        return cls(
            job=job,
            uid=whole("uid", 2**32 - 2),
            gid=whole("gid", 2**32 - 2),
            priority=whole("priority", priorities.LOWEST),
            measure=bool(whole("measure", 1, 0)),
            mem_bytes=whole("mem_bytes", 2**63 - 1, 0),
            mem_host_bytes=whole("mem_host_bytes", 2**63 - 1, 0),
            profile=profile,
            gpus=printable(values.get("gpus", "")),
            name=printable(values.get("name", "")),
            array=array,
            het=het,
            sluid=sluid,
            batch=bool(whole("batch", 1, 0)),
            pid=whole("pid", 2**31 - 1, 0),
            pid_start=whole("pid_start", 2**63 - 1, 0),
            started_ns=whole("started_ns", 2**63 - 1, 0),
            max_slowdown=share("max_slowdown"),
            max_delay_ns=whole("max_delay_ns", quantities.MAX_NS) if "max_delay_ns" in values else None,
            approved=whole("approved", priorities.LOWEST) if "approved" in values else None,
            auto_highest=auto.highest if auto else None,
            auto_lowest=auto.lowest if auto else None,
            chosen=chosen if auto and (chosen := values.get("chosen", "")) in (AUTO, USER) else "",
        )

    @classmethod
    def read(cls, path: Path | str) -> JobRecord:
        """The record in `path`; FileNotFoundError when there is none, RecordError when it is unusable. OSError: fikitd.base.scarcity."""
        try:
            record = cls.parse(read_bounded(Path(path), MAX_BYTES).decode(errors="replace"))
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            if scarce(error):
                raise
            raise RecordError(f"job record {path} is unusable: {error}") from None
        if record.job != Path(path).name:
            raise RecordError(f"job record {path} is unusable: it is about job {record.job}")
        return record


def _range(values: Mapping[str, str]) -> priorities.Range | None:
    """Of a form that is not known there is none: the job has its priority, as without."""
    words = [values.get(key, "") for key in ("auto_highest", "auto_lowest")]
    if not all(len(word) == 1 and word in "0123456789" for word in words):
        return None
    highest, lowest = map(int, words)
    return priorities.Range(highest, lowest) if highest <= lowest else None


class JobRecords:
    """The records of one run_dir as the daemon sees them: only root's and the daemon's own files count (D5).

    OSError comes out of them only where fikitd itself has run out of descriptors or memory (fikitd.base.scarcity).
    """

    def __init__(self, run_dir: Path) -> None:
        self.directory = run_dir / DIRECTORY
        self._complained: set[str] = set()
        self._users = Users(self)
        self._changed = ChangedPriorities(run_dir)

    def users(self, *, fresh: bool = False) -> frozenset[int]:
        """Who has a job here; cheap enough to be asked for every connection, unless it is to be `fresh`."""
        return self._users.now(fresh)

    def get(self, job: str) -> JobRecord | None:
        """The record of `job`; None when there is none or, said once in the log, it is unusable."""
        if not is_name(job):
            return None
        path = self.directory / job
        try:
            if (owner := path.lstat().st_uid) not in (0, os.geteuid()):
                raise RecordError(f"job record {path} is unusable: it belongs to uid {owner}")
            return self.in_force(JobRecord.read(path))
        except OSError as error:
            if scarce(error):
                raise
            return None
        except RecordError as error:
            if job not in self._complained:
                self._complained.add(job)
                _log.warning("%s", error)
            return None

    def in_force(self, record: JobRecord) -> JobRecord:
        """The record with the priority that its job has now."""
        return self._changed.in_force(record)

    def change_priority(self, record: JobRecord, priority: int, by: str = USER) -> JobRecord:
        """The record as it is from now on; by: USER or AUTO. OSError: nothing has changed."""
        return self._changed.change(record, priority, by)

    def take_change_back(self, record: JobRecord) -> JobRecord:
        """The record with the priority that was approved. OSError: nothing has changed."""
        return self._changed.take_back(record)

    def forget_changes(self, jobs: Container[str]) -> None:
        """Of all jobs but these."""
        self._changed.keep_only(jobs)

    def gone(self, job: str) -> bool:
        """Whether there is none, not even one that cannot be read: the job is over."""
        try:
            (self.directory / job).lstat()
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR)
        return False

    def remove(self, job: str) -> None:
        """As the epilog does."""
        with suppress(FileNotFoundError):
            (self.directory / job).unlink()

    def by_slurms_name(self, name: str) -> JobRecord | None:
        """Of the job whose cgroup Slurm calls so: by its id, or by the SLUID of its run."""
        if not SLUID.fullmatch(name):
            return self.get(name)
        return next((record for record in self.all() if record.sluid == name), None)

    def any(self) -> bool:
        """Whether there is a job, as cheaply as that can be said."""
        with suppress(OSError), os.scandir(self.directory) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
        return False

    def all(self) -> list[JobRecord]:
        try:
            names = sorted(path.name for path in self.directory.iterdir())
        except OSError as error:
            if scarce(error):
                raise
            return []
        return [record for name in names if (record := self.get(name)) is not None]


class Users:
    """The users of a directory's records, read anew only when the directory has changed."""

    def __init__(self, records: JobRecords, clock: Callable[[], float] = time.monotonic) -> None:
        self._records, self._clock = records, clock
        self._uids: frozenset[int] = frozenset()
        self._changed_ns = -1  # the directory, by its own word, when it was read
        self._read_s = -FRESH_S

    def now(self, fresh: bool) -> frozenset[int]:
        if not fresh and self._clock() - self._read_s < FRESH_S:
            return self._uids
        try:
            changed_ns = self._records.directory.stat().st_mtime_ns
            # Two changes within a tick of the file system's clock have one time: what is that young is read again.
            if changed_ns != self._changed_ns or time.time_ns() - changed_ns < TICK_NS:
                self._uids = frozenset(record.uid for record in self._records.all())
                self._changed_ns = changed_ns
        except OSError as error:
            if not scarce(error):
                self._uids, self._changed_ns = frozenset(), -1
        self._read_s = self._clock()
        return self._uids
