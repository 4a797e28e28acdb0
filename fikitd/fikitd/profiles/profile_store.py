"""ProfileStore: profiles on shared storage, PROFILE_DIR/<uid>/<key>/<run>.v<variant>.json, one immutable file per run and process.

What a user's jobs leave there is bounded, for a job may have any number of programs: the profiles that were added to longest ago go.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.base.validation import AHEAD_S, is_name
from fikitd.profiles import profile_format, profile_match
from fikitd.profiles.profile_format import Kernel, Profile
from fikitd.profiles.profile_key import Program, words_of
from fikitd.profiles.profile_match import Match
from fikitd.profiles.profile_rhythm import Rhythm
from fikitd.profiles.run_files import MAX_FILES, beyond, name_of, newest
from fikitd.store import own_directory
from fikitd.store.storage import read_bounded, reason, write_atomic

# What one load may cost the daemon: a profile of 4000 kernels has about 2 MiB. Older runs say less about today's program.
MAX_FILE_BYTES: Final = 8 * 2**20
MAX_TOTAL_BYTES: Final = 32 * 2**20
MOST_LOOKED_AT: Final = 50_000  # entries of a directory of the user's
MAX_KEYS: Final = 512  # of one user
MAX_USER_BYTES: Final = 2**30
LARGE_BYTES: Final = MAX_USER_BYTES // (MAX_KEYS * MAX_FILES)  # smaller ones are within that, whatever their number
MAX_RELATIVES: Final = 8  # other keys of a program: its builds, and its keys when arguments were part of them

_log = logging.getLogger("fikitd")


class ProfileStore:
    """Reads and writes in the calling thread with its rights; the daemon calls it through `storage.Storage`."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def keys(self, uid: int) -> list[str]:
        """The profile keys of a user; empty when there are none or they cannot be seen."""
        try:
            own = own_directory.of(self.directory, uid)
            return sorted({entry.name for directory in own for entry in _keys_in(directory)})
        except OSError:
            return []

    def devices(self, uid: int, key: str) -> list[str]:
        """Names of the devices on which `key` was measured, each once."""
        return sorted({str(profile["device"]["name"]) for profile in self._runs(uid, key, _log.warning)})

    def load(
        self, uid: int, key: str, device: str | None = None, warn: Callable[[str], None] = _log.warning
    ) -> Profile | None:
        """All runs of `key` on devices of that name (None: of the newest run's name), merged; None when there are none.

        A file that is no profile is skipped with one `warn` that names it. OSError when the directory cannot be read, or is
        on storage that is not mounted.
        """
        runs = self._runs(uid, key, warn)
        if device is None and runs:
            device = max(runs, key=lambda profile: str(profile["created"]))["device"]["name"]
        return profile_format.merge(profile for profile in runs if profile["device"]["name"] == device)

    def runs(self, uid: int, key: str, warn: Callable[[str], None] = _log.warning) -> list[Profile]:
        """Each run of `key` that readers take, by itself. As `load`."""
        return self._runs(uid, key, warn)

    def match(
        self,
        uid: int,
        program: Program,
        device: str,
        seen: Collection[int] = (),
        warn: Callable[[str], None] = _log.warning,
    ) -> Match:
        """What runs of a program on devices of that name say of one that has launched the kernels `seen` (identities) so far.

        A file that is no profile is skipped with one `warn` that names it. OSError as for `load`.
        """
        keys = [program.key, program.earlier_key, *self._relatives(uid, program)]
        runs: list[Profile] = []
        room = MAX_TOTAL_BYTES
        for key in dict.fromkeys(key for key in keys if key):
            found, room = self._read(uid, key, program.variant, room, warn)
            runs += found
        return profile_match.match((run for run in runs if run["device"]["name"] == device), program, seen)

    def may_know(self, uid: int, program: Program) -> bool:
        """Whether there is anything to `match` it with. OSError as for `load`."""
        keys = (program.key, program.earlier_key)
        return any(self.of(uid, key) is not None for key in keys if key) or bool(self._relatives(uid, program))

    def remove(self, uid: int, key: str) -> bool:
        """Remove all runs of `key`; whether there were any. OSError where that cannot be done."""
        if not is_name(key):
            raise ValueError("key is not a profile name")
        if (directory := self.of(uid, key)) is None:
            return False
        shutil.rmtree(directory)
        return True

    def bytes_of(self, uid: int, key: str) -> int:
        """What the runs of `key` take; 0 where nobody can say."""
        with suppress(OSError):
            if (directory := self.of(uid, key)) is not None:
                return _bytes_in(directory)
        return 0

    def save(
        self,
        uid: int,
        profile: Profile,
        run: str,
        *,
        sampled: bool = False,
        variant: str = "",
        warn: Callable[[str], None] = _log.warning,
    ) -> Path:
        """Store one run, complete and for good; returns its file. OSError when it could not, ValueError when it is no profile.

        Runs that no reader takes any more are removed; profiles beyond what a user may have as well, with one `warn`.
        """
        document = profile_format.checked(profile)
        if not is_name(run):
            raise ValueError("run is not a name")
        own = own_directory.make(self.directory, uid)
        directory = own / str(document["key"])
        new = _make(directory)
        path = directory / name_of(run, variant, sampled=sampled)
        data = _encoded(document)
        if len(data) > MAX_FILE_BYTES and document["rhythm"]:  # programs of so many kernels learn anew what those touch
            data = _encoded({**document, "rhythm": {**document["rhythm"], "accesses": None}})
        if len(data) > MAX_FILE_BYTES:  # and where they wait
            data = _encoded({**document, "rhythm": None})
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it has {len(data)} bytes, and no reader takes more than {MAX_FILE_BYTES}")
        write_atomic(path, data, mode=0o600)
        for old in beyond(_runs_in(directory), keep=path.name):
            (directory / old).unlink(missing_ok=True)
        if (new or len(data) > LARGE_BYTES) and make_room(own, directory.name):
            warn(
                f"profiles in {own} that were added to longest ago have been removed: fikit keeps {MAX_KEYS} of a user, "
                f"of {MAX_USER_BYTES >> 20} MiB together; give programs that do the same one --fikit-profile"
            )
        return path

    def prepare(self, uid: int, gid: int) -> None:
        """As root, make the user's directory when only root may; where that fails, `save` says what is wrong."""
        own_directory.prepare(self.directory, uid, gid)

    def of(self, uid: int, name: str) -> Path | None:
        """What is called `name` in the user's directory, if it is there. OSError when nobody can say."""
        for own in own_directory.of(self.directory, uid):
            if (own / name).exists():
                return own / name
        if not self.directory.exists() and not self.directory.parent.is_dir():
            own_directory.make_parent(self.directory)  # which says why it cannot
        return None

    def _runs(self, uid: int, key: str, warn: Callable[[str], None]) -> list[Profile]:
        return self._read(uid, key, None, MAX_TOTAL_BYTES, warn)[0]

    def _read(
        self, uid: int, key: str, variant: str | None, room: int, warn: Callable[[str], None]
    ) -> tuple[list[Profile], int]:
        """Runs of `key`, those of `variant` first, and how many bytes of `room` they leave."""
        if not is_name(key):
            raise ValueError("key is not a profile name")
        runs: list[Profile] = []
        if (directory := self.of(uid, key)) is None:
            return runs, room
        for name in newest(_runs_in(directory), variant):
            try:
                data = read_bounded(directory / name, MAX_FILE_BYTES, uid)
                if len(data) > room:
                    return runs, 0
                room -= len(data)
                profile = profile_format.parse(data)
            except FileNotFoundError:
                continue  # a newer sampled run has taken its place
            except (OSError, ValueError) as error:
                warn(f"profile file {directory / name} was skipped: {reason(error)}")
            else:
                runs.append(profile)
        return runs, room

    def _relatives(self, uid: int, program: Program) -> list[str]:
        """Other keys of the same words, the ones that were added to last."""
        words = words_of(program.key)
        latest = time.time() + AHEAD_S
        related = [
            entry
            for own in own_directory.of(self.directory, uid)
            for entry in _keys_in(own)
            if entry.name not in (program.key, program.earlier_key) and words_of(entry.name) == words != entry.name
        ]
        related.sort(key=lambda entry: _changed(entry, latest), reverse=True)
        return [entry.name for entry in related[:MAX_RELATIVES]]


