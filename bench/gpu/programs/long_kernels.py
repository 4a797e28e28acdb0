"""Steps of long kernels of which the host queues all at once, as of a training. Needs a driver only."""

from __future__ import annotations

from collections.abc import Callable

from bench.gpu.programs.driver import Driver

BYTES = 4096  # with the number of requests in the first word


def prepare(device: str) -> Callable[[], int]:
    driver = Driver()
    memory = driver.memory(BYTES)

    def request() -> int:
        driver.enter()
        driver.increment(memory, BYTES)
        for number in range(16):
            driver.kernel((200 + 50 * (number % 4)) * 1000, 512 + number % 4)
        driver.wait()
        return driver.word(memory)

    return request
