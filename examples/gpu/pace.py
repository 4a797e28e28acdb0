"""What the programs here print when they run by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

SECONDS = 10.0


def show(prepare: Callable[[str], Callable[[], object]], what: str, of_a_request: int = 1) -> None:
    """Do requests for ten seconds, on the GPU where there is one, and print how many of `what` that is a second."""
    request = prepare("cuda" if torch.cuda.is_available() else "cpu")
    request()
    begin, done = time.monotonic(), 0
    while time.monotonic() - begin < SECONDS:
        request()
        done += of_a_request
    print(f"{done / (time.monotonic() - begin):.1f} {what} a second")
