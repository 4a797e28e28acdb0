"""Requests of short kernels with the host between them, as of an inference that the host is late for. Needs a driver only."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.gpu.programs.driver import Driver

BYTES = 4096  # with the number of requests in the first word

KERNELS_US = (20, 60, 30, 120, 40, 80)


def prepare(device: str) -> Callable[[], int]:
    driver = Driver()
    memory = driver.memory(BYTES)

    def request() -> int:
        driver.enter()
        driver.increment(memory, BYTES)
        for number, us in enumerate(KERNELS_US):
            driver.kernel(us * 1000, 16 + number)
            until = time.monotonic_ns() + 150_000
            while time.monotonic_ns() < until:
                pass
        driver.wait()
        return driver.word(memory)

    return request
