"""Image classification with early exits: small batches, one answer at a time, the host in the loop.

A cascade of three small convolutional stages. After each stage the host reads how sure the network is and stops early if
it is sure enough: the usual way to save work in online inference, and the reason for many short bursts of kernels with
idle device time between them. Weights are random: the program shows when kernels run, not what they compute.

An ordinary tinygrad program: it knows nothing about fikit.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from rendezvous import Rendezvous
from tinygrad import Tensor, TinyJit
from tinygrad.nn import Conv2d, Linear

CLASSES = 10
FRAMES = 8  # uploaded ahead, as a frame grabber would


class Stage:
    """Two convolutions, then an exit: how probable is the most probable class?"""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        self.shrink = Conv2d(channels_in, channels_out, 3, stride=2, padding=1)
        self.mix = Conv2d(channels_out, channels_out, 3, padding=1)
        self.exit = Linear(channels_out, CLASSES)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.mix(self.shrink(x).relu()).relu()
        scores = self.exit(features.mean((2, 3)))
        return features.realize(), scores.sigmoid().max().realize()


class Cascade:
    """Stages one after the other until one of them is sure."""

    def __init__(self) -> None:
        widths = (3, 16, 32, 64)
        self.stages = [TinyJit(Stage(a, b)) for a, b in itertools.pairwise(widths)]

    def classify(self, frames: Tensor, sure: float) -> float:
        """How sure the network is about `frames` (batch, 3, 32, 32) after the stages that it needed."""
        features, confidence = frames, 0.0
        for stage in self.stages:
            features, answer = stage(features)
            confidence = answer.item()  # the host waits for the device here
            if confidence >= sure:
                break
        return confidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300, help="how many batches to classify")
    parser.add_argument("--batch", type=int, default=2, help="images per batch")
    parser.add_argument("--sure", type=float, default=0.999, help="stop at the stage that is this sure")
    parser.add_argument("--pause", type=float, default=0.0, help="ms until the next request is there")
    Rendezvous.add_arguments(parser)
    args = parser.parse_args()

    cascade = Cascade()
    frames = [Tensor.rand(args.batch, 3, 32, 32).realize() for _ in range(FRAMES)]
    for number in range(4):  # compiles and captures
        cascade.classify(frames[number % FRAMES], args.sure)
    meeting = Rendezvous.from_arguments(args)
    meeting.wait()
    latencies = []
    begin = time.monotonic()
    for number in range(args.requests):
        start = time.monotonic()
        cascade.classify(frames[number % FRAMES], args.sure)
        latencies.append(time.monotonic() - start)
        time.sleep(args.pause / 1e3)
    seconds = time.monotonic() - begin
    p50, p99 = np.quantile(latencies, (0.5, 0.99)) * 1e3
    print(
        f"classify: {args.requests} requests in {seconds:.3f} s, latency p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True
    )
    meeting.report(seconds)


if __name__ == "__main__":
    main()
