"""What fikitd and NVML say now. Each call may take long: it is for a thread of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.gpus import nvml
from fikitd.gpus.nvml import NoNvml, Seen

from fikit.api import node_use
from fikit.live import node
from fikit.live.node import Node


class Looks:
    """Differences of one look and the next. `control`: the fikitd that is asked."""

    def __init__(self, control: Control, before: dict[str, Any]) -> None:
        self._control = control
        self._before: dict[str, Any] | None = before
        self._reports: list[dict[str, Any]] = []
        self._seen: list[Seen] = []

    def next(self) -> Node:
        """Since the last one. DaemonUnreachable, ControlError: it does not answer, and may be about to be restarted."""
        try:
            after = self._control.node()
            reports = self._control.jobs()
        except (DaemonUnreachable, ControlError):
            self._before, self._reports = None, []
            raise
        use = node_use.between(self._before or after, after)
        behind = node.behind(self._reports, reports) if self._reports else {}
        self._before, self._reports = after, reports
        return node.of(use, behind, self._seen)

    def ask_nvml(self) -> str:
        """For the looks that come. Why it does not tell; "" where it does."""
        try:
            self._seen = asyncio.run(nvml.ask(view=True))
        except (NoNvml, OSError, ValueError) as error:
            self._seen = []
            return str(error)
        return ""
