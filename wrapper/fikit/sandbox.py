"""A throw-away Slurm on this machine: munged, slurmctld and slurmd of its own, with fikit and emulated GPUs.

`fikit sandbox`, `fikit demo` and the cluster tests use it. It needs root (slurmd starts jobs as their users) and Debian's
Slurm packages, listens on the loopback, and lies in one directory that goes when it stops.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.config import SchedulerConfig

from fikit import sandbox_accounting, slurm_versions
from fikit import sandbox_files as files
from fikit.errors import UserError
from fikit.sandbox_accounting import Accounting
from fikit.sandbox_network import Network, Node
from fikit.sandbox_processes import Group, processes_of
from fikit.sizes import parse_size
from fikitd import paths

PACKAGES = "slurmctld slurmd slurm-client munge libslurm-dev liblua5.1-0 lua5.1"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "sinfo")
START_TIMEOUT_S = 20.0
JOBS_END_TIMEOUT_S = 8.0
FIKITD_STOP_TIMEOUT_S = 10.0  # what it gives itself for its last files is less
LONGEST_TMPDIR = 60  # a socket's path ends at 107 bytes
NULL_DEVICE = os.makedev(1, 3)
INHERITED_NO_MORE = ("SLURM", "SBATCH", "SALLOC", "SRUN", "FIKIT_", "EMUCUDA_", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES")


class SandboxError(UserError):
    """The sandbox cannot start; one sentence that says why and what to do."""


class Sandbox:
    """A Slurm of one node. `env` is the environment in which Slurm's and fikit's commands use it.

    gpu_memory: of each GPU, rounded down to whole GiB (one shard each). emulator_config: a model file for the emulated
    GPU instead of its default. scheduler: further keys of fikit.toml's [scheduler]. keep: leave the directory at the end.
    gpu_types: Slurm's name for each GPU's model. spread: the least loaded GPU takes a sharing job, instead of the first with room.
    nodes: how many the machine claims to be; each has a slurmd of its own, all have the same GPUs and fikitd.
    apart: each node has a network, a host name, a fikitd and GPUs of its own (sandbox_network); `run_dirs` are theirs.
    Attribute `daemon`: further keys of fikit.toml's [daemon], for the fikitd after the next set_policy.
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
        keep: bool = False,
        nodes: int = 1,
        apart: bool = False,
        gpu_types: Sequence[str] = (),
        spread: bool = False,
        access: dict[str, Any] | None = None,
        slurm_lines: Sequence[str] = (),
        accounting: bool = False,
    ) -> None:
        self._gpus, self._nodes, self._spread, self._apart = gpus, nodes, spread, apart
        self._access, self._slurm_lines = access or {}, slurm_lines
        self._wants_accounting = accounting
        self._accounting: Accounting | None = None
        self._gpu_types = list(gpu_types) or ["nvidia" if real_gpu else "emulated"] * gpus
        self._gpu_memory_gib = parse_size(gpu_memory) // files.GIB
        if gpus < 1 or self._gpu_memory_gib < 1:
            raise SandboxError("a sandbox needs at least one GPU with at least 1 GiB; use --gpus 1 --gpu-memory 16GiB")
        self._real_gpu = real_gpu
        self._emulator_config = emulator_config
        self._scheduler: dict[str, Any] = {**(scheduler or {}), "policy": policy}
        self.daemon: dict[str, Any] = {}
        self._emulator_device = {} if slice_us is None else {"slice_us": slice_us}
        self._keep = keep
        self._failed = False
        self._group = Group()
        self._machine: files.Machine | None = None
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
        _check_requirements(self._real_gpu)
        if self._spread and not can_spread():
            raise SandboxError(
                "Slurm older than 24.11 packs sharing jobs and cannot spread them: take a newer one by --slurm"
            )
        if self._wants_accounting and any(_find(program) is None for program in sandbox_accounting.PROGRAMS):
            raise SandboxError(f"accounting needs slurmdbd and MariaDB: install {sandbox_accounting.PACKAGES}")
        self._failed = False
        self._place(Path(tempfile.mkdtemp(prefix="fikit-", dir=_open_directory())))
        try:
            if self._apart:
                on_step("network")
                self._network = Network(self.root, [f"node{number}" for number in range(self._nodes)])
                self._network.start()
            on_step("files")
            self._write_files()
            on_step("munged")
            self._start_munged()
            if self._accounting:
                on_step("slurmdbd")
                self._start_accounting(self._accounting)
            on_step("slurmctld")
            self._start("slurmctld", "-D", "-f", str(self._layout.slurm_conf))
            on_step("slurmd")
            self._start_nodes()
            on_step("node")
            self._wait("the node did not become idle", self._nodes_are_idle)
        except BaseException:
            self.stop()
            raise

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
        assert self._machine is not None
        nodes = self._network.nodes if self._network else []
        return {node.name: node.run_dir for node in nodes} or {self._machine.nodes[0]: self.run_dir}

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
        assert self._machine is not None
        return self._machine.nodes

    def restart_slurmd(self, *, booted: bool = False) -> None:
        """Every node's, as an administrator does, or as a boot does; returns when the nodes are there again."""
        for node in self.nodes:
            self._group.end(f"slurmd.{node}")
        self._start_nodes(*(["-b"] if booted else []))
        self._wait(
            "a node did not come back", lambda: "*" not in self.run(["sinfo", "--noheader", "--format=%T"]).stdout
        )

    def _write_files(self) -> None:
        layout = self._layout
        layout.root.chmod(0o755)
        for directory in layout.directories():
            directory.mkdir()
            directory.chmod(0o755)
        _copy_readable(paths.native_dir(), layout.native)
        for shared in (layout.report_dir, layout.profile_dir):
            shared.chmod(0o1777)  # fikitd writes them as the jobs' users
        self._machine = machine = files.Machine(
            hostname=socket.gethostname().split(".")[0],
            memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
            controller_port=_free_port(),
            node_ports=[_free_port() for _ in range(self._nodes)],
            gpu_files=self._gpu_files(),
            gpu_memory_gib=self._gpu_memory_gib,
            gpu_types=self._gpu_types,
            real_gpu=self._real_gpu,
            spread=self._spread,
            apart={node.name: node.address for node in self._network.nodes} if self._network else {},
            controller=self._network.controller if self._network else "127.0.0.1",
        )
        self._write_environment()
        programs = files.Programs(
            plugin=layout.native / "slurm" / "spank_fikit.so",
            lua=layout.native / "slurm",
            shim=layout.native / paths.shim().name,
            daemon=Path(sys.executable).with_name("fikitd"),
            job_environment=self._job_environment(),
        )
        accounting = self._accounting = self._make_accounting() if self._wants_accounting else None
        texts = {
            "slurm.conf": files.slurm_conf(
                layout, machine, self._slurm_lines, accounting.slurm_conf() if accounting else ()
            ),
            "gres.conf": files.gres_conf(machine),
            "plugstack.conf": files.plugstack_conf(layout, programs),
            "job_submit.lua": files.lua_script("job_submit.lua", layout, programs),
            "cli_filter.lua": files.lua_script("cli_filter.lua", layout, programs),
            "task_prolog": files.task_prolog(programs),
            "fikitd": files.fikitd_script(programs),
        }
        for name, text in texts.items():
            _write(layout.etc / name, text)
        for name in ("task_prolog", "fikitd"):
            (layout.etc / name).chmod(0o755)
        self._write_fikit_toml()

    def _gpu_files(self) -> list[Path]:
        if self._real_gpu:
            return [Path(f"/dev/nvidia{index}") for index in range(self._gpus)]
        made = [self._layout.root / "dev" / f"gpu{index}" for index in range(self._gpus)]
        for file in made:
            try:
                os.mknod(file, stat.S_IFCHR, NULL_DEVICE)
                file.chmod(0o666)
            except OSError as error:
                raise SandboxError(f"cannot make the device file {file}: {error.strerror}; run on a machine or in a "
                                   "container that allows mknod") from error  # fmt: skip
        return made

    def _write_environment(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_NO_MORE)}
        self.env = {
            **clean,
            "SLURM_CONF": str(self._layout.slurm_conf),
            "FIKIT_CONFIG": str(self.fikit_toml),
            "PATH": f"{Path(sys.executable).parent}:{clean.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin",
        }
        if not self._real_gpu:
            self.env |= self._emulator_environment()

    def _emulator_environment(self) -> dict[str, str]:
        assert self._machine is not None
        model_file = self._emulator_config or paths.emulator_dir() / "default.toml"
        try:
            model = tomllib.loads(model_file.read_text())
        except (OSError, ValueError) as error:
            raise SandboxError(f"cannot read the emulator's model {model_file}: {error}") from error
        config = self._layout.etc / "emulator.toml"
        _write(config, files.emulator_toml(model, self._machine, self._emulator_device))
        return {"EMUCUDA_NAME": self.root.name, "EMUCUDA_CONFIG": str(config)}

    def _job_environment(self) -> dict[str, str]:
        if self._real_gpu:
            return {}
        emulator = {name: value for name, value in self.env.items() if name.startswith("EMUCUDA_")}
        if self._apart:
            emulator["EMUCUDA_NAME"] += "-$SLURMD_NODENAME"  # the task prolog's shell knows it
        return {"LD_LIBRARY_PATH": str(self._layout.native / paths.emulator_dir().name), **emulator}

    def _write_fikit_toml(self) -> None:
        assert self._machine is not None
        unfinished = self.fikit_toml.with_suffix(".tmp")
        _write(unfinished, files.fikit_toml(self._layout, self._machine, self._scheduler, self._access, self.daemon))
        unfinished.rename(self.fikit_toml)

    def _start_munged(self) -> None:
        munge = self._layout.munge_socket.parent
        key = munge / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        names = ("key", "pid", "seed", "log")
        self._start("munged", "--foreground", f"--socket={self._layout.munge_socket}",
                    *(f"--{name}-file={munge / name}" for name in names))  # fmt: skip
        self._wait("munged did not open its socket", self._layout.munge_socket.exists)

    def _make_accounting(self) -> Accounting:
        assert self._machine is not None
        made = Accounting(self.root, self._machine.hostname, _free_port(), self._layout.munge_socket, self.logs)
        made.make()
        conf = self._layout.etc / "slurmdbd.conf"
        _write(conf, made.slurmdbd_conf())
        conf.chmod(0o600)  # slurmdbd insists
        return made

    def _start_accounting(self, accounting: Accounting) -> None:
        self._start(*accounting.database())
        self._wait("MariaDB did not open its socket", accounting.socket.exists)
        self.env |= accounting.environment
        self._start("slurmdbd", "-D")
        self._wait("slurmdbd did not answer", self._accounting_answers)

    def _accounting_answers(self) -> bool:
        return self.run(["sacctmgr", "-n", "show", "cluster"]).returncode == 0

    def _start_nodes(self, *options: str) -> None:
        assert self._machine is not None
        for number, name in enumerate(self._machine.nodes):
            arguments = ("-D", "-f", str(self._layout.slurm_conf), "-N", name, *options)
            self._start("slurmd", *arguments, of=f".{name}", on=self._network.nodes[number] if self._network else None)

    def _start(self, program: str, *arguments: str, of: str = "", on: Node | None = None) -> None:
        name = program + of
        command = [str(_find(program)), *arguments]
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
        if self._machine is None:
            return
        daemons = [process for process in processes_of(self.run_dir) if process.named("fikitd")]
        for run_dir in self.run_dirs.values():
            with suppress(DaemonUnreachable, ControlError):
                Control(run_dir).shutdown()
        for daemon in daemons:
            daemon.wait_or_kill(FIKITD_STOP_TIMEOUT_S)


