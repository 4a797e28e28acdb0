"""A sandbox with accounting, for the tests that need one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fikit.sandbox import Sandbox, SandboxError

CANNOT_READ = "maxmimum allowed number of columns (=0)"  # so it says


@contextmanager
def running(own: Sandbox) -> Iterator[Sandbox]:
    """Started, and stopped at the end. Debian sid's slurmdbd 26.05.5 does not start with its MariaDB 11.8.9: skipped then."""
    try:
        own.start()
    except SandboxError as error:
        logs = Path(str(error).rpartition("logs are in ")[2])
        log = logs / "slurmdbd.log"
        if log.exists() and CANNOT_READ in log.read_text():
            shutil.rmtree(logs.parent)
            pytest.skip("this slurmdbd cannot read answers through this MariaDB client library")
        raise
    try:
        yield own
    finally:
        own.stop()
