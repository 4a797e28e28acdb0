"""Where jobs' time went, by their reports, beside the clock and the emulated device's own record: ranks, a killed job, fikitd's restart.

A busy machine makes hosts late: what that costs is in the sum, too, so bounds on single parts are wide here. How exact the parts are on
quiet cores `python -m bench elapsed` says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from daemon_process import SOURCE, Fikitd, Runner, eventually
from fikitd.api.client import ControlError
from fikitd.profiles.profile_store import ProfileStore

from bench.gpu.fake_systemd import Systemd
from fikitd import paths

MS = 1_000_000
PARTS = ("alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
RANKS = 'n=$1; shift; while [ $n -gt 0 ]; do "$@" & n=$((n - 1)); done; wait; echo done'
MODES = {
    "slices": 'sharing = "slices"',
    "mps": 'sharing = "mps"',
    "crowded": 'sharing = "mps"\noverlap_slowdown = 2.0',
}
NEAR, HOST_S = 0.03, 0.15  # of its elapsed time, and what a busy machine's hosts add to a job of half a second
ALONE = 2


class Service(Fikitd):
    """Under a systemd that keeps descriptors, with the policy of a site that says nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "budget")
        self.systemd = Systemd(root / "notify")

    def start(self, env: Any = None) -> Service:
        self.process = self.systemd.start(self.command(), self.log)
        self.wait_until_there()
        return self


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Service]:
    daemon = Service(tmp_path).start()
    yield daemon
    daemon.stop()
    daemon.systemd.stop()


@pytest.fixture(params=("slices", "mps"))
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, emulator_env: Callable[..., dict[str, str]]
) -> dict[str, str]:
    """Of programs on an emulated GPU in each device mode, which keeps a record."""
    config = tmp_path / "device.toml"
    kernels = '[[kernel]]\nmatch = "*"\nduration = "param0_ns"\nregisters = 1\n'
    config.write_text(f"[device]\n{MODES[request.param]}\n{kernels}")
    return emulator_env(EMUCUDA_CONFIG=str(config), EMUCUDA_TRACE="on")


@pytest.fixture
def client(cc: Callable[..., Path]) -> Path:
    return cc(SOURCE)


def work_s(environment: dict[str, str], pids: set[int]) -> float:
    """What these processes' kernels needed of the device, by its own record."""
    done = subprocess.run([paths.emuctl(), "trace", "--json"], env=environment, capture_output=True, check=True)
    return sum(event["work_ns"] for event in json.loads(done.stdout)["events"] if event["pid"] in pids) / 1e9


def span_s(environment: dict[str, str], since_ns: int) -> float:
    """From the first kernel since then handed over until the last one's end, by the device's own record."""
    done = subprocess.run([paths.emuctl(), "trace", "--json"], env=environment, capture_output=True, check=True)
    mine = [event for event in json.loads(done.stdout)["events"] if event["enqueue_ns"] > since_ns]
    return (max(event["end_ns"] for event in mine) - min(event["enqueue_ns"] for event in mine)) / 1e9


def checked(report: dict[str, Any], clock_s: float) -> dict[str, Any]:
    """That its parts are none less than nothing, and sum to its elapsed time, which is the clock's."""
    assert all(report[part] >= 0 for part in PARTS)
    assert sum(report[part] for part in PARTS) == pytest.approx(report["elapsed_s"], abs=1e-6)
    assert report["elapsed_s"] == pytest.approx(clock_s, abs=0.5)
    assert report["unexplained_s"] <= 0.05 * report["elapsed_s"]
    return report


def kernels(daemon: Service, job: str) -> int:
    """That it has launched so far; 0 before it came."""
    with suppress(ControlError):
        return int(daemon.control.job(job)["kernels"])
    return 0


def learn(runner: Runner, client: Path, high: int = 1, low: int = 1) -> None:
    for name, count, ns in (("high", high, 2 * MS), ("low", low, 4 * MS)):
        runner.run("-c", RANKS, "sh", count, client, 40, ns, measure=True, profile=name)


