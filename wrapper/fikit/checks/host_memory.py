"""Memory that has left the GPU ([oversubscribe]): whether the kernel charges it to its job, so that --mem bounds it (docs/memory.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikitd.config import fikit_toml
from fikitd.config.oversubscribe import LOWER

from fikit.checks.check import Check, ok, warn

NAME: Final = "memory on the host"
SYMBOL: Final = "int_active_memcg"
OLDEST_KERNEL: Final = (5, 14)
ROOT: Final = Path("/")
"""NVIDIA's driver charges pages to a job's control group where it is built for a kernel that exports this (open-gpu-kernel-modules
595.45.04, conftest.sh)."""


def area() -> Iterator[Check]:
    """Nothing where no job may have memory on the host."""
    try:
        site = fikit_toml.load().oversubscribe
    except fikit_toml.ConfigError:
        return  # said elsewhere
    if site.allow == LOWER:
        yield charged(ROOT, os.uname().release, site.host_gib)


def charged(root: Path, release: str, host_gib: int) -> Check:
    """root: of the machine's file system. release: of its kernel, as uname says. host_gib: what a job may have on the host."""
    why = _uncharged(root, release)
    if why is None:
        return ok(
            NAME,
            f"kernel {release} exports {SYMBOL}: NVIDIA's driver charges what left the GPU to its job, and --mem bounds it",
        )
    return warn(
        NAME,
        f"{why}: nobody counts what left the GPU against its job's --mem",
        f"keep up to {host_gib} GiB (host_gib) per job of the node's memory free for it: a lower RealMemory= in slurm.conf",
    )  # fmt: skip


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
