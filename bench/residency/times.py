"""How long the kernels of a step take: by the rates of kernels of their kind in a recording of ResNet50 on a V100, batch 32."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from bench.recordings import RECORDED, recordings
from bench.residency.networks import Kernel, Step, resnet50

RECORDING: Final = "v100_resnet50_train_w4"
BATCH: Final = 32
LAUNCH_NS: Final = 2_000
"""No kernel of a V100 recording is shorter than about this."""
KINDS: Final = (
    ("norm backward", r"bn_bw"), ("norm", r"bn_fw"), ("pool", r"pool"), ("copy", r"CatArray|Memcpy"), ("rest", r"Memset"),
    ("elementwise", r"elementwise|reduce|softmax"), ("convolution", r"."),
)  # fmt: skip
ASSUMED: Final = {
    "convolution": 11.7e12,
    "norm": 620e9,
    "norm backward": 560e9,
    "elementwise": 690e9,
    "pool": 330e9,
    "copy": 690e9,
}
"""flop/s of products, bytes/s of the others: what the recording says, for where there is none."""


@dataclass(frozen=True)
class Rates:
    """by_kind: flop/s of convolutions, bytes/s of the others. source: in words."""

    by_kind: dict[str, float]
    source: str

    def times(self, factor: float) -> Rates:
        """Of a GPU that is so many times as fast."""
        if factor == 1:
            return self
        return Rates(
            {kind: factor * rate for kind, rate in self.by_kind.items()}, f"{self.source}, {factor:g} times as fast"
        )

    def duration_ns(self, kernel: Kernel) -> int:
        amount = _amount(kernel)
        return LAUNCH_NS + round(amount / self.by_kind[kernel.kind] * 1e9)


def rates() -> Rates:
    """Of the recording, else the assumed ones."""
    if not RECORDED.is_dir() or RECORDING not in (found := recordings(None)):
        return Rates(ASSUMED, f"assumed (what {RECORDING} says)")
    seconds, steps = recorded_seconds(found[RECORDING].decode())
    amounts: dict[str, float] = defaultdict(float)
    for kernel in resnet50(BATCH).kernels:
        amounts[kernel.kind] += _amount(kernel)
    by_kind = {kind: amounts[kind] / (seconds[kind] / steps) for kind in ("convolution", "norm", "norm backward", "elementwise", "pool")}  # fmt: skip
    by_kind["copy"] = by_kind["elementwise"]
    return Rates(by_kind, f"{RECORDING}: V100, ResNet50, batch {BATCH}")


def recorded_seconds(text: str) -> tuple[dict[str, float], int]:
    """Time on the device of each kind, and how many steps they are of (one copy of a batch to the device each)."""
    names, seconds, steps = {}, defaultdict[str, float](float), 0
    for line in text.splitlines():
        if line.startswith("#N "):
            _, number, name = line.split(None, 2)
            names[number] = name
        elif line.startswith("K,"):
            cells = line.split(",")
            seconds[_kind(names[cells[15]])] += float(cells[4]) / 1e6
        elif line.startswith("M,") and int(line.split(",")[14]) == BATCH * 3 * 224 * 224 * 4:
            steps += 1
    return seconds, max(steps, 1)


def durations_ns(step: Step, of: Rates) -> list[int]:
    return [of.duration_ns(kernel) for kernel in step.kernels]


def _kind(name: str) -> str:
    return next(kind for kind, pattern in KINDS if re.search(pattern, name))


def _amount(kernel: Kernel) -> float:
    return kernel.flop if kernel.kind == "convolution" else float(kernel.flop or kernel.bytes)
