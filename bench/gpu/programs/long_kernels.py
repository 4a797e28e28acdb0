"""Steps of long kernels of which the host queues all at once, as of a training. Needs a driver only."""

from __future__ import annotations

from collections.abc import Callable

from bench.gpu.programs.driver import Driver


def prepare(device: str) -> Callable[[], None]:
    driver = Driver()

    def request() -> None:
        driver.enter()
        for number in range(16):
            driver.kernel((200 + 50 * (number % 4)) * 1000, 512 + number % 4)
        driver.wait()

    return request
