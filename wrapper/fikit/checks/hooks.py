"""The site's own prolog, epilog and health check: on a shared GPU they find a neighbour's memory and programs, and may drain the node for it."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikitd.store.storage import read_bounded

from fikit.checks.check import Check, warn
from fikit.slurm.config import SlurmConfig

NAME: Final = "prologs"
PAGE: Final = '"Prologs, epilogs and health checks" in docs/admin.md'
MAX_BYTES: Final = 2**20

_SETTING = re.compile(r"(?:prolog|epilog|healthcheckprogram)(?:\[\d+\])?")
# What asks about the memory or the programs of a GPU, or takes the GPU for idle.
_ASKS = re.compile(
    r"query-compute-apps|memory[._]used|memory[._]free|\bpmon\b|gpu-reset|nvidia-smi\s[^\n;|&]*(?:-r\b|-i\b[^\n;|&]*-r\b)"
    r"|(?:fuser|lsof)\b[^\n;|]*/dev/nvidia|dcgmi\s+(?:diag|health)|check_nvsmi_healthmon"
)
_KNOWS = re.compile(r"\bfikit\b")  # it looks at the records, or somebody has said why it need not


def area(conf: SlurmConfig) -> Iterator[Check]:
    """Nothing where no script asks. A script that names fikit knows that a GPU may be shared."""
    for setting, value in sorted(conf.settings.items()):
        if not _SETTING.fullmatch(setting):
            continue
        for path in _files(value):
            found = _asks(path)
            if found:
                yield warn(NAME, f'{path} asks the GPU for "{found}": a neighbour on a shared GPU looks like what a job has left behind, '
                           "and a check that fails drains the node", f"leave out GPUs that a job still has: {PAGE}")  # fmt: skip


def _files(value: str) -> Iterator[Path]:
    """A setting is a file or a pattern, or several of them."""
    for word in value.split(","):
        if word.strip().startswith("/"):
            yield from (Path(name) for name in sorted(glob.glob(word.strip())))  # noqa: PTH207 - an absolute pattern


def _asks(path: Path) -> str:
    """What the script asks; empty for nothing, and for what is no text that the caller may read."""
    try:
        text = read_bounded(path.resolve(), MAX_BYTES).decode()
    except (OSError, ValueError):
        return ""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = _ASKS.search(lines)
    return "" if found is None or _KNOWS.search(text) else found[0]
