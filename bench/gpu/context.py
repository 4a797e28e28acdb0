"""What a part of the kit is given, and the form of a part."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.gpu.place import Place

Found = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """The command line, as far as parts read it."""

    quick: bool = False  # a short form of every part, to try the kit itself
    seconds: float = 3.65  # of windows in a cell of the pairs
    device: str = "cuda"  # "cpu": PyTorch's programs run on the processor
    programs: str = "auto"  # of the pairs: "torch", "driver", "auto"
    ways: tuple[str, ...] = ()  # of the pairs; empty: all
    evict: bool = False  # memory: fill the GPU

    def with_torch(self) -> bool:
        """Whether the pairs are PyTorch's programs."""
        return self.programs == "torch" or (self.programs == "auto" and importlib.util.find_spec("torch") is not None)


@dataclass(frozen=True)
class Context:
    """One part's view of the call."""

    place: Place
    library: str  # path of the driver's libcuda.so.1
    gpu: Found  # bench.gpu.probe's answer: name, compute_mode, emulated, ...
    options: Options
    deadline: float  # of this part, time.monotonic
    changed: Callable[[Found], None]  # stores what the part knows so far, and writes the file anew
    say: Callable[[str, str], None]  # a line on standard output: name, text

    @property
    def exclusive(self) -> bool:
        """Whether the GPU gives one process at a time a context of its own."""
        return self.gpu.get("compute_mode") in ("exclusive", "exclusive_process")

    def left(self, most_s: float = math.inf) -> float:
        """Seconds until the deadline, at most `most_s`, never below 0."""
        return max(0.0, min(most_s, self.deadline - time.monotonic()))


@dataclass(frozen=True)
class Part:
    """A part: `measure` returns what it found, and raises for a failure that costs the whole part."""

    measure: Callable[[Context], Found]
    most_s: float = math.inf  # the part's deadline, counted from its begin
