"""What NVML does not say of a GPU that is split by MIG."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NOT_TOLD: Final = "NVML does not say how busy a MIG instance is"


def is_instance(name: str) -> bool:
    """By its name, as the driver and NVML write it: `NVIDIA H200 MIG 3g.71gb`."""
    return " MIG " in name


def note(unknown: Iterable[str]) -> list[str]:
    """The sentence, once, where one of the devices of these names, of which nobody knows how busy they are, is an instance."""
    return [NOT_TOLD] if any(map(is_instance, unknown)) else []
