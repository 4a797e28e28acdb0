"""Storage that is full, read-only, hangs and comes back: jobs run as ever, and what could not be stored is said or comes later."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.profiles.profile_store import ProfileStore
from remains import daemons, nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
START_WITHIN_S = 2.0


@contextmanager
def mounted(where: Path, *words: str | Path) -> Iterator[None]:
    subprocess.run(["mount", *map(str, words), str(where)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


@contextmanager
def full(where: Path) -> Iterator[None]:
    with mounted(where, "-t", "tmpfs", "-o", "size=4k,nr_inodes=3,mode=1777", "tmpfs"):
        (where / "filler").write_bytes(bytes(4096))
        yield


@contextmanager
def read_only(where: Path) -> Iterator[None]:
    with mounted(where, "--bind", where):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(where)], check=True)
        yield


@contextmanager
def through_a_program(where: Path, behind: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`where` shows the directory `behind` as long as the program serves: stopped, it is storage that hangs."""
    behind.mkdir()
    behind.chmod(0o1777)
    fuse = subprocess.run(["bindfs", "--fuse-version"], capture_output=True, text=True, check=True).stdout
    nonempty = ",nonempty" if "version 2" in fuse else ""  # what newer ones always do, and do not know by name
    server = subprocess.Popen(["bindfs", "-f", "-o", f"allow_other{nonempty}", str(behind), str(where)])
    try:
        deadline = time.monotonic() + 10
        while not where.is_mount():
            assert server.poll() is None, "bindfs ended"
            assert time.monotonic() < deadline, "bindfs did not mount"
            time.sleep(0.02)
        yield server
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "--lazy", str(where)], check=True)
        server.terminate()
        server.wait(10)


@pytest.fixture
def new_fikitd(cluster: Cluster) -> Iterator[None]:
    """One that has said nothing yet, and none that remembers the storage of this test afterwards."""
    with cluster.new_fikitd():
        yield
        nothing_remains(cluster.sandbox)


def started(cluster: Cluster, program: Path, *options: str) -> tuple[float, str, str]:
    """Seconds from `srun` to the job's first command, the job, its output."""
    begin = time.time()
    work = f"echo STARTED $(date +%s.%N) $SLURM_JOB_ID; exec {program} 20 20000"
    done = cluster.run("srun", GPU, HIGH, *options, "sh", "-c", work)
    assert (done.returncode, done.stdout.count("done")) == (0, 1), done.stdout
    [[_, first, job]] = [line.split() for line in done.stdout.splitlines() if line.startswith("STARTED ")]
    return float(first) - begin, job, done.stdout


@pytest.mark.usefixtures("new_fikitd")
@pytest.mark.parametrize(
    ("broken", "reason"), [(full, "No space left on device"), (read_only, "Read-only file system")], ids=["full", "read-only"]
)  # fmt: skip
def test_storage_that_takes_nothing_costs_lines_in_the_log(
    cluster: Cluster, spin: Path, broken: Callable[[Path], Iterator[None]], reason: str
) -> None:
    sandbox = cluster.sandbox
    with ExitStack() as stack:
        for directory in (sandbox.report_dir, sandbox.profile_dir):
            stack.enter_context(broken(directory))  # type: ignore[arg-type]
        _, job, output = started(cluster, spin, "--fikit-measure", "--fikit-profile=lost")
        assert "measured 20 kernels" in output
        assert "profile lost not stored" in output  # on a slow machine, yet
        log = sandbox.run_dir / "fikitd.log"
        for what, where in (("report", sandbox.report_dir), ("profile", sandbox.profile_dir)):
            line = f"job {job}: its {what} could not be stored in {where}: {reason}"
            cluster.until(lambda line=line: line in log.read_text(), line)
    assert ReportStore(sandbox.report_dir).load(job) is None
    _, job, _ = started(cluster, spin)
    cluster.until(lambda: cluster.reported_kernels(job) == 20, "there is no report")


@pytest.mark.usefixtures("new_fikitd")
@pytest.mark.skipif(
    shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK), reason="needs bindfs and /dev/fuse"
)
def test_storage_that_hangs_holds_up_no_job_and_gets_everything_when_it_is_back(cluster: Cluster, spin: Path) -> None:
    sandbox = cluster.sandbox
    behind = sandbox.root / "behind"
    behind.mkdir()
    usual_s, _, _ = started(cluster, spin)
    nothing_remains(sandbox)  # a file that is being written when another file system comes above it is lost
    with ExitStack() as stack:
        servers = [
            stack.enter_context(through_a_program(directory, behind / directory.name))
            for directory in (sandbox.report_dir, sandbox.profile_dir)
        ]
        for server in servers:
            server.send_signal(signal.SIGSTOP)
        took_s, first, _ = started(cluster, spin, "--fikit-profile=late")
        assert took_s < usual_s + START_WITHIN_S
        assert Control(sandbox.run_dir).ping()
        _, second, _ = started(cluster, spin, "--fikit-measure", "--fikit-profile=late")
        for server in servers:
            server.send_signal(signal.SIGCONT)
        for job in (first, second):
            cluster.until(lambda job=job: cluster.reported_kernels(job) == 20, f"job {job} has no report")
        profiles = ProfileStore(sandbox.profile_dir)
        cluster.until(lambda: profiles.load(os.getuid(), "late"), "there is no profile")
    shutil.rmtree(behind)


@pytest.mark.usefixtures("new_fikitd")
def test_job_without_room_for_its_record_runs_unmanaged_and_says_so(cluster: Cluster, spin: Path) -> None:
    run_dir = cluster.sandbox.run_dir
    with full(run_dir):
        _, _, output = started(cluster, spin)
        assert [line for line in output.splitlines() if "fikit" in line] == [
            f"fikit: couldn't write this job's record in {run_dir}: see slurmd's log; it runs unmanaged"
        ]
        assert "No space left on device; it runs unmanaged" in (cluster.sandbox.logs / "slurmd.log").read_text()
        for daemon in daemons(cluster.sandbox):
            daemon.kill()
    _, _, output = started(cluster, spin)
    assert " 20 kernels" in output
