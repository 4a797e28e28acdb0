"""A daemon in a thread of this process, with a fake core and a fake /proc, and what tests do with it."""

from __future__ import annotations

import ctypes
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from daemon_fakes import FakeClient, FakeCore, FakeProc
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.config.fikit_toml import Config
from fikitd.store.records import JobRecord

ME = os.getuid()


@dataclass
class Daemon:
    config: Config
    core: FakeCore
    proc: FakeProc
    control: Control

    @property
    def run_dir(self) -> str:
        return self.config.daemon.run_dir

    def job(self, job: str = "12", **facts: Any) -> None:
        """This process becomes part of Slurm job `job`, with a record."""
        JobRecord(**{"job": job, "uid": ME, "gid": os.getgid(), "priority": 1, **facts}).write(self.run_dir)
        self.proc.add(os.getpid(), uid=ME, cgroup=f"0::/system.slice/slurmstepd.scope/job_{job}/step_0\n")

    def client(self, **facts: Any) -> FakeClient:
        return FakeClient(self.run_dir).welcome(**facts)

    def stored(self, job: str = "12") -> dict[str, Any]:
        report = ReportStore(self.config.daemon.report_dir).load(job)
        assert report is not None
        return report


def as_nobody(function: Any) -> Any:
    """Run in a thread whose effective uid is nobody's: SO_PEERCRED tells the credentials of the connecting thread."""
    setresuid = {"x86_64": 117, "aarch64": 147}[platform.machine()]

    def work() -> Any:
        assert ctypes.CDLL(None).syscall(setresuid, 65534, 65534, 65534) == 0
        return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
