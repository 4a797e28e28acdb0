"""Runs the workloads as programs, bare or under a fikitd of this bench's own, and reads what fikit said of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fikitd.client import Control, DaemonUnreachable
from fikitd.reports import ReportStore

from bench.record import BenchError
from fikitd import paths

SCRIPT = Path(__file__).with_name("workload.py")
START_S = 120.0  # imports, model, compilation, warm-up
END_S = 60.0


@dataclass(frozen=True)
class Managed:
    """How a program runs under fikit."""

    priority: str = "normal"
    measure: bool = False


@dataclass(frozen=True)
class Outcome:
    """One run. `report`: fikit's record of it, None for a bare run."""

    began_ns: int
    ended_ns: int
    requests_ns: list[int]
    launches: int | None
    report: dict[str, Any] | None

    @property
    def span_ns(self) -> int:
        return self.ended_ns - self.began_ns


class Site:
    """Directories, a configuration and, with the first managed program, a fikitd."""

    def __init__(self, root: Path, emulated: bool, scheduler: dict[str, Any]) -> None:
        self.root, self.emulated = root, emulated
        keys = {name: json.dumps(str(root / name.removesuffix("_dir"))) for name in ("run_dir", "report_dir")}
        keys["profile_dir"] = json.dumps(str(root.parent / "profiles"))  # what one policy's run measured, all may use
        text = ["[daemon]", *(f"{key} = {value}" for key, value in keys.items()), "[scheduler]"]
        text += [f"{key} = {json.dumps(value)}" for key, value in scheduler.items()]
        config = root / "fikit.toml"
        config.write_text("\n".join(text) + "\n")
        self.env = {**os.environ, "FIKIT_CONFIG": str(config)}
        if emulated:
            self.env["EMUCUDA_NAME"] = f"bench-gpu-{os.getpid()}"

    def start(self, name: str, managed: Managed | None, *arguments: str) -> Program:
        return Program(self, name, managed, arguments)

    def stop(self) -> None:
        with suppress(DaemonUnreachable):
            Control(self.root / "run").shutdown()
        if self.emulated:
            subprocess.run([paths.emuctl(), "reset"], env=self.env, capture_output=True, check=False)

    def reports(self) -> list[dict[str, Any]]:
        return ReportStore(self.root / "report").list()


@contextmanager
def site(directory: Path, emulated: bool, **scheduler: Any) -> Iterator[Site]:
    """A place with a fikitd of this configuration; nothing of it keeps running."""
    made = Site(Path(tempfile.mkdtemp(dir=directory)), emulated, scheduler)
    try:
        yield made
    finally:
        made.stop()


class Program:
    """A workload that was started; it waits before its first request until it is told to go."""

    def __init__(self, place: Site, name: str, managed: Managed | None, arguments: tuple[str, ...]) -> None:
        self.name, self.place, self.managed = name, place, managed
        environment = dict(place.env)
        command = [sys.executable, str(SCRIPT), name, *arguments]
        if managed is not None:
            how = ["--priority", managed.priority, *(["--measure"] if managed.measure else [])]
            how += ["--profile", name, *(["--emulated"] if place.emulated else [])]
            command = [sys.executable, "-m", "fikit", "run", *how, "--", *command]
        elif place.emulated:
            environment["LD_LIBRARY_PATH"] = str(paths.emulator_dir())
        self.errors = Path(tempfile.mkstemp(dir=place.root, prefix=f"{name}-", suffix=".err")[1])
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def wait_ready(self) -> None:
        """Returns when it stands before its first request; BenchError with its last words when it ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise BenchError(self._last_words())

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self) -> Outcome:
        """Ends a program that runs until told, waits for any other."""
        try:
            out, _ = self.process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchError(f"{self.name} did not end within {END_S:.0f} s") from None
        if self.process.returncode != 0:
            raise BenchError(self._last_words())
        fields = json.loads(out.strip().splitlines()[-1])
        return Outcome(**fields, report=self._report())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _report(self) -> dict[str, Any] | None:
        if self.managed is None:
            return None
        own = f"run-{self.process.pid}-"
        found = [report for report in self.place.reports() if str(report["job"]).startswith(own)]
        if not found:
            raise BenchError(f"{self.name} ran unmanaged: {self._last_words()}")
        return found[-1]

    def _last_words(self) -> str:
        lines = [line for line in self.errors.read_text().splitlines() if line.strip()]
        return f"{self.name}: {lines[-1] if lines else 'it ended without a word'}"


def run(place: Site, name: str, managed: Managed | None, *arguments: str) -> Outcome:
    """One program alone, from its start to its end."""
    program = place.start(name, managed, *arguments)
    try:
        program.wait_ready()
        program.go()
        return program.finish()
    except BaseException:
        program.kill()
        raise
