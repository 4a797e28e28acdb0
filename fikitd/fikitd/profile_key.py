"""Which profile a process uses when its job names none: `<slug>-<8 hex>` from its command line and its program file."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

from fikitd.untrusted import slug

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?", re.ASCII)
_OPTIONS_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_MAX_ARGUMENTS_BYTES: Final = 2**20


def key_of_process(proc: Path, pid: int) -> tuple[str, list[str]]:
    """(key, command) of a living process; OSError when it cannot be read.

    Reads the process's memory and program file, which their owner can make hang: for storage threads only.
    """
    with (proc / str(pid) / "cmdline").open("rb") as file:
        raw = file.read(_MAX_ARGUMENTS_BYTES)
    command = [word.decode("utf-8", "replace") for word in raw.removesuffix(b"\0").split(b"\0")]
    try:
        program = (proc / str(pid) / "exe").readlink().name.removesuffix(" (deleted)")
        identity = "" if _PYTHON.fullmatch(program) else identity_of_file(proc / str(pid) / "exe")
    except PermissionError:  # a process that changed its group, say
        program, identity = Path(command[0]).name, ""
    return derive(command, program, identity), command


def identity_of_file(path: Path) -> str:
    """Size and hash of the first 4 KiB: there a linker puts the build id, so a rebuilt program is another one."""
    with path.open("rb") as file:
        head = file.read(4096)
        return f"{os.fstat(file.fileno()).st_size}:{hashlib.sha256(head).hexdigest()}"


def derive(command: list[str], program: str, identity: str) -> str:
    """The key of a command line, the base name of the program that runs, and that file's identity.

    Every Python is the same program: each virtual environment has its own, and the same script launches the same kernels.
    """
    arguments = command[1:]
    if _PYTHON.fullmatch(program):
        program, identity = "python", "python"
    digest = hashlib.sha256("\0".join((program, identity, *arguments)).encode("utf-8", "replace")).hexdigest()[:8]
    script = script_of(arguments) if program == "python" else ""
    words = slug("-".join(word for word in (program, script) if word), 54) or "program"
    return f"{words}-{digest}"


def script_of(arguments: list[str]) -> str:
    """Base name of the script or the module that Python's arguments run; empty for `-c` and for standard input."""
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word in ("-c", "-"):
            return ""
        if word == "-m":
            return arguments[position + 1] if position + 1 < len(arguments) else ""
        if not word.startswith("-"):
            return Path(word).name.removesuffix(".py")
        position += 2 if word in _OPTIONS_WITH_VALUE else 1
    return ""
