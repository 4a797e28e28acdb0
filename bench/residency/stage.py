"""Where live programs of this bench run: an emulated GPU, a real fikitd, jobs with a record each. Everything ends with its `with`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fikitd.api.client import Control, wait_until_there
from fikitd.store.records import JobRecord

from bench.record import BenchError
from fikitd import paths

START: Final = "from fikitd.daemon.main import main; main()"


@contextmanager
def device(root: Path, model: str) -> Iterator[Mapping[str, str]]:
    """An emulated GPU by the text of its model file; what its programs have in their environment."""
    config = root / "gpu.toml"
    config.write_text(model)
    environment = {
        **os.environ, "EMUCUDA_NAME": f"bench-{os.getpid()}", "EMUCUDA_CONFIG": str(config),
        "LD_LIBRARY_PATH": str(paths.emulator_dir()),
    }  # fmt: skip
    try:
        yield environment
    finally:
        subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


@contextmanager
def fikitd(
    root: Path, left_out: str, epoch_s: int, environment: Mapping[str, str], profiles: Path | None = None
) -> Iterator[Path]:
    """Its log. left_out: Python that runs in it first, which leaves out what somebody else would not have. profiles: where, if not below root."""
    config, log = root / "fikit.toml", root / "fikitd.log"
    where = {"run_dir": root / "run_dir", "report_dir": root / "report_dir", "profile_dir": profiles or root / "profile_dir"}  # fmt: skip
    places = "".join(f'{key} = "{path}"\n' for key, path in where.items())
    config.write_text(
        f'[daemon]\n{places}[scheduler]\npolicy = "budget"\n[oversubscribe]\nallow = "lower"\nepoch_s = {epoch_s}\n'
    )
    command = [sys.executable, "-c", left_out + START, "--config", str(config)]
    with log.open("ab") as out, subprocess.Popen(command, stderr=out, env=dict(environment)) as process:
        try:
            wait_until_there(root / "run_dir", process, 20.0)
            yield log
        finally:
            process.terminate()


@dataclass(frozen=True)
class Job:
    """A program that runs, with its pipes."""

    name: str
    process: subprocess.Popen[str]
    control: Control
    environment: Mapping[str, str]

    def line(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise BenchError(f"a job ended without a word: {self.process.stderr.read() if self.process.stderr else ''}")
        return line

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def memory(self) -> dict[str, Any]:
        """What fikitd says of its memory."""
        found: dict[str, Any] = self.control.job(self.name)["memory"]
        return found

    def on_device(self) -> dict[str, Any]:
        """The device's own record of it."""
        asked = (paths.emuctl(), "stats", "--json")
        out = subprocess.run(asked, env=dict(self.environment), capture_output=True, text=True, check=True).stdout
        processes = (each for device in json.loads(out)["devices"] for each in device["processes"])
        return next(each for each in processes if each["pid"] == self.process.pid)


@contextmanager
def job(root: Path, name: str, program: Sequence[str], environment: Mapping[str, str], **record: Any) -> Iterator[Job]:
    """A program that begins once its record is there. record: what else the record has."""
    run_dir = root / "run_dir"
    under = {**environment, "LD_PRELOAD": str(paths.shim()), "FIKIT_SOCKET": str(run_dir / "fikitd.sock")}
    command = ["/bin/sh", "-c", 'read go && exec "$@"', "sh", sys.executable, *program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=under, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            JobRecord(job=name, uid=os.getuid(), gid=os.getgid(), pid=process.pid, **record).write(run_dir)
            found = Job(name, process, Control(run_dir), environment)
            found.say("go")
            yield found
        finally:
            process.kill()
