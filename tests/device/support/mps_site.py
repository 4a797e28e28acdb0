"""A fikitd that runs MPS on the emulated GPU, and programs that are its jobs, told to join as the SPANK plugin tells a step's tasks."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daemon_process import Fikitd, eventually
from emulator_tools import Partner, stats
from fikitd.mps.control import began
from fikitd.mps.programs import PROGRAM
from fikitd.store.records import JobRecord

from fikitd import paths

# Takes NAME=VALUE lines from standard input up to an empty one, and becomes the program.
WITH_ENVIRONMENT = 'while read -r said && [ -n "$said" ]; do export "$said"; done; exec "$@"'


class MpsSite:
    def __init__(
        self, root: Path, native: Path, program: Path, env: dict[str, str], *, clients: int = 48, driver: str = ""
    ) -> None:
        """`driver`: whose control daemon it is (EMUCUDA_MPS_DRIVER); several users' at a time without."""
        self.native, self.program = native, program
        tools = of_driver(root, native, driver) if driver else native / "emulator"
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.device = {**env, "PATH": path}
        self.daemon = Fikitd(root, "fifo")
        self.daemon.config.write_text(
            f'{self.daemon.config.read_text()}[gpu]\nmps = "multi-user"\nmps_clients = {clients}\n'
        )
        self.pipes = self.daemon.run_dir / "mps"
        self.uuid = stats(native, env)[0]["uuid"] if stats(native, env) else ""
        self.programs: list[subprocess.Popen[str]] = []
        self._numbers = itertools.count(1)

    def start(self, **env: str) -> None:
        self.daemon.start({**self.device, **env})

    def job(
        self, *arguments: object, env: dict[str, str] | None = None, speaks: bool = True, **facts: Any
    ) -> tuple[str, Partner]:
        """A job with one program, which is told what fikitd says that its programs are to be told. It has said its first word."""
        job = str(next(self._numbers))
        shim = {"LD_PRELOAD": str(paths.shim()), "FIKIT_SOCKET": str(self.daemon.run_dir / "fikitd.sock")}
        process = Partner(
            ["/bin/sh", "-c", WITH_ENVIRONMENT, "sh", str(self.program), *map(str, arguments)],
            env={**self.device, **shim, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.programs.append(process)
        me = {"uid": os.getuid(), "gid": os.getgid()}
        JobRecord(
            **{"job": job, **me, "priority": 5, "pid": process.pid, "pid_start": began(process.pid), **facts}
        ).write(self.daemon.run_dir)
        own = facts.get("measure") or (env and "CUDA_MPS_PIPE_DIRECTORY" in env)
        said = {} if own else self.told(job)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{name}={value}\n" for name, value in said.items()) + "\n")
        process.stdin.flush()
        process.first_word = process.stdout.readline().strip() if speaks else ""
        return job, process

    def told(self, job: str) -> dict[str, str]:
        """What its programs are to be told, once its server is there; nothing where there is to be none."""
        if not self.pipes.exists():
            return {}
        return eventually(lambda: self.daemon.control.mps(job), 15.0)

    def beats(self, **facts: Any) -> tuple[str, Partner]:
        """A job whose program has launched its first kernel and goes on."""
        job, process = self.job("beat", 1000, **facts)
        assert process.first_word == "running", process.communicate(timeout=10)[1]
        return job, process

    def report(self, job: str) -> dict[str, Any]:
        return self.daemon.control.job(job)

    def in_mps(self, pid: int) -> bool:
        """Whether the emulated driver has the program for a client of MPS."""
        return any(
            p["mps"] for device in stats(self.native, self.device) for p in device["processes"] if p["pid"] == pid
        )

    def states(self) -> list[Path]:
        """Notes of control daemons."""
        return sorted(self.pipes.glob("*.json"))

    def server(self) -> int:
        """The pid of the one MPS server."""
        (said,) = self.pipes.glob("*/emulated_server")
        return int(said.read_text().split()[0])

    def control(self) -> int:
        """The pid of the one control daemon."""
        (said,) = self.pipes.glob("*/nvidia-cuda-mps-control.pid")
        return int(said.read_text())

    def faults(self, text: str) -> None:
        """From now on the control daemon does what is said there (emulator/mps_control)."""
        (logs,) = self.pipes.glob("*.log")
        (logs / "emulated_faults").write_text(text)

    def end_job(self, job: str) -> None:
        """As an epilog does."""
        self.daemon.control.end(job)
        (self.daemon.run_dir / "jobs" / job).unlink()

    def ended(self) -> bool:
        """Nothing of MPS is left."""
        return not self.states() and not list(self.pipes.glob("*/control"))

    def close(self) -> None:
        for program in self.programs:
            program.kill()
            program.communicate()
        for record in (self.daemon.run_dir / "jobs").iterdir():
            record.unlink()
        pids = [int(f.read_text()) for f in self.pipes.glob("*/*.pid")]
        pids += [int(f.read_text().split()[0]) for f in self.pipes.glob("*/emulated_server")]
        assert self.daemon.process is not None
        if self.daemon.process.poll() is None:
            assert self.daemon.stop() == 0, self.daemon.log.read_text()
        assert "Traceback" not in self.daemon.log.read_text(), self.daemon.log.read_text()
        left = [pid for pid in pids if began(pid)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left, self.daemon.log.read_text()


def of_driver(root: Path, native: Path, driver: str) -> Path:
    """The directory of a control daemon whose program has no word of an option that the driver does not know."""
    made = root / "tools"
    made.mkdir()
    program = made / PROGRAM
    program.write_text(f'#!/bin/sh\nEMUCUDA_MPS_DRIVER={driver} exec {native}/emulator/{PROGRAM} "$@"\n')
    program.chmod(0o755)
    return made


@contextmanager
def mps_site(native: Path, program: Path, env: dict[str, str], **options: Any) -> Iterator[MpsSite]:
    """Nothing of it is left when the test is over."""
    with tempfile.TemporaryDirectory(
        prefix="mps-", dir="/tmp"
    ) as root:  # pytest's own are too long for sockets in them
        site = MpsSite(Path(root), native, program, env, **options)
        yield site
        site.close()


__all__ = ["MpsSite", "eventually", "mps_site"]