def can_spread() -> bool:
    """Whether this Slurm knows LL_SHARED_GRES: 22.05 does not start with it."""
    version = slurm_versions.installed()
    return version is not None and version >= (24, 11)


def _open_directory() -> Path:
    """TMPDIR where everybody may enter it and socket paths fit below it, else /tmp: jobs run as their users."""
    wished = Path(tempfile.gettempdir()).resolve()
    is_open = all(directory.stat().st_mode & stat.S_IXOTH for directory in (wished, *wished.parents))
    return wished if is_open and len(str(wished)) <= LONGEST_TMPDIR else Path("/tmp")


def _write(path: Path, text: str) -> None:
    """A file that every user's job can read, whatever our umask is."""
    path.write_text(text)
    path.chmod(0o644)


def _copy_readable(source: Path, target: Path) -> None:
    """A copy of a directory that every user's job can read and run, wherever the original lies."""
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _find(program: str) -> Path | None:
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None


def _check_requirements(real_gpu: bool) -> None:
    if any(_find(program) is None for program in PROGRAMS):
        raise SandboxError(f"the sandbox needs Slurm: run `make setup`, or install {PACKAGES}")
    if os.geteuid() != 0:
        raise SandboxError("the sandbox needs root, because slurmd starts jobs as their users: use sudo, "
                           "or go without Slurm (`fikit demo --no-slurm`, `fikit run`)")  # fmt: skip
    try:
        needed = [paths.slurm_dir() / "spank_fikit.so", paths.shim()]
        needed += [] if real_gpu else [paths.emuctl(), paths.emulator_dir() / "default.toml"]
    except FileNotFoundError as error:
        raise SandboxError(str(error)) from error
    for path in needed:
        if not path.exists():
            raise SandboxError(f"{path} is missing; run `make build`, with Debian's libslurm-dev installed")
    version = slurm_versions.installed()
    if version and (mismatch := slurm_versions.mismatch(needed[0], version)):
        raise SandboxError(f"{mismatch}: rebuild it by {slurm_versions.rebuild(version)}")
    if real_gpu and not Path("/dev/nvidia0").exists():
        raise SandboxError("there is no /dev/nvidia0 on this machine: use the emulated GPU, without DEVICE=real")
