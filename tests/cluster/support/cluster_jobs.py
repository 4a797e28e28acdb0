"""The few words with which tests submit jobs to a throw-away Slurm, and read what became of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fikit.sandbox.sandbox import Sandbox
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.api.reports import ReportStore
from fikitd.config.fikit_toml import SchedulerConfig

JOB_TIMEOUT_S = 30.0
ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING"}


@dataclass(frozen=True)
class Probe:
    """What a job saw of itself: its record (empty = none), its environment, all of its output."""

    record: dict[str, str]
    env: dict[str, str]
    output: str

    @property
    def shards(self) -> int:
        return int(self.env.get("SLURM_SHARDS_ON_NODE", "0"))


class Cluster:
    """Submits to the sandbox. A job's script is `probe` unless a test brings its own."""

    def __init__(self, sandbox: Sandbox, directory: Path) -> None:
        self.sandbox = sandbox
        self.directory = directory
        # A real cluster's users have no FIKIT_CONFIG; here it would be exported into every job.
        self.env = {name: value for name, value in sandbox.env.items() if name != "FIKIT_CONFIG"}
        self.probe = self.script(
            "probe", f'echo BEGIN; cat {sandbox.run_dir}/jobs/"$SLURM_JOB_ID" 2>/dev/null; echo ENV; env; echo END'
        )

    @contextmanager
    def new_fikitd(self, **keys: int | str) -> Iterator[None]:
        """One that has said nothing yet, meanwhile with these keys in fikit.toml's [daemon]; another one afterwards."""
        usual = SchedulerConfig().policy
        self.sandbox.daemon.update(keys)
        self.sandbox.set_policy(usual)
        (self.sandbox.run_dir / "fikitd.log").unlink(missing_ok=True)
        try:
            yield
        finally:
            for key in keys:
                del self.sandbox.daemon[key]
            self.sandbox.set_policy(usual)

    def script(self, name: str, *lines: str) -> Path:
        path = self.directory / name
        path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        path.chmod(0o755)
        return path

    def run(self, *command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        """A client command; its stderr is part of its output, as on a terminal."""
        words = [str(word) for word in command]
        return self.sandbox.run(
            words, env={**self.env, **env}, timeout=JOB_TIMEOUT_S, capture_output=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.directory,
        )  # fmt: skip

    def submit(self, script: Path, *options: str, **env: str) -> str:
        """sbatch; the job's number. Its output goes to <number>.out."""
        done = self.run("sbatch", "--parsable", f"--output={self.directory}/%j.out", *options, script, **env)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def submit_running(self, script: Path, *options: str) -> str:
        """A job with a GPU whose program has met fikitd."""
        job = self.submit(script, "--gres=gpu:1", *options)
        self.until(lambda: job in self.managed(), f"job {job} is not managed")
        return job

    def wait(self, job: str) -> str:
        """Until the batch job is over; its output. Fails when the job failed."""
        state = self.end(job)
        output = self.output(job)
        assert state == "COMPLETED", output
        return output

    def end(self, job: str) -> str:
        """Until the job is over; its state then."""
        fields = self.until(lambda: self.ended(job), f"job {job} did not end")
        return str(fields["JobState"])

    def output(self, job: str) -> str:
        return (self.directory / f"{job}.out").read_text()

    def batch(self, script: Path, *options: str, **env: str) -> str:
        return self.wait(self.submit(script, *options, **env))

    def fields(self, job: str) -> dict[str, str]:
        """What `scontrol show job` says, JobState above all; empty where it got no answer."""
        words = self.run("scontrol", "show", "job", "-o", job).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def start_again(self, job: str) -> None:
        """A job that was requeued: Slurm would let it wait for two minutes."""
        self.until(lambda: self.fields(job).get("JobState") == "PENDING", f"job {job} was not put back into the queue")
        # In the second of the first run's end, slurmd refuses to start it again.
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def ended(self, job: str) -> dict[str, str] | None:
        """Its fields when it is over, None before."""
        fields = self.fields(job)
        state = fields.get("JobState")  # none: slurmctld was too busy to answer
        return fields if state and state not in ALIVE else None

    def until(self, done: Callable[[], Any], problem: str, timeout_s: float = JOB_TIMEOUT_S) -> Any:
        """The first true value of `done()`."""
        deadline = time.monotonic() + timeout_s
        while not (value := done()):
            assert time.monotonic() < deadline, problem
            time.sleep(0.1)
        return value

    @staticmethod
    def summaries(output: str, job: str) -> list[str]:
        """The lines in a job's output that are its report."""
        return [line for line in output.splitlines() if f"fikit: job {job} " in line]

    def reported_kernels(self, job: str) -> int:
        """Of its stored report; 0 without one."""
        report = ReportStore(self.sandbox.report_dir).load(job)
        return report["kernels"] if report else 0

    def managed(self) -> list[str]:
        """The jobs of which a program is connected to fikitd."""
        try:
            return [job["job"] for job in Control(self.sandbox.run_dir).jobs() if job["processes"] > 0]
        except DaemonUnreachable:
            return []

    def records(self) -> list[str]:
        return sorted(path.name for path in (self.sandbox.run_dir / "jobs").glob("*"))

    def node_state(self) -> str:
        return self.run("sinfo", "--noheader", "--format=%T").stdout.strip()


def parse_probe(output: str) -> Probe:
    """The last probe in a job's output."""
    assert "END" in output.splitlines(), output
    record, _, rest = output.rpartition("BEGIN\n")[2].partition("ENV\n")
    env = dict(line.split("=", 1) for line in rest.splitlines() if "=" in line)
    return Probe(dict(line.split("=", 1) for line in record.splitlines()), env, output)


def cluster_of(sandbox: Sandbox) -> Cluster:
    directory = sandbox.root / "jobs"  # pytest's own directories are closed to other users
    directory.mkdir()
    directory.chmod(0o1777)
    return Cluster(sandbox, directory)
