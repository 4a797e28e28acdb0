"""Passes over more memory than a GPU is to have for them, as of a training: each layer's memory is touched forward, then backward. Needs a driver only.

A request is a pass. It fails where memory is not what the kernels have made of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from bench.gpu.programs.driver import Driver

MIB = 2**20
LAYERS, LAYER_MIB, LAYER_NS = 24, 64, 2_000_000


def prepare(device: str) -> Callable[[], None]:
    driver = Driver()
    layers = [driver.memory(int(os.environ.get("BENCH_LAYER_MIB", LAYER_MIB)) * MIB) for _ in range(LAYERS)]
    passes = 0

    def request() -> None:
        nonlocal passes
        driver.enter()
        for number in (*range(LAYERS), *reversed(range(LAYERS))):
            driver.increment(layers[number], 128)
            driver.kernel(LAYER_NS, 64 + number)
        driver.wait()
        looked_at = layers[passes % LAYERS]
        passes += 1
        if driver.word(looked_at) != 2 * passes:
            raise RuntimeError(
                f"memory is wrong after {passes} passes: {driver.word(looked_at)} instead of {2 * passes}"
            )

    return request
