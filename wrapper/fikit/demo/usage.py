"""How much device time each job has used so far: from the emulated GPU itself, or from fikit on a real one."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.reports import has_times

from fikit.demo.launchers import Launcher
from fikit.errors import UserError
from fikitd import paths


@dataclass(frozen=True)
class Usage:
    """Nanoseconds of device time by job name on `device` at the moment `now_ns`."""

    device: str
    now_ns: int
    busy_ns: dict[str, int]


def emulated(launcher: Launcher, pids: dict[str, int]) -> Usage:
    """The emulated device's own count: what every kernel of each process really took."""
    done = subprocess.run(
        [paths.emuctl(), "stats", "--json"], env=launcher.emulator_env, capture_output=True, check=False
    )
    devices = json.loads(done.stdout)["devices"] if done.returncode == 0 else []
    if not devices:
        said = done.stderr.decode(errors="replace").strip() or "emuctl stats shows no device"
        raise UserError(f"the emulated GPU of the demo cannot be read: {said}")
    device = devices[0]
    by_pid = {process["pid"]: process["busy_ns"] for process in device["processes"]}
    return Usage(device["name"], device["now_ns"], {name: by_pid.get(pid, 0) for name, pid in pids.items()})


def real(launcher: Launcher, _pids: dict[str, int]) -> Usage:
    """fikit's account of the running jobs; unmanaged jobs and unknown kernels are not in it."""
    now_ns = time.monotonic_ns()
    jobs = Control(launcher.run_dir).jobs()
    names = [str(job["device"]["name"]) for job in jobs]
    return Usage(
        names[0] if names else "",
        now_ns,
        {str(job["priority_name"]): int(1e9 * (job["gpu_time_s"] or 0.0)) for job in jobs},
    )


def managed(launcher: Launcher) -> dict[int, str]:
    """The jobs of the processes that fikitd manages now, by pid; none where no fikitd answers."""
    try:
        return {int(c["pid"]): str(c["job"]) for c in Control(launcher.run_dir).node()["clients"] if c.get("pid")}
    except DaemonUnreachable:
        return {}


def report(launcher: Launcher, job: str) -> dict[str, Any] | None:
    """The report of a running job as it stands; None where fikitd has none that says where the time went."""
    try:
        record = Control(launcher.run_dir).job(job)
    except (DaemonUnreachable, ControlError):
        return None
    return record if has_times(record) else None


def share(begin: Usage, end: Usage, low: str, high: str) -> float | None:
    """low's device time between two samples / device time that high left; None when there is nothing to divide."""
    window = end.now_ns - begin.now_ns
    used = {name: end.busy_ns.get(name, 0) - begin.busy_ns.get(name, 0) for name in (low, high)}
    left = window - used[high]
    return used[low] / left if left > 0 else None
