"""`python -m bench.gpu.second.slurm_jobs SETTINGS.json`: jobs under a Slurm of their own, as the part `slurm` starts it.

Settings are the fields of `Settings`. All that is known so far is in the file `found` at any time.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportError, ReportStore

from bench.gpu.sharing import measures
from bench.record import BenchError

Found = dict[str, Any]
KEPT = ("device_mode", "warnings", "kernels", "gpu_time_s", "elapsed_s", "waited_s", "delayed_s", "slowdown", "state")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
LONG_NS, LONG_BLOCKS = 300_000_000, 16  # a kernel that scancel meets
COMMAND_S, MPS_S, START_S, END_S, REPORT_S = 8.0, 10.0, 8.0, 8.0, 2.0
STAYS_S = 2.5  # the low program after its error, as one that reads the error; the high one ends at once
LOADED_S = 30.0  # a framework is imported


@dataclass(frozen=True)
class Settings:
    found: str  # the file with the results
    programs: str  # the copy of the checkout's programs
    python: str  # the Python of the jobs
    libraries: str  # of Slurm's programs: jobs go without
    slurm_lines: list[str]
    gpu_memory_gib: int
    real: bool
    high: str
    low: str
    device: str
    quick: bool


class Jobs:
    """The experiment in a sandbox that runs."""

    def __init__(self, settings: Settings, sandbox: Sandbox, found: Found, write: Callable[[], None]) -> None:
        self.settings, self.sandbox, self.found, self.write = settings, sandbox, found, write
        self.work = sandbox.root / "work"
        self.work.mkdir()
        self.work.chmod(0o1777)
        self.users = _users()
        self.jobs: dict[str, Found] = found.setdefault("jobs", {})
        self.marks: dict[str, int] = {}
        kept = ("PATH", "LANG", "SLURM_CONF", "LD_LIBRARY_PATH")
        self.env = {name: value for name, value in sandbox.env.items() if name in kept or name.startswith("EMUCUDA_")}

    def run(self) -> None:
        pause_s = 0.4 if self.settings.quick else 2.0
        with self._stage("mps"):
            self.found["told"] = self._until(self._told, MPS_S, "no step was told to join MPS")
        with self._stage("high and low"):
            self._submit("high", 0, self._requests("high", self.settings.high), "--fikit-priority=high")
            self._submit("low", 1, self._requests("low", self.settings.low), "--fikit-priority=low")
            for name in ("high", "low"):
                self._until((self.work / f"{name}.json.ready").exists, LOADED_S, f"{name} did not get ready")
        with self._stage("scancel in a kernel"):
            spin = self._client("spin", LONG_NS, LONG_BLOCKS, 60)
            self._submit("cancelled", 1, spin, "--fikit-priority=low", "--fikit-mem=2G")
            self._until(lambda: "cuInit" in self._output("cancelled"), START_S, "cancelled did not begin")
            time.sleep(0.5)
            begin = time.monotonic()
            self._command("scancel", self.jobs["cancelled"]["job"])
            self._wait_for_end("cancelled")
            self.found["cancel_s"] = round(time.monotonic() - begin, 2)
        with self._stage("alone and beside"):
            self._go("high", "alone", pause_s)
            self._go("low", "beside", 1.5 * pause_s)
        with self._stage("trap"):
            self._mark("before_trap")
            trap = self._client("trap")
            self._submit("trap", 1, trap, "--fikit-priority=low", "--fikit-mem=2G", **self._emulated_trap())
            self._wait_for_end("trap")
            self._mark("after_trap")
            time.sleep(pause_s)
        with self._stage("end"):
            self._mark("end")
            for name in ("high", "low"):
                (self.work / f"{name}.json.stop").touch()
            for name in self.jobs:
                self._wait_for_end(name)

    def look(self) -> None:
        """What became of each job, and what the reports say of the trap."""
        store = ReportStore(self.sandbox.report_dir)
        for name, job in self.jobs.items():
            fields = self._fields(name)
            job |= {"state": fields.get("JobState"), "exit_code": fields.get("ExitCode")}
            job["output"] = self._output(name)[-1500:]
            with suppress(ReportError, BenchError):
                report = self._until(partial(store.load, job["job"], job["uid"]), REPORT_S, "no report")
                job["report"] = {key: report[key] for key in KEPT if key in report}
            self._read_requests(name, job)
            self.write()
        numbers = {job["job"]: name for name, job in self.jobs.items()}
        self.found["blamed"] = {
            name: [numbers[word] for text in _of_fault(job) for word in re.findall(r"\d+", text) if word in numbers]
            for name, job in self.jobs.items()
        }
        self.found["marks"] = self.marks
        with suppress(OSError):
            lines = (self.sandbox.run_dir / "fikitd.log").read_text(errors="replace").splitlines()
            self.found["fikitd"] = [line[-300:] for line in lines[-40:]]

    def _read_requests(self, name: str, job: Found) -> None:
        try:
            said = json.loads((self.work / f"{name}.json").read_text())
        except (OSError, ValueError):
            return
        job["error"] = said["error"]
        for first, last in (("alone", "beside"), ("beside", "before_trap"), ("after_trap", "end")):
            if first in self.marks and last in self.marks:
                since, until = self.marks[first], self.marks[last]
                took = [end - begin for begin, end in said["requests"] if since <= begin and end <= until]
                job[first] = measures.summary(took) if took else {"requests": 0}
                job[first].pop("took_us", None)

    # --- words of Slurm

    def _submit(self, name: str, user: int, argv: list[str], *options: str, **env: str) -> None:
        who = self.users[user]
        script = self.work / f"{name}.sh"
        without = f'LD_LIBRARY_PATH=$(printf %s "$LD_LIBRARY_PATH" | sed "s#{self.settings.libraries}:\\{{0,1\\}}##g")'
        script.write_text(f"#!/bin/sh\n{without}; export LD_LIBRARY_PATH\nexec {' '.join(argv)}\n")
        script.chmod(0o755)
        home = self.work / f"home-{who.pw_uid}"
        home.mkdir(exist_ok=True)
        os.chown(home, who.pw_uid, who.pw_gid)
        command = ["sbatch", "--parsable", f"--job-name={name}", f"--output={self.work}/{name}.out", "--gres=gpu:1"]
        number = self._command(*command, *options, str(script), user=who, HOME=str(home), **env)
        self.jobs[name] = {"job": number.split(";")[0].strip(), "uid": who.pw_uid}
        self.write()

    def _command(self, *words: str, user: pwd.struct_passwd | None = None, **env: str) -> str:
        who: Found = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        try:
            done = subprocess.run(
                words, env={**self.env, **env}, cwd=self.work, capture_output=True, text=True, timeout=COMMAND_S,
                check=False, **who,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BenchError(f"{words[0]} took longer than {COMMAND_S:.0f} s") from None
        if done.returncode != 0:
            raise BenchError(f"{words[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout

    def _told(self) -> list[str]:
        """What a step has of MPS in its environment; empty while fikitd has none yet."""
        show = "env | grep ^CUDA_MPS | sort"
        said = self._command("srun", "--gres=gpu:1", "--fikit-priority=high", "sh", "-c", f"{show}; true")
        return [line for line in said.splitlines() if line.startswith("CUDA_MPS")]

    def _fields(self, name: str) -> dict[str, str]:
        with suppress(BenchError):
            words = self._command("scontrol", "show", "job", "-o", self.jobs[name]["job"]).split()
            return dict(word.split("=", 1) for word in words if "=" in word)
        return {}

    def _wait_for_end(self, name: str) -> None:
        self._until(lambda: self._fields(name).get("JobState") in ENDED, END_S, f"{name} did not end")

    # --- programs

    def _requests(self, name: str, program: str) -> list[str]:
        script = str(Path(self.settings.programs) / "slurm_job.py")
        stays_s = STAYS_S if name == "low" else 0
        file = str(self.work / f"{name}.json")
        return [self.settings.python, script, program, self.settings.device, file, str(stays_s)]

    def _client(self, *words: object) -> list[str]:
        script = str(Path(self.settings.programs) / "bench/gpu/mps_client.py")
        silent = self.work / "silent"  # standard input without a line or an end: either of them ends the program
        if not silent.exists():
            os.mkfifo(silent)
            silent.chmod(0o666)
        return [self.settings.python, "-IS", script, *map(str, words), f"<>{silent}"]

    def _emulated_trap(self) -> dict[str, str]:
        """The emulated GPU does not run PTX: a rule gives the kernel its fault (CUDA_ERROR_LAUNCH_FAILED)."""
        return {} if self.settings.real else {"EMUCUDA_FAULTS": "kernel=fikit_trap error=719"}

    def _go(self, name: str, mark: str, seconds: float) -> None:
        self._mark(mark)
        (self.work / f"{name}.json.go").touch()
        time.sleep(seconds)

    def _output(self, name: str) -> str:
        with suppress(OSError):
            return (self.work / f"{name}.out").read_text(errors="replace")
        return ""

    def _mark(self, name: str) -> None:
        self.marks[name] = time.monotonic_ns()

    def _until(self, done: Callable[[], Any], limit_s: float, problem: str) -> Any:
        """The first true value of `done()`. Raises BenchError after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while not (value := done()):
            if time.monotonic() > deadline:
                raise BenchError(f"{problem} within {limit_s:.0f} s")
            time.sleep(0.05)
        return value

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """A stage that fails is an error of its own, and the next one begins."""
        begin = time.monotonic()
        entry: Found = {}
        try:
            yield
        except (BenchError, OSError, KeyError) as error:
            entry["error"] = str(error)
        self.found.setdefault("stages", {})[name] = {**entry, "took_s": round(time.monotonic() - begin, 2)}
        self.write()


