"""What jobs leave on a node that they should not: the one check that every test of a job's end uses."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fikit.sandbox.processes import Process, processes_of
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.store import own_directory, temporary
from fikitd.workers.retention import of_profiles

SERVICES = ("munged", "slurmctld", "slurmd", "fikitd")
WORKER = "fikitd.worker"  # a process of fikitd's own, which goes with it
RUN_DIR = {
    "jobs",
    "candidates",
    "ledger",
    "hooks",
    "users",
    "control.sock",
    "fikitd.sock",
    "fikitd.lock",
    "start.lock",
    "fikitd.log",
}
GONE_WITHIN_S = 20.0


def daemons(sandbox: Sandbox) -> list[Process]:
    """One fikitd, or for a moment two: the second of two prologs' leaves when it finds the first at work."""
    return [process for process in processes_of(sandbox.run_dir) if process.named("fikitd")]


def remains(sandbox: Sandbox, running: tuple[str, ...] = ()) -> list[str]:
    """One sentence for each thing that is still there of jobs that have ended; `running` are the jobs that have not."""
    return [sentence for look in (_processes, _files, _locks, _clients, _device) for sentence in look(sandbox, running)]


def nothing_remains(sandbox: Sandbox, *running: str) -> None:
    """Wait until nothing is left of jobs that have ended (an epilog may still be at work), or fail with what is."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := remains(sandbox, running):
        assert time.monotonic() < deadline, f"still there: {'; '.join(left)}"
        time.sleep(0.05)


def _processes(sandbox: Sandbox, running: tuple[str, ...]) -> Iterator[str]:
    """Programs of jobs, slurmstepds, prologs, clients; with a job running, only what is certainly no part of one."""
    for process in processes_of(sandbox.root):
        with suppress(OSError):
            words = [os.fsdecode(word) for word in Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")]
            known = process.named("fikitd") or WORKER in words or Path(words[0].partition(":")[0]).name in SERVICES
            if words != [""] and not known and not running:
                yield f"process {process.pid} ({' '.join(words).strip()})"


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _files(sandbox: Sandbox, running: tuple[str, ...]) -> Iterator[str]:
    for run_dir in sandbox.run_dirs.values():
        for name in ("jobs", "candidates", "ledger"):
            with suppress(FileNotFoundError):
                yield from (f"{name}/{left}" for left in _names(run_dir / name) if left not in running)
        yield from (f"run_dir/{left}" for left in _names(run_dir) if left not in RUN_DIR)
    for directory in (sandbox.report_dir, sandbox.profile_dir):
        goes = _removed_in_a_day(sandbox)
        hidden = (path for path in directory.rglob(".*") if path.is_file())
        yield from (str(path) for path in hidden if path not in goes or not _writer_was_killed(sandbox, path))


def _removed_in_a_day(sandbox: Sandbox) -> set[Path]:
    """Temporary files that fikitd will remove, were they old enough."""
    found: set[Path] = set()
    with suppress(FileNotFoundError):
        for uid, directory in own_directory.everybodys(sandbox.report_dir):
            found.update(Path(entry.path) for entry in temporary.of_user(directory, uid))
    with suppress(FileNotFoundError):
        for uid in {uid for uid, _ in own_directory.everybodys(sandbox.profile_dir)}:
            for directory in of_profiles(sandbox.profile_dir, uid):
                found.update(Path(entry.path) for entry in temporary.of_user(directory, uid))
    return found


def _writer_was_killed(sandbox: Sandbox, left: Path) -> bool:
    """A worker dies with the fikitd that a test kills, perhaps in the middle of a file: it is older than every fikitd that is there now."""
    with suppress(OSError):
        written = left.stat().st_mtime
        return all(Path(f"/proc/{daemon.pid}").stat().st_ctime > written for daemon in daemons(sandbox))
    return True


def _locks(sandbox: Sandbox, _running: tuple[str, ...]) -> Iterator[str]:
    for run_dir in sandbox.run_dirs.values():
        with suppress(FileNotFoundError), (run_dir / "start.lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield "the lock of the prolog that starts fikitd"


def _clients(sandbox: Sandbox, running: tuple[str, ...]) -> Iterator[str]:
    """In fikitd: jobs, and descriptors of pages. Without a fikitd there are none."""
    try:
        yield from (
            f"job {job['job']} in fikitd" for job in Control(sandbox.run_dir).jobs() if job["job"] not in running
        )
    except DaemonUnreachable:
        return
    for daemon in daemons(sandbox):
        if not running and (pages := descriptors(daemon, "/memfd:")):
            yield f"descriptors of {len(pages)} pages in fikitd"


def descriptors(process: Process, begin: str = "") -> list[str]:
    """What the process has open, as far as the kernel's name for it begins so."""
    found = []
    for path in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):
            found.append(str(path.readlink()))
    return [name for name in found if name.startswith(begin)]


def _device(sandbox: Sandbox, running: tuple[str, ...]) -> Iterator[str]:
    """On the emulated GPUs: contexts of processes, and their memory."""
    if running:
        return
    emuctl = sandbox.root / "native" / "bin" / "emuctl"
    for env in sandbox.emulated:
        shown = subprocess.run([emuctl, "stats", "--json"], env=env, capture_output=True, text=True, check=False)
        for device in json.loads(shown.stdout)["devices"] if shown.returncode == 0 else []:
            alive = [process["pid"] for process in device["processes"] if process["alive"]]
            yield from (f"process {pid} on the {device['name']}" for pid in alive)
            if (used := device["memory_used_bytes"]) and not alive:
                yield f"{used} bytes on the {device['name']}"
