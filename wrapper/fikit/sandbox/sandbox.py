"""A throw-away Slurm on this machine: munged, slurmctld and slurmd of its own, with fikit and emulated GPUs.

`fikit sandbox`, `fikit demo` and the cluster tests use it. It needs root (slurmd starts jobs as their users) and Debian's
Slurm packages, listens on the loopback, and lies in one directory that goes when it stops.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.base import quantities
from fikitd.config.fikit_toml import SchedulerConfig

from fikit import disk_space
from fikit.sandbox import accounting as sandbox_accounting
from fikit.sandbox import files
from fikit.sandbox import needs as sandbox_needs
from fikit.sandbox.accounting import Accounting
from fikit.sandbox.needs import SandboxError, can_spread, find
from fikit.sandbox.network import Network, Node
from fikit.sandbox.processes import Group, processes_of
from fikit.sandbox.site import Site, Wishes, free_port, make_directory

START_TIMEOUT_S = 20.0
JOBS_END_TIMEOUT_S = 8.0
FIKITD_STOP_TIMEOUT_S = 10.0  # what it gives itself for its last files is less


class Sandbox:
    """A Slurm of one node. `env` is the environment in which Slurm's and fikit's commands use it.

    gpu_memory: of each GPU, rounded down to whole GiB (one shard each). emulator_config: a model file for the emulated
    GPU instead of its default. scheduler: further keys of fikit.toml's [scheduler]. keep: leave the directory at the end.
    gpu_types: Slurm's name for each GPU's model. spread: the least loaded GPU takes a sharing job, instead of the first with room.
    nodes: how many the machine claims to be; each has a slurmd of its own, all have the same GPUs and fikitd.
    apart: each node has a network, a host name, a fikitd and GPUs of its own (sandbox_network); `run_dirs` are theirs.
    device: further keys of the emulated GPU's [device].
    Attributes `daemon`, `gpu`, `oversubscribe`: further keys of fikit.toml's sections of these names, for the fikitd after the next set_policy.
    access: fikit.toml's [access]. slurm_lines: further lines of slurm.conf. accounting: with slurmdbd and a MariaDB.
    Attributes `root`, `run_dir`, `report_dir`, `profile_dir`, `fikit_toml`, `logs` are its paths.
    """

    def __init__(
        self,
        gpus: int = 1,
        gpu_memory: str = "16GiB",
        policy: str = SchedulerConfig().policy,
        *,
        emulator_config: Path | None = None,
        real_gpu: bool = False,
        scheduler: dict[str, Any] | None = None,
        slice_us: int | None = None,
        device: dict[str, Any] | None = None,
        keep: bool = False,
        nodes: int = 1,
        apart: bool = False,
        gpu_types: Sequence[str] = (),
        spread: bool = False,
        access: dict[str, Any] | None = None,
        slurm_lines: Sequence[str] = (),
        accounting: bool = False,
    ) -> None:
        self._wishes = Wishes(
            gpus=gpus,
            gpu_memory_gib=quantities.size(gpu_memory) // files.GIB,
            gpu_types=list(gpu_types) or ["nvidia" if real_gpu else "emulated"] * gpus,
            nodes=nodes,
            spread=spread,
            real_gpu=real_gpu,
            emulator_config=emulator_config,
            emulator_device={**({} if slice_us is None else {"slice_us": slice_us}), **(device or {})},
            slurm_lines=slurm_lines,
        )
        if gpus < 1 or self._wishes.gpu_memory_gib < 1:
            raise SandboxError("a sandbox needs at least one GPU with at least 1 GiB; use --gpus 1 --gpu-memory 16GiB")
        self._apart, self._wants_accounting = apart, accounting
        self._scheduler: dict[str, Any] = {**(scheduler or {}), "policy": policy}
        self._access = access or {}
        self.daemon: dict[str, Any] = {}
        self.gpu: dict[str, Any] = {}
        self.oversubscribe: dict[str, Any] = {}
        self._keep = keep
        self._failed = False
        self._group = Group()
        self._site: Site | None = None
        self._network: Network | None = None
        self.root = Path()
        self.env: dict[str, str] = {}
        self._place(Path())

    def _place(self, root: Path) -> None:
        layout = files.Layout(root)
        self.root, self._layout = root, layout
        self.run_dir, self.report_dir, self.profile_dir = layout.run_dir, layout.report_dir, layout.profile_dir
        self.fikit_toml, self.logs = layout.fikit_toml, layout.logs

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, on_step: Callable[[str], None] = lambda step: None) -> None:
        """Start everything and return when the node takes jobs. on_step hears what is being started.

        Raises SandboxError when something is missing or does not start; nothing is left behind then but the logs.
        """
        sandbox_needs.check(self._wishes.real_gpu)
        if self._wishes.spread and not can_spread():
            raise SandboxError(
                "Slurm older than 24.11 packs sharing jobs and cannot spread them: take a newer one by --slurm"
            )
        if self._wants_accounting and any(find(program) is None for program in sandbox_accounting.PROGRAMS):
            raise SandboxError(f"accounting needs slurmdbd and MariaDB: install {sandbox_accounting.PACKAGES}")
        self._failed = False
        self._place(make_directory())
        advice = "make room there, or set TMPDIR to a directory that has some"
        try:
            with disk_space.needed(f"the sandbox's files in {self.root}", advice, SandboxError):
                self._start_all(on_step)
        except BaseException:
            self.stop()
            raise

    def _start_all(self, on_step: Callable[[str], None]) -> None:
        if self._apart:
            on_step("network")
            self._network = Network(self.root, [f"node{number}" for number in range(self._wishes.nodes)])
            self._network.start()
        on_step("files")
        site = self._site = Site(self._layout, self._wishes, self._network)
        self.env = site.env
        accounting = self._make_accounting(site.machine) if self._wants_accounting else None
        site.write_slurm(accounting)
        self._write_fikit_toml()
        on_step("munged")
        self._start_munged()
        if accounting:
            on_step("slurmdbd")
            self._start_accounting(accounting)
        on_step("slurmctld")
        self._start("slurmctld", "-D", "-f", str(self._layout.slurm_conf))
        on_step("slurmd")
        self._start_nodes()
        on_step("node")
        self._wait("the node did not become idle", self._nodes_are_idle)

    def stop(self) -> None:
        """End all jobs and daemons and remove the directory; may be called twice and after a failed start."""
        if self.root == Path():
            return
        if self._group.running("slurmctld"):
            self._cancel_jobs()
        self._stop_fikitd()
        self._group.stop()
        for process in processes_of(self.root):
            process.kill()
        for device in self.emulated:
            subprocess.run(
                [self._layout.native / "bin" / "emuctl", "reset"], env=device, check=False, capture_output=True
            )
        if self._network:
            self._network.stop()
            self._network = None
        if not (self._keep or self._failed):
            shutil.rmtree(self.root, ignore_errors=True)
        self._place(Path())

    @property
    def run_dirs(self) -> dict[str, Path]:
        """Every fikitd's, by node; of all nodes together, under the first one's name, where they are not apart."""
        nodes = self._network.nodes if self._network else []
        return {node.name: node.run_dir for node in nodes} or {self.nodes[0]: self.run_dir}

    @property
    def emulated(self) -> list[dict[str, str]]:
        """The environments in which emuctl sees the emulated GPUs: one for each fikitd."""
        if "EMUCUDA_NAME" not in self.env:
            return []
        nodes = self._network.nodes if self._network else []
        name = self.env["EMUCUDA_NAME"]
        return [{**self.env, "EMUCUDA_NAME": f"{name}-{node.name}"} for node in nodes] or [self.env]

    def run(self, cmd: Sequence[str], **kw: Any) -> subprocess.CompletedProcess[str]:
        """subprocess.run inside the sandbox, with text output captured unless `kw` says otherwise."""
        defaults = {"env": self.env, "text": True, "capture_output": True}
        return subprocess.run(cmd, check=kw.pop("check", False), **{**defaults, **kw})

    def set_policy(self, name: str) -> None:
        """Rewrite fikit.toml and stop fikitd: the next job's prolog starts it with policy `name`."""
        self._scheduler["policy"] = name
        self._write_fikit_toml()
        self._stop_fikitd()

    def set_access(self, access: dict[str, Any]) -> None:
        """Rewrite fikit.toml: slurmctld goes by it from the next job on."""
        self._access = access
        self._write_fikit_toml()

    @property
    def nodes(self) -> list[str]:
        """Slurm's names for them."""
        assert self._site is not None
        return self._site.machine.nodes

    def restart_slurmd(self, *, booted: bool = False) -> None:
        """Every node's, as an administrator does, or as a boot does; returns when the nodes are there again."""
        for node in self.nodes:
            self._group.end(f"slurmd.{node}")
        self._start_nodes(*(["-b"] if booted else []))
        self._wait(
            "a node did not come back", lambda: "*" not in self.run(["sinfo", "--noheader", "--format=%T"]).stdout
        )

    def _start_munged(self) -> None:
        munge = self._layout.munge_socket.parent
        key = munge / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        names = ("key", "pid", "seed", "log")
        self._start("munged", "--foreground", f"--socket={self._layout.munge_socket}",
                    *(f"--{name}-file={munge / name}" for name in names))  # fmt: skip
        self._wait("munged did not open its socket", self._layout.munge_socket.exists)

    def _make_accounting(self, machine: files.Machine) -> Accounting:
        return Accounting(self.root, machine.hostname, free_port(), self._layout.munge_socket, self.logs)

    def _write_fikit_toml(self) -> None:
        assert self._site is not None
        sections = {"gpu": self.gpu, "oversubscribe": self.oversubscribe}
        self._site.write_fikit_toml(self._scheduler, self._access, self.daemon, sections)

    def _start_accounting(self, accounting: Accounting) -> None:
        self._start(*accounting.database())
        self._wait("MariaDB did not open its socket", accounting.socket.exists)
        self.env |= accounting.environment
        self._start("slurmdbd", "-D")
        self._wait("slurmdbd did not answer", self._accounting_answers)

    def _accounting_answers(self) -> bool:
        return self.run(["sacctmgr", "-n", "show", "cluster"]).returncode == 0

    def _start_nodes(self, *options: str) -> None:
        for number, name in enumerate(self.nodes):
            arguments = ("-D", "-f", str(self._layout.slurm_conf), "-N", name, *options)
            self._start("slurmd", *arguments, of=f".{name}", on=self._network.nodes[number] if self._network else None)

    def _start(self, program: str, *arguments: str, of: str = "", on: Node | None = None) -> None:
        name = program + of
        command = [str(find(program)), *arguments]
        if on and self._network:
            command = self._network.inside(on, command)
        self._group.start(name, command, self.env, self.logs / f"{name}.out")

    def _nodes_are_idle(self) -> bool:
        answer = self.run(["sinfo", "--noheader", "--format=%T"])
        return answer.stdout.strip() == "idle"

    def _wait(self, problem: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not done():
            dead = self._group.dead()
            if dead or time.monotonic() > deadline:
                self._failed = True
                reason = f"{dead} ended" if dead else f"after {START_TIMEOUT_S:.0f} s"
                raise SandboxError(
                    f"the sandbox's Slurm did not start: {problem} ({reason}); its logs are in {self.logs}"
                )
            time.sleep(0.05)

    def _cancel_jobs(self) -> None:
        jobs = self.run(["squeue", "--noheader", "--format=%A"]).stdout.split()
        if not jobs:
            return
        self.run(["scancel", *sorted(set(jobs))])
        deadline = time.monotonic() + JOBS_END_TIMEOUT_S
        while time.monotonic() < deadline and self.run(["squeue", "--noheader"]).stdout.strip():
            time.sleep(0.1)

    def _stop_fikitd(self) -> None:
        """Ask it to leave and wait until it has; kill it when it does not."""
        if self._site is None:
            return
        daemons = [process for process in processes_of(self.run_dir) if process.named("fikitd")]
        for run_dir in self.run_dirs.values():
            with suppress(DaemonUnreachable, ControlError):
                Control(run_dir).shutdown()
        for daemon in daemons:
            daemon.wait_or_kill(FIKITD_STOP_TIMEOUT_S)
