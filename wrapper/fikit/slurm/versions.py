"""Which Slurm is installed here, and which one a plugin was built for: Slurm loads none of another release line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fikit.slurm import elf

SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
Version = tuple[int, ...]
# Release lines under which fikit's tests run, and those of which no Debian has packages: fikit's Lua and plugin were checked
# against their sources (what job_submit.lua is told, how options travel, what prologs find), and built for their headers.
TESTED = ("22.05", "24.11", "26.05")
READ = ("25.05", "25.11")


# From here on Slurm can give a sharing job the least loaded GPU (SelectTypeParameters=LL_SHARED_GRES; its manual names it from 23.11
# on, tried with 24.11 and 26.05). 22.05 does not start with that word.
SPREADS = (24, 11)
# From here on the type of the GPU that a waiting job asks for can be changed (tried with 24.11); 22.05 refuses it.
CHANGES_TYPES = (24, 11)


def installed() -> Version | None:
    """(22, 5, 8), or None without Slurm. A node has slurmd; a login node has sinfo, which answers only with a slurm.conf."""
    for name in ("slurmd", "sinfo"):
        if program := shutil.which(name, path=SYSTEM_PATH):
            done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False, timeout=10)
            if match := re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout):
                return tuple(int(part) for part in match.groups())
    return None


def line(version: Version) -> str:
    """The release line, as people name it: "22.05" of (22, 5, 8)."""
    return f"{version[0]}.{version[1]:02}"


def known(version: Version) -> str:
    """What fikit knows of a release line, as the end of "22.05.8, ..."."""
    if line(version) in TESTED:
        return "under which fikit is tested"
    why = "whose sources fikit was checked against" if line(version) in READ else "which nobody has tried with fikit"
    return f"{why}; its tests run under {', '.join(TESTED)}"


def built_for(plugin: Path) -> Version:
    """Year and month of the Slurm whose headers a plugin was built with. Raises OSError or ValueError when it does not say."""
    number = elf.constant(plugin, "plugin_version")
    return number >> 16 & 0xFF, number >> 8 & 0xFF


def mismatch(plugin: Path, version: Version) -> str | None:
    """What is wrong when Slurm of `version` will not load `plugin`; None when it will. Raises as built_for does."""
    built = built_for(plugin)
    return None if built == version[:2] else f"{plugin} was built for Slurm {line(built)}, this is {line(version)}"


def rebuild(version: Version) -> str:
    """What to do about a plugin that is missing or of another release line."""
    return (
        f"make slurm-plugin SLURM_INCDIR=DIR, where DIR/slurm/spank.h is Slurm {line(version)}'s (Debian: libslurm-dev)"
    )


if __name__ == "__main__":
    print(line(built_for(Path(sys.argv[1]))))
