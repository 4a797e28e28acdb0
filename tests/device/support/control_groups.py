"""Control groups of the test's own, where the machine lets it have some: version 1 or 2."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")


class Group:
    """One group. Files are named as in version 2 where the versions differ."""

    def __init__(self, path: Path, version: int) -> None:
        self.path, self.version = path, version

    def write(self, file: str, value: object) -> None:
        (self.path / file).write_text(str(value))

    def read(self, file: str) -> str:
        return (self.path / file).read_text().strip()

    def add(self, pid: int) -> None:
        self.write("cgroup.procs", pid)

    def freeze(self) -> None:
        self._set_frozen("FROZEN" if self.version == 1 else "1")

    def thaw(self) -> None:
        self._set_frozen("THAWED" if self.version == 1 else "0")

    def _set_frozen(self, state: str) -> None:
        if self.version == 1:
            self.write("freezer.state", state)
            while self.read("freezer.state") != state:
                time.sleep(0.001)
        else:
            self.write("cgroup.freeze", state)
            while f"frozen {state}" not in self.read("cgroup.events"):
                time.sleep(0.001)

    def limit_memory(self, limit_bytes: int) -> None:
        self.write("memory.limit_in_bytes" if self.version == 1 else "memory.max", limit_bytes)


@contextmanager
def control_group(controller: str, *pids: int) -> Iterator[Group]:
    """A group with these processes, which go back to where the test is afterwards; skips where there can be none."""
    one, name = ROOT / controller, f"fikit-test-{uuid.uuid4().hex[:8]}"
    version = 1 if one.is_dir() else 2
    path = (one if version == 1 else ROOT) / name
    if os.geteuid() != 0:
        pytest.skip("only root has control groups")
    try:
        if version == 2 and controller != "freezer":
            (ROOT / "cgroup.subtree_control").write_text(f"+{controller}")
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control groups for {controller} here: {error}")
    group = Group(path, version)
    try:
        for pid in pids:
            group.add(pid)
        yield group
    finally:
        if controller == "freezer":
            group.thaw()
        for pid in group.read("cgroup.procs").split():
            with suppress(OSError):
                (path.parent / "cgroup.procs").write_text(pid)
        for _ in range(500):  # who was killed leaves a moment later
            with suppress(OSError):
                path.rmdir()
                break
            time.sleep(0.01)
