"""Lets programs that are to be compared begin their loops at the same moment, and say how long the loops took."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

SEEN_TIMEOUT_S = 2.0


class Rendezvous:
    """With a directory D: write D/NAME.ready, wait until somebody makes D/go, later write D/NAME.result, and wait a moment until somebody
    makes D/NAME.seen, so that the program can still be looked at.

    Without a directory every method does nothing, and the program is just itself.
    """

    def __init__(self, directory: Path | None, name: str) -> None:
        self.directory, self.name = directory, name

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--meet", type=Path, metavar="DIR", help="begin the loop when DIR/go exists")
        parser.add_argument("--name", default=Path(parser.prog).stem, help="this program's name in DIR")

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> Rendezvous:
        return cls(args.meet, args.name)

    def wait(self) -> None:
        if self.directory is None:
            return
        self._write("ready", {"pid": os.getpid()})
        while not (self.directory / "go").exists():
            time.sleep(0.005)

    def report(self, seconds: float) -> None:
        if self.directory is not None:
            self._write("result", {"pid": os.getpid(), "seconds": seconds})
            seen, until = self.directory / f"{self.name}.seen", time.monotonic() + SEEN_TIMEOUT_S
            while not seen.exists() and time.monotonic() < until:
                time.sleep(0.005)

    def _write(self, kind: str, content: dict[str, object]) -> None:
        assert self.directory is not None
        target = self.directory / f"{self.name}.{kind}"
        unfinished = target.with_suffix(f".{kind}.tmp")
        unfinished.write_text(json.dumps(content))
        unfinished.rename(target)  # a reader never sees half a file
