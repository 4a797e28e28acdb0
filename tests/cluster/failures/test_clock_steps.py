"""Somebody sets the clock of a whole cluster, by days, while jobs share a GPU: nobody notices.

The clock is a preloaded one, in Slurm's daemons, in fikitd and in the jobs. Prologs and epilogs have the machine's: Slurm gives
them an environment of its own. So a job's record is from another day than everything else.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportStore
from remains import nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
DAY_S = 86_400


class Clock:
    """The seconds by which it is ahead of the machine's, for everybody at once."""

    def __init__(self, file: Path, library: Path) -> None:
        file.write_bytes(bytes(8))
        file.chmod(0o644)
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.env = {"STEPPING_CLOCK": str(file), "LD_PRELOAD": str(library)}

    def step(self, ahead_s: int) -> None:
        self._page[:] = struct.pack("q", ahead_s)


@pytest.fixture(scope="module")
def clock(cc: Callable[..., Path], shared_cluster: Cluster) -> Clock:
    """Its files are where every user's job may read them."""
    library = shared_cluster.directory / "stepping_clock.so"
    library.write_bytes(
        cc("tests/cluster/programs/stepping_clock.c", "-shared", "-fPIC", "-D_GNU_SOURCE", "-ldl").read_bytes()
    )
    library.chmod(0o755)
    return Clock(shared_cluster.directory / "clock", library)


@pytest.fixture
def stepping(clock: Clock, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """One for each step: a slurmctld whose clock was set back starts no job until it has caught up."""
    # A clock that is set forward looks like a node that has been silent for as long.
    own = Sandbox(slurm_lines=["SlurmdTimeout=0"])

    def set_clock(step: str) -> None:
        if step == "munged":  # the first of the daemons
            own.env |= clock.env
            script = own.root / "etc" / "fikitd"
            shebang, rest = script.read_text().split("\n", 1)
            exports = [f'export {name}="{value}"' for name, value in clock.env.items()]
            script.write_text("\n".join([shebang, *exports, rest]))

    try:
        own.start(on_step=set_clock)
        yield make_cluster(own)
        nothing_remains(own)
    finally:
        clock.step(0)
        own.stop()


def ahead(date: str) -> int:
    """By how many days, to the nearest, a clock that says so is."""
    return round((int(date) - time.time()) / DAY_S)


def slurmctlds(cluster: Cluster) -> str:
    answer = cluster.run("scontrol", "show", "config", SLURM_TIME_FORMAT="%s").stdout
    return answer.partition("Configuration data as of ")[2].split()[0]


@pytest.mark.parametrize("days", [2, -2], ids=["forward", "back"])
def test_jobs_that_share_when_it_steps_end_as_ever(stepping: Cluster, clock: Clock, spin: Path, days: int) -> None:
    begin = time.monotonic()
    jobs = [
        stepping.submit_running(
            stepping.script(f"of-{priority}", "date +%s", f"{spin} 6000 250000", "date +%s"),
            f"--fikit-priority={priority}",
        )
        for priority in ("high", "low")
    ]
    clock.step(days * DAY_S)
    assert ahead(slurmctlds(stepping)) == days
    outputs = [stepping.wait(job) for job in jobs]
    took_s = time.monotonic() - begin
    for job, output in zip(jobs, outputs, strict=True):
        before, done, after = output.splitlines()[:3]
        assert (ahead(before), done, ahead(after)) == (0, "done", days), output
        assert [" 6000 kernels" in line for line in stepping.summaries(output, job)] == [True], output
        report = stepping.until(
            lambda job=job: ReportStore(stepping.sandbox.report_dir).load(job), f"job {job} has no report"
        )
        assert (report["state"], report["kernels"], report["warnings"]) == ("ended", 6000, [])
        assert 0 < report["span_s"] <= took_s
        assert 0 <= report["wait"]["total_s"] <= took_s
    assert stepping.node_state() == "idle"
