"""Memory that has left the GPU ([oversubscribe]): whether the kernel charges it to its job, and Slurm keeps the job to its --mem (docs/memory.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikitd.config import fikit_toml
from fikitd.config.oversubscribe import LOWER

from fikit.checks.check import Check, ok, warn
from fikit.slurm import config as slurm_config
from fikit.slurm.config import SlurmConfig

NAME: Final = "memory on the host"
SYMBOL: Final = "int_active_memcg"
OLDEST_KERNEL: Final = (5, 14)
ROOT: Final = Path("/")
"""NVIDIA's driver charges pages to a job's control group where it is built for a kernel that exports this (open-gpu-kernel-modules
595.45.04, conftest.sh)."""


def area() -> Iterator[Check]:
    """Nothing where no job may have memory on the host."""
    try:
        config = fikit_toml.load()
    except fikit_toml.ConfigError:
        return  # said elsewhere
    if config.oversubscribe.allow == LOWER:
        path = slurm_config.path()
        kept = keeps_to_mem(slurm_config.config(path), path.parent / "cgroup.conf")
        yield unusable(config) or charged(ROOT, os.uname().release, config.oversubscribe.host_gib, kept=kept)


def unusable(config: fikit_toml.Config) -> Check | None:
    """What else fikit.toml says, by which no job has memory on the host after all."""
    allowed = f'allow = "{LOWER}" in [oversubscribe], and no job has any'
    if config.gpu.mps != "off":
        return warn(
            NAME,
            f'{allowed}: fikitd gives none while mps = "{config.gpu.mps}"',
            'set mps = "off" in [gpu], or allow = "no"',
        )
    if config.oversubscribe.max_factor == 1:
        return warn(
            NAME,
            f"{allowed}: max_factor = 1 is what a job has on the GPU",
            'set max_factor to 2 or more, or allow = "no"',
        )
    return None


def keeps_to_mem(conf: SlurmConfig, cgroup_conf: Path) -> bool | None:
    """Whether Slurm keeps a job to its --mem by its control group (cgroup.conf(5)). None: this machine is in no cluster."""
    if not conf.settings:
        return None
    settings = {**slurm_config.read(cgroup_conf).settings, **conf.settings}
    plugins = {word.removeprefix("task/") for word in conf.words("TaskPlugin")}
    return "cgroup" in plugins and settings.get("constrainramspace", "").lower() in {"yes", "true", "1"}


def charged(root: Path, release: str, host_gib: int, *, kept: bool | None = None) -> Check:
    """root: of the machine's file system. release: of its kernel, as uname says. host_gib: what a job may have on the host. kept: keeps_to_mem's word."""
    keep_free = f"keep up to {host_gib} GiB (host_gib) per job of the node's memory free for it: a lower RealMemory= in slurm.conf"
    why = _uncharged(root, release)
    if why is not None:
        return warn(NAME, f"{why}: nobody counts what left the GPU against its job's --mem", keep_free)
    exports = f"kernel {release} exports {SYMBOL}: NVIDIA's driver charges what left the GPU to its job"
    if kept is False:
        return warn(
            NAME,
            f"{exports}, and Slurm keeps no job to its --mem",
            f"set ConstrainRAMSpace=yes in cgroup.conf and TaskPlugin=task/cgroup in slurm.conf; or {keep_free}",
        )
    return ok(NAME, f"{exports}, and --mem bounds it")


def _uncharged(root: Path, release: str) -> str | None:
    number = re.match(r"(\d+)\.(\d+)", release)
    if number is not None and (int(number[1]), int(number[2])) < OLDEST_KERNEL:
        return f"kernel {release} is older than {'.'.join(map(str, OLDEST_KERNEL))} and does not export {SYMBOL}"
    found = _exports(root, release)
    if found is None:
        return f"it cannot be seen whether kernel {release} exports {SYMBOL}"
    if not found:
        return f"kernel {release} does not export {SYMBOL}"
    return None if _accounts(root) else "no control groups of version 2 count memory here"


def _exports(root: Path, release: str) -> bool | None:
    """By the list that modules are built with, as the driver's own build looks; else by the kernel's list of symbols. None: neither tells."""
    built = _lines(root / "lib/modules" / release / "build/Module.symvers")
    if built is not None:
        return any(line.split("\t")[1:2] == [SYMBOL] for line in built)
    symbols = _lines(root / "proc/kallsyms")
    exported = [
        name for name in (line.split()[2:3] for line in symbols or ()) if name and name[0].startswith("__ksymtab_")
    ]
    return [f"__ksymtab_{SYMBOL}"] in exported if exported else None  # a kernel may list functions only


def _accounts(root: Path) -> bool:
    return any("memory" in line.split() for line in _lines(root / "sys/fs/cgroup/cgroup.controllers") or ())


def _lines(path: Path) -> list[str] | None:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return None
