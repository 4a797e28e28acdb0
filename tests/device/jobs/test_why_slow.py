"""Why was my job slow: two real programs on one emulated GPU, the report's reasons and the trace of the schedule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, client_runner, eventually


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, policy="prio").start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


runner = pytest.fixture(client_runner)


def fikit(daemon: Fikitd, runner: Runner, *argv: str) -> str:
    env = {**runner.env, "FIKIT_CONFIG": str(daemon.config)}
    del env["LD_PRELOAD"], env["FIKIT_SOCKET"]
    done = subprocess.run(
        [sys.executable, "-m", "fikit", *argv], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernels(daemon: Fikitd, job: str) -> int:
    return sum(report["kernels"] for report in daemon.control.jobs() if report["job"] == job)


def test_a_low_job_is_told_whom_it_waited_for_and_its_trace_shows_when(daemon: Fikitd, runner: Runner) -> None:
    high, working = runner.start(600, 2_000_000, priority=1)
    eventually(lambda: kernels(daemon, high) > 10)
    low, waiting = runner.start(30, 300_000, "hold", priority=8)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "done 30\n"
    live = json.loads(fikit(daemon, runner, "trace", low))
    assert live["otherData"]["state"] == "running"
    for process in (waiting, working):
        _, err = process.communicate("x", timeout=60)
        assert process.returncode == 0, err
    runner.end(low)
    runner.end(high)

    report = daemon.report(low)
    total = report["wait"]["total_s"]
    by = Counter[str]()
    for entry in report["wait_reasons"]:
        by[entry["job"]] += entry["total_s"]
    # The dispatcher sees a wait end with the launch, the program a little earlier.
    assert 0.9 * total < sum(by.values()) < 1.3 * total + 0.1, "every wait has a reason"
    assert by[high] > 0.2 * total
    assert {entry["priority"] for entry in report["wait_reasons"] if entry["job"] == high} == {1}
    assert f"job {high} (priority 1)" in fikit(daemon, runner, "report", low)
    assert daemon.report(high)["wait_reasons"] == []

    picture = json.loads(fikit(daemon, runner, "trace", low))
    assert picture["otherData"]["state"] == "ended"
    assert picture["otherData"]["emulated"] == "true"
    names = {e["tid"]: e["args"]["name"] for e in picture["traceEvents"] if e["name"] == "thread_name"}
    tracks = Counter(names[e["tid"]] for e in picture["traceEvents"] if e["ph"] != "M")
    assert tracks["launches"] == 60
    assert tracks["grants"] > 0
    waits = [e for e in picture["traceEvents"] if e.get("cat") == "waits" and e["name"] != "lower work"]
    assert sum(e["dur"] for e in waits) / 1e6 == pytest.approx(sum(by.values()), rel=0.001)
    assert {e["args"]["by"] for e in waits} == {"this job", f"job {high}, priority 1"}