def _of_fault(job: Found) -> list[str]:
    return [text for text in job.get("report", {}).get("warnings", []) if "fault" in text]


def _tails(logs: Path) -> dict[str, list[str]]:
    """The last lines of Slurm's daemons."""
    found = {}
    for path in logs.glob("*"):
        with suppress(OSError):
            found[path.name] = [line[-300:] for line in path.read_text(errors="replace").splitlines()[-8:]]
    return found


def _users() -> list[pwd.struct_passwd]:
    """Two users of this machine, those with logins first."""
    known = [user for user in pwd.getpwall() if user.pw_uid != 0]
    known.sort(key=lambda user: (not 1000 <= user.pw_uid < 60000, user.pw_uid))
    if len(known) < 2:
        raise BenchError("this machine has fewer than two users beside root")
    return known[:2]


def main() -> None:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    found: Found = {}

    def write() -> None:
        unfinished = Path(f"{settings.found}.tmp")
        unfinished.write_text(json.dumps(found))
        unfinished.rename(settings.found)

    sandbox = Sandbox(
        gpus=1, gpu_memory=f"{settings.gpu_memory_gib}GiB", real_gpu=settings.real, slurm_lines=settings.slurm_lines
    )
    sandbox.gpu["mps"] = "multi-user"
    begin = time.monotonic()

    def on_step(step: str) -> None:
        found["root"] = str(sandbox.root)
        found.setdefault("start", {})[step] = round(time.monotonic() - begin, 2)
        write()

    try:
        sandbox.start(on_step)
        found["start"]["ready"] = round(time.monotonic() - begin, 2)
        jobs = Jobs(settings, sandbox, found, write)
        try:
            jobs.run()
        finally:
            jobs.look()
    except Exception as error:  # the part says it
        found["error"] = f"{error}" if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        found["logs"] = _tails(Path(found.get("root", "")) / "log")
    finally:
        write()
        sandbox.stop()


if __name__ == "__main__":
    main()
