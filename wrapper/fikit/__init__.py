"""fikit from Python: `fikit.report(12)`, `fikit.jobs()`, `fikit.node()` (docs/python.md), and the command line, which is built on them.

The names are loaded when they are first used: fikit's programs begin here, and are quick, and quiet on Ctrl-C.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fikit.api import (
        Delay,
        Device,
        Gpu,
        GpuJob,
        HostTime,
        JobReport,
        Memory,
        NoDaemon,
        Node,
        NoReport,
        Totals,
        UserError,
        WaitReason,
        Waits,
        jobs,
        node,
        report,
        totals,
    )

__all__ = [
    "Delay",
    "Device",
    "Gpu",
    "GpuJob",
    "HostTime",
    "JobReport",
    "Memory",
    "NoDaemon",
    "NoReport",
    "Node",
    "Totals",
    "UserError",
    "WaitReason",
    "Waits",
    "jobs",
    "node",
    "report",
    "totals",
]

if not TYPE_CHECKING:  # to a type checker a module with such a function has every name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("fikit.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
