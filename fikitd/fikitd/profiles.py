"""ProfileStore: profiles on shared storage, PROFILE_DIR/<uid>/<key>/<run>.json, one immutable file per run and process."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd import profile_format
from fikitd.profile_format import Kernel, Profile
from fikitd.profile_rhythm import Rhythm
from fikitd.storage import read_bounded, reason, write_atomic
from fikitd.untrusted import is_name

# What one load may cost the daemon: a profile of 4000 kernels has about 2 MiB. Older runs say less about today's program.
MAX_FILE_BYTES: Final = 8 * 2**20
MAX_TOTAL_BYTES: Final = 32 * 2**20
MAX_RUNS: Final = 16
_SAMPLED: Final = "-sampled.json"  # a run that was not measured: it knows little about much, so there are many of them

_log = logging.getLogger("fikitd")


class ProfileStore:
    """Reads and writes in the calling thread with its rights; the daemon calls it through `storage.Storage`."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def keys(self, uid: int) -> list[str]:
        """The profile keys of a user; empty when there are none or they cannot be seen."""
        try:
            return sorted(path.name for path in (self.directory / str(uid)).iterdir() if is_name(path.name))
        except OSError:
            return []

    def devices(self, uid: int, key: str) -> list[str]:
        """Names of the devices on which `key` was measured, each once."""
        return sorted({str(profile["device"]["name"]) for profile in self._runs(uid, key, _log.warning)})

    def load(
        self, uid: int, key: str, device: str | None = None, warn: Callable[[str], None] = _log.warning
    ) -> Profile | None:
        """All runs of `key` on devices of that name (None: of the newest run's name), merged; None when there are none.

        A file that is no profile is skipped with one `warn` that names it. OSError when the directory cannot be read.
        """
        runs = self._runs(uid, key, warn)
        if device is None and runs:
            device = max(runs, key=lambda profile: str(profile["created"]))["device"]["name"]
        return profile_format.merge(profile for profile in runs if profile["device"]["name"] == device)

    def save(self, uid: int, profile: Profile, run: str, *, sampled: bool = False) -> Path:
        """Store one run, complete and for good; returns its file. OSError when it could not, ValueError when it is no profile.

        Runs that no reader takes any more are removed.
        """
        document = profile_format.checked(profile)
        if not is_name(run):
            raise ValueError("run is not a name")
        directory = self._of(uid, document["key"])
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check_owner(uid)
        path = directory / (run + (_SAMPLED if sampled else ".json"))
        data = _encoded(document)
        if len(data) > MAX_FILE_BYTES:  # programs of so many kernels learn anew where they wait
            data = _encoded({**document, "rhythm": None})
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it has {len(data)} bytes, and no reader takes more than {MAX_FILE_BYTES}")
        write_atomic(path, data, mode=0o600)
        names = [found.name for found in directory.glob("[!.]*.json") if found.name.endswith(_SAMPLED) == sampled]
        for old in by_age(names)[:-MAX_RUNS]:
            (directory / old).unlink(missing_ok=True)
        return path

    def prepare(self, uid: int, gid: int) -> None:
        """As root, make the user's directory when only root may; where that fails, `save` says what is wrong."""
        if os.geteuid() != 0:
            return
        with suppress(OSError):
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            if self.directory.stat().st_mode & 0o022:
                return  # users make their own, and could swap ours before it is theirs
            own = self.directory / str(uid)
            own.mkdir(mode=0o700)
            os.chown(own, uid, gid, follow_symlinks=False)

    def _runs(self, uid: int, key: str, warn: Callable[[str], None]) -> list[Profile]:
        directory = self._of(uid, key)
        if not directory.is_dir():
            return []
        self.check_owner(uid)
        names = by_age([path.name for path in directory.iterdir() if path.suffix == ".json" and path.name[0] != "."])
        runs: list[Profile] = []
        room = MAX_TOTAL_BYTES
        for name in _worth_reading(names):
            try:
                data = read_bounded(directory / name, MAX_FILE_BYTES)
                room -= len(data)
                if room < 0:
                    break
                profile = profile_format.parse(data)
            except FileNotFoundError:
                continue  # a newer sampled run has taken its place
            except (OSError, ValueError) as error:
                warn(f"profile file {directory / name} was skipped: {reason(error)}")
            else:
                runs.append(profile)
        return runs

    def _of(self, uid: int, key: str) -> Path:
        if not is_name(key):
            raise ValueError("key is not a profile name")
        return self.directory / str(uid) / key

    def check_owner(self, uid: int) -> None:
        """PermissionError when a user's directory is not the user's."""
        # In a directory that everybody may write, somebody else may have come first.
        owner = (self.directory / str(uid)).lstat().st_uid
        if owner not in (0, uid):
            raise PermissionError(f"{self.directory / str(uid)} belongs to uid {owner}, not to uid {uid}")


def by_age(names: list[str]) -> list[str]:
    """Names of runs, which begin with their time, the oldest first.

    A run of a later day was stored by a node whose clock was wrong: it counts as old, or it would be the newest for years.
    """
    later = time.strftime("%Y%m%d", time.gmtime(time.time() + 2 * 86400))
    return sorted(names, key=lambda name: (not (name[:8].isdecimal() and name >= later), name))


def _worth_reading(names: list[str]) -> list[str]:
    """The newest MAX_RUNS of names by age, newest first; sampled runs take at most half the room from measured ones."""
    measured = [name for name in names if not name.endswith(_SAMPLED)]
    chosen = set(measured[-MAX_RUNS // 2 :])
    others = [name for name in names if name not in chosen]
    chosen.update(others[len(chosen) - MAX_RUNS :])
    return [name for name in reversed(names) if name in chosen]


def _encoded(document: Profile) -> bytes:
    return json.dumps({k: v for k, v in document.items() if v is not None}, separators=(",", ":")).encode()


def document(
    *,
    key: str,
    command: list[str],
    created: str,
    device: dict[str, object],
    span_ns: int,
    launches: int,
    peak_bytes: int,
    kernels: Sequence[Kernel],
    rhythm: Rhythm | None = None,
) -> Profile:
    """The profile of one run, from what the native core measured."""
    return {
        "format": profile_format.FORMAT,
        "version": profile_format.VERSION,
        "key": key,
        "command": command,
        "created": created,
        "device": {"name": device["name"], "memory_bytes": device["memory_bytes"], "emulated": device["emulated"]},
        "span_ns": span_ns,
        "launches": launches,
        "peak_bytes": peak_bytes,
        "kernels": list(kernels),
        "rhythm": rhythm or None,
    }
