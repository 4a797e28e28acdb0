"""A fikitd of the run's own, whose policy changes while its clients live.

The run plays systemd's part: it keeps fikitd's descriptors and hands them to the next one, whose fikit.toml says another
policy (docs/admin.md, "Restart and upgrade"). The programs notice nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fikitd.api.client import Control, ControlError, DaemonUnreachable, wait_until_there
from fikitd.profiles.profile_store import ProfileStore

from bench.gpu.fake_systemd import Systemd
from bench.gpu.place import Place
from bench.record import BenchError

START_S = 10.0
COMMAND = [sys.executable, "-c", "from fikitd.entry import fikitd; fikitd()"]
SMALLER = (
    "import sys; from fikitd.config.fikit_toml import load; from fikitd.daemon.main import serve; "
    "sys.exit(serve(load(sys.argv[1]), gpu_memory_bytes=int(sys.argv[2])))"
)


class Service:
    def __init__(self, place: Place) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fikit-", dir=place.directory))
        self.env = {**place.env, "FIKIT_CONFIG": str(self.root / "fikit.toml")}
        self.log = self.root / "fikitd.log"
        self.policy = ""
        self._spins = True
        self._memory_bytes = 0
        self._systemd = Systemd(self.root / "notify")
        self._process: subprocess.Popen[bytes] | None = None

    def use(self, policy: str, *, spins: bool = True) -> None:
        """From now on fikitd has this policy, and has counted of the programs what the one before it had; BenchError with its last words when it does
        not start. spins: as its configuration has it by default; else its threads only sleep."""
        runs = self._process is not None and self._process.poll() is None
        if (policy, spins) == (self.policy, self._spins) and runs:
            return
        before: dict[str, int] = {}
        if runs:
            with suppress(DaemonUnreachable, ControlError):
                before = self._counted()
        self._end()
        self._spins = spins
        self._write_config(policy)
        self._process = self._systemd.start(self._command(), self.log)
        try:
            wait_until_there(self.root / "run", self._process, START_S)
            running = Control(self.root / "run").ping().split()[-1]
            self._wait_for_counts(before)
        except (DaemonUnreachable, ControlError) as error:
            raise BenchError(f"fikitd: {error}: {self._last_line()}") from error
        if running != policy:
            raise BenchError(f"fikitd has policy {running}, where it was told to have {policy}")
        self.policy = policy

    def _counted(self) -> dict[str, int]:
        """Kernels by job."""
        return {str(job["job"]): int(job["kernels"]) for job in Control(self.root / "run").jobs()}

    def _wait_for_counts(self, before: dict[str, int]) -> None:
        """A fikitd that was started anew first reads what its programs did under the one before it: what is counted until then is no cell's."""
        deadline = time.monotonic() + START_S
        while any(kernels < before.get(job, 0) for job, kernels in self._counted().items()):
            if time.monotonic() > deadline:
                raise BenchError(f"fikitd does not go on with its programs: {self._last_line()}")
            time.sleep(0.01)

    def take_gpu_for(self, memory_bytes: int) -> None:
        """From its next start on fikitd takes the GPU for one with so much memory: what more a program has leaves it by a plan, and the GPU itself is
        never full."""
        self._end()
        self._memory_bytes = memory_bytes

    def _command(self) -> list[str]:
        if self._memory_bytes:
            return [sys.executable, "-c", SMALLER, self.env["FIKIT_CONFIG"], str(self._memory_bytes)]
        return [*COMMAND, "--config", self.env["FIKIT_CONFIG"]]

    def _write_config(self, policy: str) -> None:
        directories = {
            key: str(self.root / key.removesuffix("_dir")) for key in ("run_dir", "report_dir", "profile_dir")
        }
        lines = ["[daemon]", *(f"{key} = {json.dumps(value)}" for key, value in directories.items())]
        lines += [
            "idle_exit_s = 120",
            "unmanaged_s = 0",
            "[scheduler]",
            f'policy = "{policy}"',
            *([] if self._spins else ["spin_us = 0"]),
            "[oversubscribe]",
            'allow = "lower"',
            "",
        ]
        Path(self.env["FIKIT_CONFIG"]).write_text("\n".join(lines))

    def managed(self, command: list[str], *options: str) -> list[str]:
        """The command that runs `command` under this fikitd; `options` are `fikit run`'s."""
        return [sys.executable, "-m", "fikit", "run", *options, "--", *command]

    def report(self, pid: int) -> dict[str, Any] | None:
        """What fikitd says of the program that `fikit run` runs as process `pid`; None where it knows none."""
        with suppress(DaemonUnreachable, ControlError):
            for job in Control(self.root / "run").jobs():
                if str(job["job"]).startswith(f"run-{pid}-"):
                    return dict(job)
        return None

    def kernels(self, profile: str) -> list[dict[str, Any]]:
        """What is known of the kernels of the programs of this profile."""
        try:
            found = ProfileStore(self.root / "profile").load(os.getuid(), profile)
        except OSError as error:
            raise BenchError(f"there is no profile {profile}: {error}") from error
        if found is None:
            raise BenchError(f"there is no profile {profile}; fikitd said: {self._last_line()}")
        return list(found["kernels"])

    def wait_for_profile(self, profile: str, limit_s: float = 20.0) -> None:
        deadline = time.monotonic() + limit_s
        while profile not in ProfileStore(self.root / "profile").keys(os.getuid()):
            if time.monotonic() > deadline:
                raise BenchError(f"no profile {profile} was stored; fikitd said: {self._last_line()}")
            time.sleep(0.02)

    def lines(self) -> list[str]:
        """What it has logged."""
        with suppress(OSError):
            return self.log.read_text(errors="replace").splitlines()
        return []

    def _last_line(self) -> str:
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
            if lines:
                return lines[-1][-400:]
        return "nothing"

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def stop(self) -> None:
        self._end()
        self._systemd.stop()
