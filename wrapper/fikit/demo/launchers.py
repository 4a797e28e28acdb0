"""How jobs are started: as Slurm jobs in a throw-away cluster, or under `fikit run`; the rest of the demo sees no difference."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from fikitd.api.client import Control, DaemonUnreachable
from fikitd.config.fikit_toml import Config, DaemonConfig, SchedulerConfig

from fikit.demo.plan import Job
from fikit.errors import UserError
from fikit.running.daemon import IDLE_EXIT_S
from fikit.sandbox.sandbox import Sandbox
from fikitd import paths

GPU_MEMORY = "16GiB"
SLURM_POLL_S = 0.25  # each look is a process


class Running(Protocol):
    """A job that was started."""

    def poll(self) -> int | None:
        """Its exit code, None while it waits or runs. Cheap enough to be asked often."""
        ...

    def stop(self) -> None:
        """End it if it has not ended."""
        ...


class Launcher(Protocol):
    """How jobs get onto the GPU. `emulator_env` is the environment in which emuctl sees the demo's device."""

    slurm_version: str | None
    emulator_env: dict[str, str]
    run_dir: Path

    def set_policy(self, name: str) -> None: ...

    def start(self, job: Job, env: dict[str, str], output: Path) -> Running:
        """Start `job`, its output going to the file `output`."""
        ...


class SlurmJob:
    """A batch job. `sbatch --wait` would notice its end up to ten seconds late."""

    def __init__(self, sandbox: Sandbox, job_id: str) -> None:
        self._sandbox, self._id = sandbox, job_id
        self._exit_code: int | None = None
        self._next_look = 0.0

    def poll(self) -> int | None:
        if self._exit_code is None and time.monotonic() >= self._next_look:
            shown = self._sandbox.run(["scontrol", "show", "job", "--oneliner", self._id]).stdout
            fields = dict(word.split("=", 1) for word in shown.split() if "=" in word)
            if fields.get("JobState") not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                code, number = map(int, fields.get("ExitCode", "1:0").split(":"))
                self._exit_code = code or (128 + number if number else 0)
            self._next_look = time.monotonic() + SLURM_POLL_S
        return self._exit_code

    def stop(self) -> None:
        if self.poll() is None:
            self._sandbox.run(["scancel", self._id])


class LocalJob:
    """A process of ours."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)


class SlurmLauncher:
    """Every job is submitted with sbatch."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.emulator_env = dict(sandbox.env)
        self.run_dir = Path(sandbox.run_dir)
        version = sandbox.run(["sinfo", "-V"], capture_output=True, text=True, check=True)
        self.slurm_version: str | None = version.stdout.split()[-1]

    def set_policy(self, name: str) -> None:
        self._sandbox.set_policy(name)

    def start(self, job: Job, env: dict[str, str], output: Path) -> Running:
        script = output.with_suffix(".sh")
        # The sandbox's model file is MODEL with the sandbox's own name: under another one the GPU is not the one that fikitd's NVML sees.
        env = {key: value for key, value in env.items() if key != "EMUCUDA_CONFIG"}
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in env.items())
        script.write_text(f"#!/bin/bash\n{exports}exec {shlex.join(job.argv)}\n")
        options = [f"--fikit-{key}={value}" if value else f"--fikit-{key}" for key, value in job.options.items()]
        command = ["sbatch", "--parsable", f"--job-name={job.name}", f"--output={output}", "--gres=gpu:1"]
        done = self._sandbox.run([*command, *options, str(script)])
        if done.returncode:
            raise UserError(f"the {job.name}-priority job could not be submitted: {done.stderr.strip()}")
        return SlurmJob(self._sandbox, done.stdout.strip().partition(";")[0])


class LocalLauncher:
    """Every job is a process of ours; a managed one is started by `fikit run`."""

    slurm_version: str | None = None

    def __init__(self, root: Path, emulated: bool) -> None:
        self._root = root
        self.emulator_env = dict(os.environ)
        if emulated:
            library_path = f"{paths.emulator_dir()}:{os.environ.get('LD_LIBRARY_PATH', '')}"
            self.emulator_env |= {"EMUCUDA_NAME": root.name, "LD_LIBRARY_PATH": library_path.rstrip(":")}
        self.set_policy(SchedulerConfig().policy)

    def set_policy(self, name: str) -> None:
        """One fikitd for each policy: each has a run_dir and a fikit.toml, profiles and reports are common."""
        self.run_dir = self._root / name
        self.run_dir.mkdir(mode=0o700, exist_ok=True)
        reports, profiles = self._root / "reports", self._root / "profiles"
        for directory in (reports, profiles):
            directory.mkdir(exist_ok=True)
        daemon = DaemonConfig(str(self.run_dir), str(reports), str(profiles), IDLE_EXIT_S)
        self._config = self._root / f"{name}.toml"
        self._config.write_text(Config(daemon, SchedulerConfig(name)).toml())

    def start(self, job: Job, env: dict[str, str], output: Path) -> Running:
        argv = list(job.argv)
        if job.options:
            options = [part for key, value in job.options.items() for part in (f"--{key}", value) if part]
            argv = [sys.executable, "-m", "fikit", "run", *options, "--", *argv]
        with output.open("wb") as sink:
            return LocalJob(
                subprocess.Popen(
                    argv, env={**self.emulator_env, **env, "FIKIT_CONFIG": str(self._config)}, stdout=sink, stderr=sink
                )
            )

    def close(self) -> None:
        """Stop every fikitd and forget the emulated device."""
        for config in self._root.glob("*.toml"):
            try:
                Control(self._root / config.stem).shutdown()
            except DaemonUnreachable:
                continue
        if "EMUCUDA_NAME" in self.emulator_env:
            subprocess.run([paths.emuctl(), "reset"], env=self.emulator_env, check=False, capture_output=True)


@contextmanager
def local(emulated: bool) -> Iterator[Launcher]:
    root = Path(tempfile.mkdtemp(prefix="fikit-demo-"))
    launcher = LocalLauncher(root, emulated)
    try:
        yield launcher
    finally:
        launcher.close()
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def slurm(emulator_config: Path | None) -> Iterator[Launcher]:
    """A throw-away Slurm on this machine; `emulator_config` None means the real GPU."""
    sandbox = Sandbox(
        gpus=1,
        gpu_memory=GPU_MEMORY,
        policy=SchedulerConfig().policy,
        emulator_config=emulator_config,
        real_gpu=emulator_config is None,
    )
    with sandbox:
        yield SlurmLauncher(sandbox)


def launcher_of(use_slurm: bool, emulator_config: Path | None) -> AbstractContextManager[Launcher]:
    """The launcher to use; `emulator_config` None means the real GPU."""
    return slurm(emulator_config) if use_slurm else local(emulator_config is not None)