def started(runner: Runner, client: Path, name: str, ranks: int) -> tuple[str, subprocess.Popen[str], float]:
    """The job of that name with so many ranks; its number, its program, and when it began."""
    priority, arguments = (1, (200, 2 * MS)) if name == "high" else (8, (200, 4 * MS))
    begun_s = time.time()
    job, program = runner.start(
        "-c", RANKS, "sh", ranks, client, *arguments, priority=priority, profile=name, started_ns=time.time_ns()
    )
    return job, program, begun_s


def alone_s(daemon: Service, runner: Runner, client: Path, name: str, ranks: int) -> float:
    """What the job takes alone, start and end as its profile knows them: the shortest of some runs."""
    found = []
    for _ in range(ALONE):
        job, program, _ = started(runner, client, name, ranks)
        program.communicate(timeout=120)
        runner.end(job)
        found.append(daemon.report(job)["alone_s"])
    return min(found)


def pair(
    runner: Runner, client: Path, high: int = 1, low: int = 1
) -> tuple[list[str], list[subprocess.Popen[str]], list[float]]:
    """A high job and a low one of so many ranks side by side; their numbers, their programs, and when they began."""
    jobs, programs, begun_s = [], [], []
    for name, ranks in (("high", high), ("low", low)):
        job, program, then_s = started(runner, client, name, ranks)
        jobs.append(job)
        programs.append(program)
        begun_s.append(then_s)
    return jobs, programs, begun_s


@pytest.fixture
def runner(daemon: Service, environment: dict[str, str]) -> Runner:
    return Runner(daemon, Path("/bin/sh"), paths.shim(), environment)


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_parts_of_jobs_side_by_side_sum_to_the_clocks_time(
    ranks: int, daemon: Service, runner: Runner, client: Path
) -> None:
    mps = 'sharing = "mps"' in Path(runner.env["EMUCUDA_CONFIG"]).read_text()
    side_by_side = {"high": ranks, "low": ranks if mps else 1}
    learn(runner, client, **side_by_side)
    alone = [alone_s(daemon, runner, client, name, count) for name, count in side_by_side.items()]
    jobs, programs, begun_s = pair(runner, client, **side_by_side)
    ended_s = []
    for program in programs:
        assert program.communicate(timeout=120)[0].endswith("done\n")
        ended_s.append(time.time())
    for job in jobs:
        runner.end(job)
    high, low = (checked(daemon.report(job), ended_s[number] - begun_s[number]) for number, job in enumerate(jobs))
    assert low["waited_s"] + low["delayed_s"] > 0.1 * low["elapsed_s"], "it had to wait for the high job"
    together = 1 if mps else ranks  # in time slices each rank waits for the others' work, too
    for report, took_s, work_s in ((high, alone[0], together * 0.4), (low, alone[1], 0.8)):
        least_s, most_s = (1 - NEAR) * work_s, took_s + NEAR * report["elapsed_s"] + HOST_S
        assert least_s <= report["alone_s"] <= most_s, "as the same job took alone"
    assert high["waited_s"] + high["delayed_s"] < low["waited_s"] + low["delayed_s"]


@pytest.mark.parametrize("environment", ["mps", "crowded"], indirect=True)
def test_ranks_whose_kernels_overlap_take_alone_what_the_devices_record_says(
    daemon: Service, runner: Runner, client: Path, environment: dict[str, str]
) -> None:
    """Also where they slow one another down, alone as beside another job."""
    words = ("-c", RANKS, "sh", 4, client, 300, 2 * MS)
    runner.run(*words, measure=True, profile="ranks")
    spans, said = [], []
    for _ in range(ALONE):
        begun_ns = time.monotonic_ns()
        job, _, _ = runner.run(*words, priority=8, profile="ranks", started_ns=time.time_ns())
        spans.append(span_s(environment, begun_ns))
        said.append(daemon.report(job)["alone_s"])
    other, program = runner.start("-c", RANKS, "sh", 1, client, 100, 2 * MS, priority=8, started_ns=time.time_ns())
    begun_s = time.time()
    job, _, _ = runner.run(*words, priority=8, profile="ranks", started_ns=time.time_ns())
    report = checked(daemon.report(job), time.time() - begun_s)
    program.communicate(timeout=60)
    runner.end(other)
    assert min(said) == pytest.approx(min(spans), abs=NEAR * min(spans) + HOST_S), "and its start and end"
    assert report["alone_s"] == pytest.approx(min(spans), abs=NEAR * report["elapsed_s"] + HOST_S)


