"""Rounds of live pairs that were measured, each in a file of its own: a later call goes on where an earlier one ended."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fikitd.store.storage import reason

from bench import record
from bench.live.reaction import Reactions
from bench.record import BenchError

Measured = tuple[dict[str, Any], Reactions]

FORMAT = "fikit-live-round"
CALIBRATION = "calibration"


class Rounds:
    """A directory of them, of one kind: the same policy, device, length and slow motion. Every method raises BenchError."""

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        self.directory, self.settings = directory, dict(settings)
        self._learnt = directory / "learnt"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"couldn't make {directory}: {reason(error)}") from error

    def load(self, case: str, number: int) -> Measured | None:
        """The case's round of this number, from 1 on; None: it is to be measured."""
        return self._load(self._file(case, number))

    def save(self, case: str, number: int, measured: Measured) -> None:
        self._save(self._file(case, number), {"case": case, "round": number}, measured)

    def load_calibration(self) -> Reactions | None:
        found = self._load(self.directory / f"{CALIBRATION}.json")
        return None if found is None else found[1]

    def save_calibration(self, seen: Reactions) -> None:
        self._save(self.directory / f"{CALIBRATION}.json", {"case": CALIBRATION}, ({}, seen))

    def learnt(self) -> set[str]:
        """The recordings whose profiles are here."""
        try:
            return set(json.loads((self._learnt / "recordings.json").read_text()))
        except FileNotFoundError:
            return set()
        except (OSError, ValueError) as error:
            raise BenchError(
                f"couldn't read {self._learnt}: remove it, and the recordings are measured anew"
            ) from error

    def take_profiles(self, profiles: Path) -> None:
        """Copies them to where fikitd looks for them."""
        if self.learnt():
            shutil.copytree(self._learnt / "profiles", profiles, dirs_exist_ok=True)

    def keep_profiles(self, profiles: Path, recordings: set[str]) -> None:
        """All that fikitd has now, which is of these recordings. In one step: never a profile without its name."""
        made, old = (self._learnt.with_name(f".{word}.{os.getpid()}") for word in ("made", "old"))
        shutil.copytree(profiles, made / "profiles")
        (made / "recordings.json").write_text(json.dumps(sorted(recordings)))
        if self._learnt.exists():
            self._learnt.rename(old)
        made.rename(self._learnt)
        shutil.rmtree(old, ignore_errors=True)

    def _file(self, case: str, number: int) -> Path:
        return self.directory / f"{case.replace(os.sep, '-').replace(' ', '-')}-{number}.json"

    def _load(self, file: Path) -> Measured | None:
        try:
            found = json.loads(file.read_text())
            if found["settings"] != self.settings:
                raise BenchError(f"{file} was measured with other settings, give --resume another directory")
            return {**found["row"], "machine": found["machine"]}, Reactions(**found["reactions"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"{file} holds no round of live pairs: remove it, and it is measured anew") from error

    def _save(self, file: Path, what: Mapping[str, Any], measured: Measured) -> None:
        row, seen = measured
        content = {
            "format": FORMAT, "version": 1, **what, "settings": self.settings, "machine": row.get("machine", {}),
            "row": {name: value for name, value in row.items() if name != "machine"}, "reactions": asdict(seen),
        }  # fmt: skip
        record.write_whole(file, json.dumps(content) + "\n")


def machine_state(begun: float) -> dict[str, Any]:
    """Of a round that began then, by `time.monotonic`, and has ended: what else the machine had to do, and what was measured."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": record.commit(), "took_s": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[0], 2), "nice": os.nice(0), "real_time": os.sched_getscheduler(0) in {os.SCHED_FIFO, os.SCHED_RR},
    }  # fmt: skip
