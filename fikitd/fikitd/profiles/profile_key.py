"""Which program a process runs, as profiles know it: `<slug>-<8 hex>` of its program file, its script, and the image of its container.

Arguments are not in the key: a run with another learning rate or another output directory is a run of the same program. They say
which of its runs are the most like this one (`profile_match`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fikitd.base.validation import printable, slug

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?", re.ASCII)
_OPTIONS_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_MAX_ARGUMENTS_BYTES: Final = 2**20
_MAX_KEPT_CHARACTERS: Final = 2**15
_MAX_KEPT_WORDS: Final = 2**12
_DIGITS: Final = 8  # hexadecimal ones of a digest

# Of a job's several processes the first often does what the others do not (it logs, stores, evaluates).
FIRST: Final = "first"
OTHERS: Final = "others"
ROLES: Final = ("", FIRST, OTHERS)  # "": the only one, as far as is known
# Who starts processes tells each its number and how many there are; the innermost starter first.
_RANKS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

# Apptainer and Singularity tell programs in a container from which image they run: a path, or an address.
_IMAGES: Final = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")


@dataclass(frozen=True)
class Program:
    """What a process runs.

    `key`: of its profiles. `earlier_key`: what fikit called them when arguments were in the key. `role`: one of ROLES.
    """

    key: str
    command: list[str]
    role: str = ""
    earlier_key: str = ""

    @property
    def variant(self) -> str:
        """Of its arguments and its role: runs with the same are the same work."""
        return variant_of(self.command, self.role)


def variant_of(command: Sequence[str], role: str) -> str:
    """Eight hexadecimal digits of the arguments of a command, and of the role that the process has among its job's."""
    return _digest(role, *(printable(word) for word in command[1:]))


def words_of(key: str) -> str:
    """A key without its digest: what builds of one program, and its keys of before, have in common."""
    return key[: -_DIGITS - 1] if re.fullmatch(rf".+-[0-9a-f]{{{_DIGITS}}}", key, re.ASCII) else key


def program_of_process(proc: Path, pid: int) -> Program:
    """What a living process runs; OSError when it cannot be read.

    Reads the process's memory and program file, which their owner can make hang: for storage threads only.
    """
    command = _words(proc / str(pid) / "cmdline")
    try:
        program = (proc / str(pid) / "exe").readlink().name.removesuffix(" (deleted)")
        identity = "" if _PYTHON.fullmatch(program) else identity_of_file(proc / str(pid) / "exe")
    except PermissionError:  # a process that changed its group, say
        program, identity = Path(command[0]).name, ""
    environment = _environment(proc, pid)
    key = derive(command, program, identity, container_of(environment))
    return Program(key, _shortened(command), role_of(environment), derive_earlier(command, program, identity))


def _shortened(command: list[str]) -> list[str]:
    """As much of a command as is kept."""
    room = _MAX_KEPT_CHARACTERS
    for number, word in enumerate(command):
        room -= len(word)
        if room < 0 or number == _MAX_KEPT_WORDS:
            return command[:number]
    return command


def _words(path: Path) -> list[str]:
    with path.open("rb") as file:
        raw = file.read(_MAX_ARGUMENTS_BYTES)
    return [word.decode("utf-8", "replace") for word in raw.removesuffix(b"\0").split(b"\0")]


def _environment(proc: Path, pid: int) -> dict[str, str]:
    """With which it began; nothing where that is not ours to read: it is then as if it were alone, and in no container."""
    try:
        pairs = (word.partition("=") for word in _words(proc / str(pid) / "environ"))
    except OSError:
        return {}
    return {name: value for name, _, value in pairs}


def container_of(environment: Mapping[str, str]) -> str:
    """Base name of the image in whose container a process with these variables runs; empty where none is visible."""
    for name in _IMAGES:
        if image := environment.get(name, "").rstrip("/").rpartition("/")[2]:
            return image
    return ""


def role_of(environment: Mapping[str, str]) -> str:
    """The role of a process with these variables (torchrun, Open MPI, PMI, srun)."""
    for rank, size in _RANKS:
        if (many := environment.get(size, "")).isdecimal() and len(many) < _DIGITS and int(many) > 1:
            return FIRST if environment.get(rank, "").strip("0") == "" else OTHERS
    return ""


def identity_of_file(path: Path) -> str:
    """Size and hash of the first 4 KiB: there a linker puts the build id, so a rebuilt program is another one."""
    with path.open("rb") as file:
        head = file.read(4096)
        return f"{os.fstat(file.fileno()).st_size}:{hashlib.sha256(head).hexdigest()}"


def derive(command: list[str], program: str, identity: str, container: str = "") -> str:
    """The key of a command line, the base name of the program that runs, that file's identity, and its container's image.

    Every Python is the same program: each virtual environment has its own, and the same script launches the same kernels. In another
    image it finds other libraries, which launch others.
    """
    program, identity, script = _told_apart(command, program, identity)
    subject = _subject(command[1:]) if program == "python" else ""
    image = [container] if container and program == "python" else []
    return _named(program, script, _digest("program", program, identity, subject, *image))


def derive_earlier(command: list[str], program: str, identity: str) -> str:
    """The key that the same process had when arguments were part of it."""
    program, identity, script = _told_apart(command, program, identity)
    return _named(program, script, _digest(program, identity, *command[1:]))


def _told_apart(command: list[str], program: str, identity: str) -> tuple[str, str, str]:
    if not _PYTHON.fullmatch(program):
        return program, identity, ""
    return "python", "python", script_of(command[1:])


def _named(program: str, script: str, digest: str) -> str:
    words = slug("-".join(word for word in (program, script) if word), 54) or "program"
    return f"{words}-{digest}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_DIGITS]


def script_of(arguments: list[str]) -> str:
    """Base name of the script or the module that Python's arguments run; empty for `-c` and for standard input."""
    option, text = _run_by(arguments)
    return "" if option in ("-c", "-") else text if option else Path(text).name.removesuffix(".py")


def _subject(arguments: list[str]) -> str:
    """What Python's arguments run: a script by its name, a module, or the code of `-c` itself."""
    option, text = _run_by(arguments)
    return f"{option} {text}" if option else Path(text).name


def _run_by(arguments: list[str]) -> tuple[str, str]:
    """(option, what it names): ("-m", module), ("-c", code), ("-", "") for standard input, ("", script)."""
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word == "-":
            return word, ""
        if word in ("-c", "-m"):
            return word, arguments[position + 1] if position + 1 < len(arguments) else ""
        if not word.startswith("-"):
            return "", word
        position += 2 if word in _OPTIONS_WITH_VALUE else 1
    return "-", ""
