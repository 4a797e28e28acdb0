"""What a sandbox needs of the machine: Slurm's programs, root, the built files, a Slurm that the plugin is for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fikit.errors import UserError
from fikit.slurm import versions as slurm_versions
from fikitd import paths

PACKAGES = "slurmctld slurmd slurm-client munge libslurm-dev liblua5.1-0 lua5.1"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "sinfo")


class SandboxError(UserError):
    """The sandbox cannot start; one sentence that says why and what to do."""


def find(program: str) -> Path | None:
    """Where a program is, also one that only root has in its PATH."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None


def can_spread() -> bool:
    """Whether this Slurm knows LL_SHARED_GRES: 22.05 does not start with it."""
    version = slurm_versions.installed()
    return version is not None and version >= slurm_versions.SPREADS


def check(real_gpu: bool) -> None:
    """Raises SandboxError for the first thing that is missing."""
    if any(find(program) is None for program in PROGRAMS):
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
