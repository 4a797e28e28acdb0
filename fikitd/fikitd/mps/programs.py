"""NVIDIA's two programs of MPS on this machine: where they are, and whether their MPS serves several users at a time.

A driver's programs need not be in PATH: NVIDIA's containers have them in /usr/local/nvidia/bin. The control daemon finds its server by
execlp(3), which searches PATH alone; so the daemon gets a PATH with the directories of both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

PROGRAM: Final = "nvidia-cuda-mps-control"
SERVER_PROGRAM: Final = "nvidia-cuda-mps-server"
SEVERAL_USERS: Final = "-multiuser-server"  # NVIDIA: all users' programs are clients of one server, which is root's
DRIVER: Final = "libcuda.so.1"
DRIVERS_OWN: Final = "/usr/local/nvidia/bin"
SYSTEM: Final = "/usr/sbin:/sbin"  # Debian has the server there, and ldconfig
PLACES: Final = f"in PATH, beside {DRIVER} or in {DRIVERS_OWN}"
LDCONFIG_S: Final = 2.0
PROGRAM_BYTES: Final = 64 * 2**20  # more than it has


def find(name: str) -> Path | None:
    """The program of this name: in PATH, else beside the driver's library, else where NVIDIA's containers have it. None: it is not there."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join([SYSTEM, *_beside_driver(), DRIVERS_OWN]))
    return Path(found) if found else None


def _beside_driver() -> list[str]:
    """The directories in which the dynamic linker's cache has the driver. None where ldconfig is missing or hangs."""
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path=SYSTEM)
    if ldconfig is None:
        return []
    listed = ""
    with suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(
            [ldconfig, "-p"], capture_output=True, text=True, errors="replace", timeout=LDCONFIG_S, check=False
        ).stdout
    found = [line.partition(" => ")[2] for line in listed.splitlines() if line.split()[:1] == [DRIVER]]
    return [str(Path(path).parent) for path in found if path.startswith("/")]


def path_for(program: Path) -> str:
    """PATH of a control daemon: ours, and the directories of `program`, which is the daemon's, and of its server."""
    server = find(SERVER_PROGRAM)
    own = os.environ.get("PATH", os.defpath).split(os.pathsep)
    more = [str(each.parent) for each in (program, server) if each is not None]
    return os.pathsep.join([*own, *(each for each in dict.fromkeys(more) if each not in own)])


def serves_several_users(program: Path) -> bool:
    """Whether this control daemon's program knows SEVERAL_USERS, whose name is in it then. OSError: it cannot be read."""
    with program.open("rb") as file:
        return SEVERAL_USERS.lstrip("-").encode() in file.read(PROGRAM_BYTES)
