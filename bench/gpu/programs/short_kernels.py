"""Requests of short kernels with the host between them, as of an inference that the host is late for. Needs a driver only."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.gpu.programs.driver import Driver

KERNELS_US = (20, 60, 30, 120, 40, 80)


def prepare(device: str) -> Callable[[], None]:
    driver = Driver()

    def request() -> None:
        driver.enter()
        for number, us in enumerate(KERNELS_US):
            driver.kernel(us * 1000, 16 + number)
            until = time.monotonic_ns() + 150_000
            while time.monotonic_ns() < until:
                pass
        driver.wait()

    return request
