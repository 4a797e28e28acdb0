"""A sandbox's directory: configuration, copies of the native files, device files, and the environment in which to use it all."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fikit.sandbox import files
from fikit.sandbox.accounting import Accounting
from fikit.sandbox.needs import SandboxError
from fikit.sandbox.network import Network
from fikitd import paths

LONGEST_TMPDIR = 60  # a socket's path ends at 107 bytes
NULL_DEVICE = os.makedev(1, 3)
INHERITED_NO_MORE = ("SLURM", "SBATCH", "SALLOC", "SRUN", "FIKIT_", "EMUCUDA_", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Wishes:
    """What a sandbox is to be; `fikit.sandbox.sandbox.Sandbox` says what each of them means."""

    gpus: int
    gpu_memory_gib: int
    gpu_types: Sequence[str]
    nodes: int
    spread: bool
    real_gpu: bool
    emulator_config: Path | None
    emulator_device: dict[str, Any] = field(default_factory=dict)
    slurm_lines: Sequence[str] = ()


class Site:
    """One sandbox's. `env`: for Slurm's and fikit's commands; `machine`: what its nodes look like."""

    def __init__(self, layout: files.Layout, wishes: Wishes, network: Network | None) -> None:
        """Makes the directories, the native files and the devices. Raises SandboxError."""
        self._layout, self._wishes, self._apart = layout, wishes, network is not None
        layout.root.chmod(0o755)
        for directory in layout.directories():
            directory.mkdir()
            directory.chmod(0o755)
        _copy_readable(paths.native_dir(), layout.native)
        for shared in (layout.report_dir, layout.profile_dir):
            shared.chmod(0o1777)  # fikitd writes them as the jobs' users
        self.machine = files.Machine(
            hostname=socket.gethostname().split(".")[0],
            memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
            controller_port=free_port(),
            node_ports=[free_port() for _ in range(wishes.nodes)],
            gpu_files=self._gpu_files(),
            gpu_memory_gib=wishes.gpu_memory_gib,
            gpu_types=list(wishes.gpu_types),
            real_gpu=wishes.real_gpu,
            spread=wishes.spread,
            apart={node.name: node.address for node in network.nodes} if network else {},
            controller=network.controller if network else "127.0.0.1",
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_NO_MORE)}
        self.env = {
            **clean,
            "SLURM_CONF": str(layout.slurm_conf),
            "FIKIT_CONFIG": str(layout.fikit_toml),
            "PATH": f"{Path(sys.executable).parent}:{clean.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin",
        }
        if not wishes.real_gpu:
            self.env |= self._emulator_environment()

    def write_slurm(self, accounting: Accounting | None) -> None:
        """Slurm's configuration and what it starts."""
        layout, machine = self._layout, self.machine
        programs = files.Programs(
            plugin=layout.native / "slurm" / "spank_fikit.so",
            lua=layout.native / "slurm",
            shim=layout.native / paths.shim().name,
            daemon=Path(sys.executable).with_name("fikitd"),
            job_environment=self._job_environment(),
        )
        texts = {
            "slurm.conf": files.slurm_conf(
                layout, machine, self._wishes.slurm_lines, accounting.slurm_conf() if accounting else ()
            ),
            "gres.conf": files.gres_conf(machine),
            "plugstack.conf": files.plugstack_conf(layout, programs),
            "job_submit.lua": files.lua_script("job_submit.lua", layout, programs),
            "cli_filter.lua": files.lua_script("cli_filter.lua", layout, programs),
            "task_prolog": files.task_prolog(programs),
            "fikitd": files.fikitd_script(layout, programs),
        }
        if accounting:
            accounting.make()
            texts["slurmdbd.conf"] = accounting.slurmdbd_conf()
        modes = {"task_prolog": 0o755, "fikitd": 0o755, "slurmdbd.conf": 0o600}  # slurmdbd insists
        for name, text in texts.items():
            _write(layout.etc / name, text, modes.get(name, 0o644))

    def write_fikit_toml(
        self,
        scheduler: dict[str, Any],
        access: dict[str, Any],
        daemon: dict[str, Any],
        sections: Mapping[str, dict[str, Any]],
    ) -> None:
        """Replace it: its readers see the old or the new one."""
        file = self._layout.fikit_toml
        unfinished = file.with_suffix(".tmp")
        _write(unfinished, files.fikit_toml(self._layout, self.machine, scheduler, access, daemon, sections))
        unfinished.rename(file)

    def _gpu_files(self) -> list[Path]:
        if self._wishes.real_gpu:
            return [Path(f"/dev/nvidia{index}") for index in range(self._wishes.gpus)]
        made = [self._layout.root / "dev" / f"gpu{index}" for index in range(self._wishes.gpus)]
        for file in made:
            try:
                os.mknod(file, stat.S_IFCHR, NULL_DEVICE)
                file.chmod(0o666)
            except OSError as error:
                raise SandboxError(f"cannot make the device file {file}: {error.strerror}; run on a machine or in a "
                                   "container that allows mknod") from error  # fmt: skip
        return made

    def _emulator_environment(self) -> dict[str, str]:
        model_file = self._wishes.emulator_config or paths.emulator_dir() / "default.toml"
        try:
            model = tomllib.loads(model_file.read_text())
        except (OSError, ValueError) as error:
            raise SandboxError(f"cannot read the emulator's model {model_file}: {error}") from error
        config = self._layout.etc / "emulator.toml"
        _write(config, files.emulator_toml(model, self.machine, self._wishes.emulator_device))
        return {"EMUCUDA_NAME": self._layout.root.name, "EMUCUDA_CONFIG": str(config)}

    def _job_environment(self) -> dict[str, str]:
        if self._wishes.real_gpu:
            return {}
        emulator = {name: value for name, value in self.env.items() if name.startswith("EMUCUDA_")}
        if self._apart:
            emulator["EMUCUDA_NAME"] += "-$SLURMD_NODENAME"  # the task prolog's shell knows it
        return {"LD_LIBRARY_PATH": str(self._layout.native / paths.emulator_dir().name), **emulator}


def make_directory() -> Path:
    """In TMPDIR where everybody may enter it and socket paths fit below it, else in /tmp: jobs run as their users."""
    wished = Path(tempfile.gettempdir()).resolve()
    is_open = all(directory.stat().st_mode & stat.S_IXOTH for directory in (wished, *wished.parents))
    return Path(
        tempfile.mkdtemp(prefix="fikit-", dir=wished if is_open and len(str(wished)) <= LONGEST_TMPDIR else "/tmp")
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    """A file that, by default, every user's job can read, whatever our umask is."""
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(mode)


def _copy_readable(source: Path, target: Path) -> None:
    """A copy of a directory that every user's job can read and run, wherever the original lies."""
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))
