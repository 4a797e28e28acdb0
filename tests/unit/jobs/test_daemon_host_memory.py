"""The control socket on memory in host memory: why a job has none, told to its owner before its programs begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from daemon_in_thread import Daemon, as_nobody
from fikitd.api.client import ControlError

NOBODY = 65534
GIB = 2**30
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")


def test_a_job_that_has_none_is_told_why(daemon: Daemon) -> None:
    daemon.job(priority=8, mem_bytes=GIB, mem_host_bytes=GIB)
    assert daemon.control.no_host_memory("12").startswith("this site does not allow it")


def test_a_job_that_did_not_ask_is_told_nothing(daemon: Daemon) -> None:
    daemon.job(priority=8, mem_bytes=GIB)
    assert daemon.control.no_host_memory("12") == ""


@NEEDS_ROOT
def test_only_its_owner_hears_it(daemon: Daemon, tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    daemon.job("12", priority=8, mem_bytes=GIB, mem_host_bytes=GIB, uid=NOBODY)
    daemon.job("13", priority=8, mem_bytes=GIB, mem_host_bytes=GIB)
    assert as_nobody(lambda: daemon.control.no_host_memory("12"))
    for job in ("13", "14"):
        with pytest.raises(ControlError, match=f"job {job} is not running under this fikitd, or is not yours"):
            as_nobody(lambda job=job: daemon.control.no_host_memory(job))