@pytest.mark.parametrize("how", [";", "&"], ids=["one-after-the-other", "side-by-side"])
def test_several_programs_of_a_job_have_a_profile_each_and_the_job_has_one_sum(
    how: str, daemon: Service, runner: Runner, client: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copy(client, tmp_path / "other_client"))
    both = f'"$2" 100 {2 * MS} {how} "$1" 40 {MS}; wait; echo done'
    words = ("-c", f"({both}) | tail -n 1", "sh", client, other)
    runner.run(*words, measure=True)
    keys = eventually(lambda: len(found := ProfileStore(daemon.profiles).keys(os.getuid())) == 2 and sorted(found))
    assert [key.rpartition("-")[0] for key in keys] == [client.name, other.name]
    begun_s = time.time()
    job, _, _ = runner.run(*words, started_ns=time.time_ns())
    report = checked(daemon.report(job), time.time() - begun_s)
    assert (report["processes"], report["kernels"]) == (2, 140)
    assert report["profile"]["key"] == keys[1], "of the program with most kernels"
    assert report["alone_s"] >= (1 - NEAR) * 100 * 2e-3
    if how == ";":  # else another one may come first than when they were measured, and nobody knows how long that takes
        assert report["host"]["unknown_s"] == 0, "the starts and ends of both are known"
        assert report["slowdown"] is not None


def test_a_job_that_is_killed_in_the_middle_is_accounted_for_until_then(
    daemon: Service, runner: Runner, client: Path, environment: dict[str, str]
) -> None:
    learn(runner, client)
    jobs, programs, begun_s = pair(runner, client)
    eventually(lambda: kernels(daemon, jobs[1]) > 40)
    pids = {process["pid"] for process in daemon.control.node()["clients"] if process["job"] == jobs[1]}
    subprocess.run(["kill", "-9", *map(str, pids)], check=True)
    ended_s = time.time()
    programs[1].communicate(timeout=60)
    runner.end(jobs[1])
    report = checked(daemon.report(jobs[1]), ended_s - begun_s[1])
    assert report["alone_s"] >= (1 - NEAR) * work_s(environment, pids) - HOST_S
    programs[0].communicate(timeout=120)
    runner.end(jobs[0])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
def test_what_fikitd_did_not_see_is_unexplained(
    how: signal.Signals, daemon: Service, runner: Runner, client: Path
) -> None:
    learn(runner, client)
    jobs, programs, begun_s = pair(runner, client)
    eventually(lambda: kernels(daemon, jobs[0]) > 50)
    assert daemon.process is not None
    seen_s = daemon.control.job(jobs[0])["elapsed_s"]
    daemon.process.send_signal(how)
    daemon.process.wait(20)
    daemon.start()
    ended_s = []
    for program in programs:
        program.communicate(timeout=120)
        ended_s.append(time.time())
    for job in jobs:
        runner.end(job)
    for number, job in enumerate(jobs):
        report = daemon.report(job)
        assert sum(report[part] for part in PARTS) == pytest.approx(report["elapsed_s"], abs=1e-6)
        assert report["elapsed_s"] == pytest.approx(ended_s[number] - begun_s[number], abs=0.5)
    report = daemon.report(jobs[0])
    if how == signal.SIGTERM:  # it notes all before it leaves
        assert 0 < report["unexplained_s"] < report["elapsed_s"] - seen_s
    else:
        assert report["unexplained_s"] > 0
