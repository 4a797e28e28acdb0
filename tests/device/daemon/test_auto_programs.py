"""--fikit-priority=auto with a real fikitd and programs on the emulated GPU: the job that ends sooner is above the other, also after a restart."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Runner, client_runner, eventually
from fikitd.api.outcomes import HEAD, SUFFIX, UNKNOWN, Outcome, name_key
from test_daemon_restart import Service

RANGE: dict[str, Any] = {"priority": 5, "auto_highest": 5, "auto_lowest": 8}


def outcome(name: str, elapsed_s: float) -> Outcome:
    return Outcome(
        job=1, uid=os.getuid(), name=name_key(name), ended_s=int(time.time()) - 60, elapsed_s=elapsed_s, busy=0.8, peak_mib=1,
        slowdown=UNKNOWN, given_s=0.0, emulated=1,
    )  # fmt: skip


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Service]:
    """Runs of `short` took a minute, of `long` a day."""
    outcomes = tmp_path / "outcomes"
    outcomes.mkdir(mode=0o700)
    lines = [HEAD, outcome("short", 60).text(), outcome("long", 86_400).text()]
    (outcomes / f"node{SUFFIX}").write_text("".join(f"{line}\n" for line in lines))
    (outcomes / f"node{SUFFIX}").chmod(0o600)
    daemon = Service(tmp_path)
    text = daemon.config.read_text()
    daemon.config.write_text(
        text.replace("[daemon]\n", f'[daemon]\noutcomes_dir = "{outcomes}"\noutcomes_user = "root"\n')
    )
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()
    daemon.systemd.stop()


runner = pytest.fixture(client_runner)


def held(runner: Runner, name: str) -> tuple[str, subprocess.Popen[str]]:
    """A job whose program has launched 40 kernels, and does so again when it is given a line."""
    job, process = runner.start(40, 50_000, "hold", name=name, started_ns=time.time_ns(), **RANGE)
    assert process.stdout is not None
    assert process.stdout.readline() == "done 40\n"
    return job, process


def test_the_job_that_ends_sooner_is_above_the_other_also_under_the_next_fikitd(
    daemon: Service, runner: Runner
) -> None:
    (longer, long), (shorter, short) = held(runner, "long"), held(runner, "short")

    def now() -> list[int]:
        return [daemon.control.job(job)["priority"] for job in (longer, shorter)]

    eventually(lambda: now() == [6, 5])
    waits = daemon.control.job(longer)["wait"]["count"]
    daemon.restart(signal.SIGKILL)
    for job in (longer, shorter):
        eventually(lambda job=job: daemon.control.job(job)["kernels"] == 40)
    # As before; but where one comes back much later than the other, the first was alone on the GPU for a moment.
    eventually(lambda: now() == [6, 5])
    eventually(lambda: daemon.control.job(longer)["auto"]["state"] == "ordered")
    assert daemon.control.priority(shorter, 8) == 8
    eventually(lambda: now() == [5, 8])
    assert daemon.control.priority(shorter, "auto") == 5
    eventually(lambda: now() == [6, 5])
    assert long.communicate("x", timeout=60)[1] == ""
    report = eventually(lambda: (found := daemon.control.job(longer))["state"] == "ended" and found)
    assert report["wait"]["count"] > waits, "its gate was closed for the one above"
    assert short.communicate("x", timeout=60)[1] == ""
    assert "Traceback" not in daemon.log.read_text()
