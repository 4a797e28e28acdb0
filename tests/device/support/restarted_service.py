"""fikitd under a systemd that keeps its descriptors, so that it can be restarted while jobs run."""

from __future__ import annotations

import signal
from pathlib import Path

from daemon_process import Fikitd

from bench.gpu.fake_systemd import Systemd


class Service(Fikitd):
    """fikitd under a systemd that keeps descriptors."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.systemd = Systemd(root / "notify")

    def start(self) -> Service:  # type: ignore[override]
        self.process = self.systemd.start(self.command(), self.log)
        self.wait_until_there()
        return self

    def restart(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(20)
        self.start()
