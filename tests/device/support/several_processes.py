"""Jobs of several processes whose memory has less room on the emulated GPU than they need, under a real fikitd: what reports and the device say of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daemon_process import Runner, eventually, heard, tell
from emulator_tools import stats
from oversubscribed import CHUNK, MIB
from restarted_service import Service

BUFFER_MIB = 16
MEMORY = {"mem_bytes": 208 * MIB, "mem_host_bytes": 208 * MIB, "profile": "planned", "priority": 8}


def forwards(*counts: int) -> list[str]:
    """Processes with so many buffers."""
    return [f"main_forwards({count}, {BUFFER_MIB})" for count in counts]


class Job:
    def __init__(
        self, daemon: Service, runner: Runner, native: Path, mains: Sequence[str], learns: Sequence[int]
    ) -> None:
        self.daemon, self.native, self.env = daemon, native, runner.env
        for count in learns:
            code = f"import rotating_child; rotating_child.learn({count}, {BUFFER_MIB}, 6)"
            runner.run("-c", code, measure=True, **{**MEMORY, "priority": 5})
        code = f"import rotating_child; rotating_child.main_several({mains!r})"
        self.name, self.process = runner.start("-c", code, **MEMORY)
        word, *pids = heard(self.process).split()
        assert word == "ready"
        self.pids = [int(pid) for pid in pids]

    def plan(self) -> dict[str, Any]:
        return dict(self.daemon.control.job(self.name)["memory"].get("plan") or {})

    def planned_now(self) -> dict[str, int] | None:
        """By `fikit top`'s source: the room of all its processes together."""
        found = [each["memory_plan"] for each in self.daemon.control.node()["clients"] if each["job"] == self.name]
        assert all(each == found[0] for each in found)
        return found[0] if found else None

    def go_by_plans(self, passes: int = 10, processes: int = 2) -> dict[str, Any]:
        """Once so many processes have gone by plans for so many passes of each."""
        before = self.plan().get("passes", 0)
        eventually(
            lambda: (
                (plan := self.plan()).get("processes", 0) >= processes and plan["passes"] >= before + passes * processes
            ),
            60,
        )
        return self.plan()

    def on_device(self) -> list[tuple[int, int]]:
        """Of each process that is there the chunks that came by page faults, and kernels that ran."""
        there = {p["pid"]: p for device in stats(self.native, self.env) for p in device["processes"] if p["alive"]}
        return [(there[pid]["missed_chunks"], there[pid]["kernels"]) for pid in self.pids if pid in there]

    def kernels(self) -> list[int]:
        """That have run, of each process that is there."""
        return [kernels for _, kernels in self.on_device()]

    def turns(self) -> int:
        """That its memory has had, in the sum over its processes."""
        return int(self.daemon.control.job(self.name)["memory"]["moved"]["turns"])

    def missed_share(self, seconds: float = 3.0) -> float:
        """Of the bytes that the kernels of so many seconds touched, those that came by page faults."""
        before = self.on_device()
        time.sleep(seconds)
        missed, kernels = (
            sum(b - a for a, b in zip(*each, strict=True))
            for each in zip(*(zip(*look, strict=True) for look in (before, self.on_device())), strict=True)
        )
        assert kernels > 20
        return missed * CHUNK / (kernels * BUFFER_MIB * MIB)

    def ended(self) -> list[tuple[bool, int]]:
        """Of each process that is there whether every byte was right, and how many passes it had."""
        tell(self.process, "end")
        said = [each.split(":") for each in heard(self.process).split()]
        _, err = self.process.communicate(timeout=90)
        assert self.process.returncode == 0, err
        return [(right == "True", int(passes)) for right, passes in said]
