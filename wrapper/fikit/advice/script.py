"""What a batch script asks for in its #SBATCH lines, as far as advice needs it: sbatch(1)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fikitd.store.storage import read_bounded, reason

from fikit.errors import UserError

MOST_BYTES: Final = 4 * 2**20
SHORT: Final = {
    "J": "job-name",
    "t": "time",
    "G": "gpus",
    "p": "partition",
    "w": "nodelist",
    "N": "nodes",
    "n": "ntasks",
}
OURS: Final = (
    "fikit-priority",
    "fikit-mem",
    "fikit-mem-host",
    "fikit-profile",
    "fikit-max-slowdown",
    "fikit-max-delay",
)
WITH_VALUE: Final = {*SHORT.values(), "gres", "gpus-per-node", "gpus-per-task", *OURS}
FLAGS: Final = {"fikit-measure", "exclusive"}


def read(path: Path) -> str:
    """UserError: it cannot be read, or is no text of a script's size."""
    try:
        return read_bounded(path.resolve(strict=True), MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} cannot be read as a batch script: {reason(error)}") from None


def options(text: str) -> dict[str, str]:
    """The options of its #SBATCH lines, by their long names, the last of each; of flags the value is "". Lines that no shell could split are
    left out, as are options that advice does not need."""
    found: dict[str, str] = {}
    for line in _directives(text):
        try:
            found.update(parsed(shlex.split(line, comments=True)))
        except ValueError:
            continue
    return found


def with_environment(asked: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """FIKIT_PRIORITY and its like, which options beat."""
    said = {name: environment.get(name.upper().replace("-", "_"), "") for name in OURS}
    return {**{name: value for name, value in said.items() if value}, **asked}


def parsed(words: Sequence[str]) -> dict[str, str]:
    """Of the words of a command line: `--time=1:00`, `--time 1:00`, `-t 1:00`, `-t1:00`."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in FLAGS:
                found[name] = value
            elif name in WITH_VALUE and (value or not equals):
                found[name] = value if equals else next(rest, "")
        elif word.startswith("-") and (name := SHORT.get(word[1:2], "")):
            found[name] = word[2:].removeprefix("=") or next(rest, "")
    return found


def _directives(text: str) -> Iterator[str]:
    """sbatch looks no further than the first line that is a command."""
    for line in text.splitlines():
        bare = line.strip()
        if bare and not bare.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            yield line.removeprefix("#SBATCH")
