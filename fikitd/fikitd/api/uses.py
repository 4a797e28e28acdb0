"""How busy the GPU of a job was whose launches fikit did not see, because it had the GPU alone, or launched nothing: DIR/<uid>/<job>.use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fikitd.base import schema
from fikitd.base.schema import amount, flag, moment, name, null_or, one_of, several, text, whole
from fikitd.store.user_files import Kind, UserFiles

FORMAT: Final = "fikit-use"
VERSION: Final = 1
SUFFIX: Final = ".use"
MAX_BYTES: Final = 2**16
MOST_GPUS: Final = 64

Use = dict[str, Any]
"""One job's, as `checked` lets it through.

shared: it had options of fikit's, or shards, and no program of it used its GPU through fikit. whole: how many GPUs it certainly had to itself, where `gpus`
does not say it; 0 or missing, of a shared one: a share, or a GPU, which nobody knows. split: it had, or may have had, an instance (MIG), of which NVML
does not say how busy it is. looks: so often, `every_s` seconds apart, NVML was asked. busy: by its
word, the mean of these over the job's GPUs, 0 to 1; peak_bytes: most memory in use on all of them together. None: not known.
"""

_GPU = schema.fields({"uuid": text(96), "name": text(256), "emulated": flag, "memory_bytes": null_or(whole())})
_USE = schema.fields(
    {
        "format": one_of(FORMAT), "version": whole(VERSION, VERSION), "job": name, "uid": whole(0, 2**32 - 1), "node": text(256),
        "name": text(1024), "gpus": several(_GPU, MOST_GPUS), "started": moment, "ended": moment, "shared": flag, "looks": whole(0, 2**32),
        "every_s": amount(86_400), "busy": null_or(amount(1)), "peak_bytes": null_or(whole()),
    },
    {"whole": whole(0, MOST_GPUS), "split": flag},
)  # fmt: skip


class UseError(Exception):
    """A stored use that cannot be read; one sentence names the file."""


def checked(document: Any) -> Use:
    """`document` with known fields only, all within bounds; ValueError says what is not."""
    use: Use = _USE(document, "the use")
    return use


class UseStore:
    """Beside reports. Reads and writes in the calling thread with its rights: users see their own, root everybody's."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        kind = Kind("record of use", SUFFIX, MAX_BYTES, lambda data: checked(schema.document(data)), UseError)
        self._files = UserFiles(self.directory, kind)

    def load(self, job: str, uid: int | None = None) -> Use | None:
        """That of `job`, of user `uid`'s where several have one; None when there is none, UseError when it cannot be read."""
        return self._files.load(job, uid)

    def newest(self, since_s: float = 0.0, uid: int | None = None, most: int = 200_000) -> list[Use]:
        """Those that were written since (Unix time), of user `uid` alone, the newest first; what cannot be read is left out."""
        found: list[Use] = []
        for file in self._files.newest(since_s):
            if len(found) >= most:
                break
            if uid not in (None, file.uid):
                continue
            try:
                found.append(self._files.read(file))
            except (FileNotFoundError, UseError):
                continue
        return found

    def save(self, use: Use) -> Path:
        """Store it in its user's directory, replacing an earlier one of the same job."""
        return self._files.save(use, json.dumps(use).encode() + b"\n")
