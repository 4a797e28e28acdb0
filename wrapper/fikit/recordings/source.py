"""What somebody names as a recording: a file of fikit's own form, of PyTorch's or NVIDIA's profiler, or one that comes with fikit."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fikitd.simulation import simulator
from fikitd.simulation.simulator import SimulatorError, Trace

from fikit.errors import UserError, did_you_mean
from fikit.recordings import kineto, made, nsight, timeline
from fikit.recordings.timeline import NoTimeline

MOST_BYTES: Final = 2**30
"""Of a file's text, which is all read into memory, and takes several times that as JSON."""
GZIP: Final = b"\x1f\x8b"
SHIPPED: Final = tuple(made.SHAPES)
SEED: Final = 1
FORMS: Final = "a recording comes from fikit trace --recording, PyTorch's profiler (JSON) or Nsight Systems (SQLite)"


@dataclass(frozen=True)
class Found:
    """A recording's text under its name; lacking: what was left out of it, in words."""

    name: str
    text: str
    origin: str
    lacking: Sequence[str] = ()

    def trace(self) -> Trace:
        """For the simulator. UserError: it is no recording."""
        try:
            return simulator.parse(self.name, self.text, self.origin)
        except SimulatorError as error:
            raise UserError(f"{error}; {FORMS}") from None


def named(name: str) -> Found:
    """The file of this name; where there is none, the recording that comes with fikit. UserError: there is neither, or it cannot be read."""
    path = Path(name)
    if path.exists():
        return read(path)
    if name in SHIPPED:
        return Found(name, made.SHAPES[name](SEED).text().decode(), name)
    near = did_you_mean(name, SHIPPED) or f"; those that come with fikit are {', '.join(SHIPPED)}"
    raise UserError(f'there is no file and no recording "{name}"{near}')


def read(path: Path) -> Found:
    """A file, by what is in it, whatever its name says. UserError: it cannot be read, or is none of the forms."""
    try:
        text, lacking = _text(path)
    except NoTimeline as error:
        raise UserError(f"{path} cannot be made a recording: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"couldn't read {path}: {getattr(error, 'strerror', None) or error}") from None
    name = path.name.removesuffix(".gz").split(".csv")[0].removesuffix(".json").removesuffix(".sqlite")
    return Found(name, text, str(path), lacking)


def _text(path: Path) -> tuple[str, Sequence[str]]:
    with path.open("rb") as file:
        begin = file.read(len(nsight.MAGIC))
    if begin == nsight.MAGIC:
        found = timeline.recording(nsight.read(path))
        return found.text, found.lacking
    with gzip.open(path) if begin.startswith(GZIP) else path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NoTimeline(f"it has more than {MOST_BYTES >> 30} GiB of text: record fewer steps")
    if data.startswith(nsight.MAGIC):
        raise NoTimeline("it is a compressed database: decompress it first")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NoTimeline(
            "it is no text, no gzip and no SQLite: of an .nsys-rep, nsys export --type sqlite makes one"
        ) from None
    if text.lstrip()[:1] in ("{", "["):
        found = timeline.recording(kineto.read(text))
        return found.text, found.lacking
    return text, ()