def make_room(own: Path, newest: str) -> bool:
    """Remove profiles in a user's directory, those that were added to longest ago first, until it has no more than a user may have.
    `newest` stays. Whether one had to go.
    """
    keys = _keys_in(own)
    sizes = {entry.name: _bytes_in(Path(entry.path)) for entry in keys}
    latest = time.time() + AHEAD_S
    oldest = sorted((entry for entry in keys if entry.name != newest), key=lambda entry: _changed(entry, latest))
    left, room = len(keys), MAX_USER_BYTES - sum(sizes.values())
    gone = False
    for entry in oldest:
        if left <= MAX_KEYS and room >= 0:
            break
        shutil.rmtree(entry.path, ignore_errors=True)
        left, room, gone = left - 1, room + sizes[entry.name], True
    return gone


def _changed(entry: os.DirEntry[str], latest: float) -> float:
    with suppress(OSError):  # removed meanwhile
        changed = entry.stat(follow_symlinks=False).st_mtime
        return changed if changed <= latest else 0.0
    return 0.0


def _bytes_in(directory: Path) -> int:
    total = 0
    with suppress(OSError):
        for entry in _entries(directory):
            with suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return list(itertools.islice(entries, MOST_LOOKED_AT))


def _keys_in(own: Path) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(own) if is_name(entry.name) and entry.is_dir(follow_symlinks=False)]


def _runs_in(directory: Path) -> list[str]:
    return [entry.name for entry in _entries(directory) if entry.name.endswith(".json") and entry.name[0] != "."]


def _make(directory: Path) -> bool:
    """Whether it was not there."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


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
    role: str = "",
    rhythm: Rhythm | None = None,
    edges: Mapping[str, int] | None = None,
) -> Profile:
    """The profile of one run, from what the native core measured."""
    return {
        "format": profile_format.FORMAT,
        "version": profile_format.VERSION,
        "key": key,
        "command": command,
        "role": role,
        "created": created,
        "device": {"name": device["name"], "memory_bytes": device["memory_bytes"], "emulated": device["emulated"]},
        "span_ns": span_ns,
        "launches": launches,
        "peak_bytes": peak_bytes,
        "edges": profile_format.edges_of(edges)._asdict(),
        "kernels": list(kernels),
        "rhythm": rhythm or None,
    }
