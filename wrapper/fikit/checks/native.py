"""Python and the native files of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fikit.checks.check import Check, fail, ok
from fikit.slurm import elf
from fikitd import paths

OLDEST_PYTHON = (3, 11)
NEWEST_GLIBC = (2, 28)  # the shim is loaded into programs we did not build (architecture.md, D3)
REBUILD = "run `make build`"


def area() -> Iterator[Check]:
    version = sys.version.split()[0]
    if sys.version_info < OLDEST_PYTHON:
        yield fail("Python", f"{version} is too old", "install Python 3.11 or newer and run `make setup`")
    else:
        yield ok("Python", version)
    shim, emulator = paths.shim(), paths.emulator_dir() / "libcuda.so.1"
    for name, path in (("shim", shim), ("emulated GPU", emulator), ("emuctl", paths.emuctl())):
        if not path.is_file():
            yield fail(name, f"{path} does not exist", REBUILD)
    if shim.is_file():
        yield preload(shim)
        yield symbols(shim)


def slurm_files() -> Path:
    """Where an installed fikit has its Slurm files, by the name that stays when Python's version changes."""
    lasting = Path(sys.prefix) / "native" / "slurm"
    return lasting if lasting.is_dir() else paths.slurm_dir()


def preload(shim: Path) -> Check:
    """ld.so reports a library that cannot be preloaded on stderr and goes on without it."""
    for entry in dict.fromkeys((str(shim), paths.preload_entry(shim))):
        env = {**os.environ, "LD_PRELOAD": entry}
        done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=False, timeout=10)
        if done.returncode or done.stderr:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            advice = "install fikit at a path without spaces and colons" if re.search("[ :]", entry) else REBUILD
            return fail("shim", f"{entry} cannot be loaded: {said}", advice)
    for copy in sorted(shim.parent.glob(f"*/{shim.name}")):
        if elf.is_64_bit(copy) and copy.read_bytes() != shim.read_bytes():
            return fail("shim", f"{copy} is not the same as {shim}", REBUILD)
    return ok("shim", str(shim))


def symbols(shim: Path) -> Check:
    """The newest glibc that the library asks for, from its version references."""
    try:
        needed = elf.needed_versions(shim)
    except (OSError, ValueError) as error:
        return fail("glibc symbols", str(error), REBUILD)
    matches = (re.match(r"GLIBC_(\d+)\.(\d+)", name) for name in needed)
    found = {(int(match[1]), int(match[2])) for match in matches if match}
    newest = max(found, default=(2, 0))
    text = f"needs glibc {newest[0]}.{newest[1]}"
    if newest > NEWEST_GLIBC:
        limit = ".".join(map(str, NEWEST_GLIBC))
        return fail(
            "glibc symbols",
            f"{text}, newer than {limit}",
            "build it with symbols no newer than that, or old programs cannot start",
        )
    return ok("glibc symbols", text)
