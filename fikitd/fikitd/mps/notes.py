"""Where MPS has its files, and what fikitd notes of each control daemon that it began: for the next fikitd, and for whoever asks how MPS is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fikitd.base import schema
from fikitd.base.schema import name, null_or, several, text, whole
from fikitd.gpus.devices import digits
from fikitd.store.storage import read_bounded, write_atomic

DIRECTORY: Final = "mps"  # in run_dir
NOTE: Final = ".json"
LOGS: Final = ".log"
MOST_BYTES: Final = 65536
MOST_JOBS: Final = 4096
MOST_UID: Final = 2**32 - 1


@dataclass(frozen=True)
class State:
    """What the next fikitd has to know. `pid`, `started`: of the control daemon; `jobs`: who was told to join.

    `owner`: the uid of the one user whose programs the server takes; None: it takes those of all users.
    """

    uuid: str
    pid: int
    started: int
    jobs: list[str]
    owner: int | None = None

    def save(self, file: Path) -> None:
        """OSError: it cannot be noted."""
        write_atomic(file, json.dumps(asdict(self)).encode(), 0o600)


_STATE: Final = schema.fields(
    {"uuid": text(96), "pid": whole(1), "started": whole(1), "jobs": several(name, MOST_JOBS)},
    {"owner": null_or(whole(0, MOST_UID))},
)


@dataclass(frozen=True)
class Places:
    """Of one GPU, in RUN_DIR/mps: the pipe directory, which users enter; the logs and the note, which only the daemon's user reads."""

    pipes: Path
    logs: Path
    note: Path


def places(directory: Path, uuid: str, owner: int | None = None) -> Places:
    """Of a GPU's control daemon, whose server takes one user's programs (`owner`) or those of all (None).

    Each owner has a pipe directory of its own. A program that was told to join another user's server, and does not ask fikitd first,
    finds no directory then and runs without MPS; in the same directory NVIDIA's daemon would keep the program waiting.
    """
    name = digits(uuid)[:13].lower()
    pipes = name if owner is None else f"{name}-{owner}"
    return Places(directory / pipes, directory / f"{name}{LOGS}", directory / f"{name}{NOTE}")


def pipe_directories(directory: Path) -> list[Path]:
    """Of all GPUs."""
    return sorted(each for each in directory.glob("*") if each.suffix != LOGS and each.is_dir())


def read(file: Path) -> State:
    """OSError, ValueError: it cannot be read, or is no such note."""
    return State(**_STATE(schema.document(read_bounded(file, MOST_BYTES)), "the note"))


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{NOTE}"))


def found(directory: Path) -> list[State] | None:
    """All that can be understood; None where there are some that this user may not read."""
    states: list[State] = []
    for file in files(directory):
        try:
            states.append(read(file))
        except PermissionError:
            return None
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return states
