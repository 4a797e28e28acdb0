"""Where the native files of this installation are (docs/design/contracts.md, "Native files")."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path


def native_dir() -> Path:
    """The directory of native files: `FIKIT_NATIVE`, else `native` beside the extension module.

    The module is located, not imported, so that a question about a path starts no native code.
    """
    override = os.environ.get("FIKIT_NATIVE")
    if override:
        return Path(override)
    spec = find_spec("fikitd._core")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "fikit's native files were not found beside fikitd; run `make build` or set FIKIT_NATIVE"
        )
    return Path(spec.origin).parent / "native"


def shim() -> Path:
    """The library that is preloaded into managed jobs."""
    return native_dir() / "libfikit_shim.so"


def preload_entry(library: Path) -> str:
    """What LD_PRELOAD says of `library`: each program's own loader replaces `$PLATFORM` by its processor's name, so that it
    finds what it can load (shim/CMakeLists.txt; the SPANK plugin's fikit_preload.c writes the same).
    """
    for_every_loader = library.parent / platform.machine() / library.name
    return str(library.parent / "$PLATFORM" / library.name if os.access(for_every_loader, os.R_OK) else library)


def emulator_dir() -> Path:
    """Directory of the emulated `libcuda.so.1`, for LD_LIBRARY_PATH."""
    return native_dir() / "emulator"


def emuctl() -> Path:
    """The program that inspects and resets emulated devices."""
    return native_dir() / "bin" / "emuctl"


def slurm_dir() -> Path:
    """Directory of the SPANK plugin and the Lua modules."""
    return native_dir() / "slurm"
