"""A fikitd of the run's own, whose policy changes while its clients live.

The run plays systemd's part: it keeps fikitd's descriptors and hands them to the next one, whose fikit.toml says another
policy (docs/admin.md, "Restart and upgrade"). The programs notice nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fikitd.api.client import Control, ControlError, DaemonUnreachable, wait_until_there
from fikitd.profiles.profile_store import ProfileStore

from bench.gpu import mps, processes
from bench.gpu.asking import CLIENT
from bench.gpu.fake_systemd import Systemd
from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.gpu.sharing import cores
from bench.record import BenchError

START_S = 10.0
COMMAND = [sys.executable, "-c", "from fikitd.entry import fikitd; fikitd()"]
SMALLER = (
    "import sys; from fikitd.config.fikit_toml import load; from fikitd.daemon.main import serve; "
    "sys.exit(serve(load(sys.argv[1]), gpu_memory_bytes=int(sys.argv[2])))"
)


class Service:
    def __init__(self, place: Place, *, mps_on: str = "", profiles: Path | None = None) -> None:
        """mps_on: UUID of a GPU; its programs share this GPU by fikitd's MPS servers. Empty: programs share in time slices.
        profiles: a directory of profiles that exists."""
        self.root = Path(tempfile.mkdtemp(prefix="fikit-", dir=place.directory))
        self.env = {**place.env, "FIKIT_CONFIG": str(self.root / "fikit.toml")}
        if mps_on:
            self.env["CUDA_VISIBLE_DEVICES"] = mps_on  # the GPU is certain, also where no pynvml is
        self.profiles = profiles or self.root / "profile"
        self._place, self._mps = place, bool(mps_on)
        self._holder: Program | None = None
        self.log = self.root / "fikitd.log"
        self.policy = ""
        self._memory_bytes = 0
        self._systemd = Systemd(self.root / "notify")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def pid(self) -> int | None:
        """fikitd's, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def use(self, policy: str) -> None:
        """From now on fikitd has this policy, and has counted of the programs what the one before it had. BenchError with its last words: it does
        not start."""
        runs = self._process is not None and self._process.poll() is None
        if policy == self.policy and runs:
            return
        before: dict[str, int] = {}
        if runs:
            with suppress(DaemonUnreachable, ControlError):
                before = self._counted()
        self._end()
        self._write_config(policy)
        self._process = self._systemd.start(self._command(), self.log)
        cores.pin("fikitd", self._process.pid)
        try:
            wait_until_there(self.run_dir, self._process, START_S)
            running = Control(self.run_dir).ping().split()[-1]
            self._wait_for_counts(before)
        except (DaemonUnreachable, ControlError) as error:
            raise BenchError(f"fikitd: {error}: {self._last_line()}") from error
        if running != policy:
            raise BenchError(f"fikitd has policy {running}, where it was told to have {policy}")
        self.policy = policy

    def _counted(self) -> dict[str, int]:
        """Kernels by job."""
        return {str(job["job"]): int(job["kernels"]) for job in Control(self.run_dir).jobs()}

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
            "run_dir": str(self.run_dir),
            "report_dir": str(self.root / "report"),
            "profile_dir": str(self.profiles),
        }
        lines = ["[daemon]", *(f"{key} = {json.dumps(value)}" for key, value in directories.items())]
        lines += [
            "idle_exit_s = 120",
            "unmanaged_s = 0",
            "[scheduler]",
            f'policy = "{policy}"',
            "[oversubscribe]",
            'allow = "no"' if self._mps else 'allow = "lower"',
            *(["[gpu]", 'mps = "multi-user"'] if self._mps else []),
            "",
        ]
        Path(self.env["FIKIT_CONFIG"]).write_text("\n".join(lines))

    def managed(self, command: list[str], *options: str) -> list[str]:
        """The command that runs `command` under this fikitd; `options` are `fikit run`'s."""
        return [sys.executable, "-m", "fikit", "run", *options, "--", *command]

    def report(self, pid: int) -> dict[str, Any] | None:
        """What fikitd says of the program that `fikit run` runs as process `pid`; None where it knows none."""
        with suppress(DaemonUnreachable, ControlError):
            for job in Control(self.run_dir).jobs():
                if str(job["job"]).startswith(f"run-{pid}-"):
                    return dict(job)
        return None

    def kernels(self, profile: str) -> list[dict[str, Any]]:
        """What is known of the kernels of the programs of this profile."""
        try:
            found = ProfileStore(self.profiles).load(os.getuid(), profile)
        except OSError as error:
            raise BenchError(f"there is no profile {profile}: {error}") from error
        if found is None:
            raise BenchError(f"there is no profile {profile}; fikitd said: {self._last_line()}")
        return list(found["kernels"])

    def wait_for_profile(self, profile: str, limit_s: float = 20.0) -> None:
        deadline = time.monotonic() + limit_s
        while profile not in ProfileStore(self.profiles).keys(os.getuid()):
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

    # --- what fikitd knows of the GPU

    def switch(self) -> dict[str, int] | None:
        """fikitd's measured switch of the GPU; count 0: an earlier fikitd measured it. None: unknown, or programs overlap (MPS)."""
        with suppress(DaemonUnreachable, ControlError):
            for gpu in Control(self.run_dir).node()["gpus"]:
                if found := gpu.get("switch"):
                    return {"ns": round(found["switch_us"] * 1e3), "count": int(found["samples"])}
        return None

    def keep_switch(self, limit_s: float) -> None:
        """Makes fikitd store the measured switch: fikitd does so when a client ends, so a short program runs."""
        moment = [sys.executable, "-IS", str(CLIENT), "join"]
        processes.run("a moment", self.managed(moment, "--priority", "low"), self.env, self._place.directory, limit_s)

    # --- MPS

    def begin_mps(self, limit_s: float = 20.0) -> float:
        """Starts fikitd's MPS server, which stays until `stop`; returns the seconds until it was there. BenchError: no server came."""
        begin = time.monotonic()
        command = self.managed(["sleep", "3600"], "--priority", "low")
        self._holder = Program("mps-holder", command, self.env, self._place.directory)
        while time.monotonic() - begin < limit_s:
            if any("MPS serves" in line for line in self.lines()):
                return time.monotonic() - begin
            if self._holder.process.poll() is not None:
                raise BenchError(f"fikitd's MPS did not begin: {self._holder.last_words()}")
            time.sleep(0.02)
        raise BenchError(f"fikitd's MPS did not begin within {limit_s:.0f} s: {self._last_line()}")

    def _mps_processes(self) -> list[int]:
        """The control daemons that fikitd has noted for its successor, and their servers."""
        found = []
        for note in (self.run_dir / "mps").glob("*.json"):
            with suppress(OSError, ValueError, KeyError):
                found += processes.family(int(json.loads(note.read_text())["pid"]))
        return [pid for pid in found if mps.is_mps(pid)]

    def stop(self) -> None:
        """Ends fikitd, and its MPS for certain."""
        if self._holder is not None:
            self._holder.kill()
            self._holder = None
        left = self._mps_processes()
        self._end()
        for pid in {*left, *self._mps_processes()}:
            if mps.is_mps(pid):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._systemd.stop()
