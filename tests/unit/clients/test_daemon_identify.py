"""Which job a process belongs to, over a made-up /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_fakes import FakeProc
from fikitd.jobs.identify import Unidentified, identify, job_of_cgroup
from fikitd.store.records import JobRecord, JobRecords

USER, OTHER = 1000, 1001
SLUID = "s6BMSRJ0KAVYNT"
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class World:
    def __init__(self, root: Path) -> None:
        (root / "proc").mkdir()
        (root / "run").mkdir()
        self.run_dir = root / "run"
        self.proc = FakeProc(root / "proc")

    def record(self, job: str, uid: int = USER, **facts: object) -> None:
        JobRecord(**{"job": job, "uid": uid, "gid": uid, "priority": 1, **facts}).write(self.run_dir)  # type: ignore[arg-type]

    def job_of(self, pid: int, uid: int = USER, daemon_uid: int = 0) -> str:
        records = JobRecords(self.run_dir)
        return identify(self.proc.root, pid, uid, records, daemon_uid=daemon_uid, boot_ns=0).job


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n", "12"),
        ("9:devices:/slurm/uid_1000/job_12/step_batch/task_0\n4:cpu:/\n", "12"),
        ("0::/system.slice/node1_slurmstepd.scope/job_12\n", "12"),
        (f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0\n", SLUID),
        (f"0::/system.slice/node1_slurmstepd.scope/{SLUID}\n", SLUID),
        (f"0::/user.slice/{SLUID}/step_0\n", None),
        ("0::/system.slice/slurmstepd.scope/system\n", None),
        ("0::/user.slice/session-3.scope\n", None),
        ("0::/job_12x/y\n", None),
        ("0::/myjob_12/y\n", None),
        ("", None),
    ],
)
def test_job_in_the_cgroup_path(text: str, job: str | None) -> None:
    assert job_of_cgroup(text) == job


def test_a_group_that_a_job_made_below_its_own_does_not_count() -> None:
    assert job_of_cgroup("0::/slurmstepd.scope/job_12/step_0/job_99/step_0\n") == "12"
    assert job_of_cgroup(f"0::/slurmstepd.scope/{SLUID}/step_0/job_99/step_0\n") == SLUID
    assert job_of_cgroup(f"0::/slurmstepd.scope/job_12/step_0/slurmstepd.scope/{SLUID}/step_0\n") == "12"


def test_cgroup_names_the_job(world: World) -> None:
    world.record("12")
    world.proc.add(500, uid=USER, cgroup="0::/slurmstepd.scope/job_12/step_0\n")
    assert world.job_of(500) == "12"


def test_a_cgroup_of_slurm_26_names_the_run(world: World) -> None:
    """Its process has been re-parented: no slurmstepd is above it."""
    world.record("11", sluid=SLUID.replace("T", "V"))
    world.record("12", sluid=SLUID)
    world.proc.add(500, ppid=1, uid=USER, cgroup=f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0\n")
    assert world.job_of(500) == "12"


@pytest.fixture
def run_cgroup() -> Iterator[Path]:
    """A real cgroup as Slurm 26.05 makes it for the run's first step."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if not roots or not os.access(roots[0], os.W_OK):
        pytest.skip("needs a cgroup2 file system and the right to make groups in it")
    made = [roots[0] / f"fikit-{os.getpid()}-slurmstepd.scope"]
    made += [made[0] / SLUID, made[0] / SLUID / "step_0"]
    for group in made:
        group.mkdir()
    yield made[-1]
    for group in reversed(made):
        group.rmdir()


@pytest.mark.starts_processes
def test_a_process_without_its_slurmstepd_is_known_by_a_real_cgroup(tmp_path: Path, run_cgroup: Path) -> None:
    JobRecord("12", uid=os.getuid(), gid=os.getgid(), priority=1, sluid=SLUID).write(tmp_path)
    command = f"echo $$ >{run_cgroup}/cgroup.procs; sleep 60 >/dev/null & echo $!"
    pid = int(subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout)
    try:
        records = JobRecords(tmp_path)
        assert identify(Path("/proc"), pid, os.getuid(), records, daemon_uid=os.geteuid()).job == "12"
    finally:
        os.kill(pid, signal.SIGKILL)
        for _ in range(1000):
            if not (run_cgroup / "cgroup.procs").read_text():
                break
            time.sleep(0.005)


def test_a_cgroup_of_an_earlier_run_is_not_this_runs(world: World) -> None:
    world.record("12", sluid=SLUID)
    world.proc.add(500, ppid=1, uid=USER, cgroup="0::/system.slice/slurmstepd.scope/s6BMSRJ0KAVYNS/step_0\n")
    with pytest.raises(Unidentified):
        world.job_of(500)


def test_roots_slurmstepd_above_the_process_names_the_job(world: World) -> None:
    world.record("12")
    world.proc.add(400, uid=0, command=("slurmstepd: [12.batch]",))
    world.proc.add(450, ppid=400, uid=USER)
    world.proc.add(500, ppid=450, uid=USER)
    assert world.job_of(500) == "12"


def test_a_users_process_that_calls_itself_slurmstepd_does_not_count(world: World) -> None:
    world.record("99")
    world.proc.add(400, uid=USER, command=("slurmstepd: [99.batch]",))
    world.proc.add(500, ppid=400, uid=USER)
    with pytest.raises(Unidentified, match="belongs to no fikit job"):
        world.job_of(500)


def test_descendants_of_a_records_pid_belong_to_it(world: World) -> None:
    world.record("run-7", pid=400)
    world.proc.add(400, uid=USER)
    world.proc.add(500, ppid=400, uid=USER)
    assert world.job_of(400) == world.job_of(500) == "run-7"


def test_a_later_process_with_the_records_pid_does_not_belong_to_it(world: World) -> None:
    world.record("run-7", pid=400, started_ns=10_000_000_000)
    world.proc.add(400, uid=USER, start=12_000_000_000 // TICK_NS)
    with pytest.raises(Unidentified):
        world.job_of(400)
    world.proc.add(400, uid=USER, start=9_000_000_000 // TICK_NS)
    assert world.job_of(400) == "run-7"


def test_of_two_records_with_one_pid_the_later_one_counts(world: World) -> None:
    world.record("old", pid=400, started_ns=5_000_000_000)
    world.record("new", pid=400, started_ns=9_000_000_000)
    world.proc.add(400, uid=USER, start=8_500_000_000 // TICK_NS)
    assert world.job_of(400) == "new"


def test_an_enclosing_jobs_cgroup_without_a_record_gives_way_to_the_inner_one(world: World) -> None:
    world.record("run-7", pid=400)
    world.proc.add(400, uid=USER, cgroup="0::/slurmstepd.scope/job_999/step_0\n")
    assert world.job_of(400) == "run-7"


def test_another_users_job_is_refused_and_named(world: World) -> None:
    world.record("12", uid=OTHER)
    world.proc.add(500, uid=USER, cgroup="0::/slurmstepd.scope/job_12/step_0\n")
    with pytest.raises(Unidentified, match=f"its job 12 is uid {OTHER}'s"):
        world.job_of(500)


def test_a_users_own_daemon_takes_its_users_processes_for_any_record(world: World) -> None:
    world.record("12", uid=OTHER)
    world.proc.add(500, uid=USER, cgroup="0::/slurmstepd.scope/job_12/step_0\n")
    assert world.job_of(500, daemon_uid=USER) == "12"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_a_record_that_neither_root_nor_the_daemon_wrote_does_not_count(world: World) -> None:
    world.record("12")
    os.chown(world.run_dir / "jobs" / "12", USER, USER)
    world.proc.add(500, uid=USER, cgroup="0::/slurmstepd.scope/job_12/step_0\n")
    with pytest.raises(Unidentified):
        world.job_of(500)


def test_names_with_parentheses_do_not_confuse_the_parent(world: World) -> None:
    world.record("run-7", pid=400)
    world.proc.add(400, uid=USER)
    world.proc.add(500, ppid=400, uid=USER, name="a) S 1 (b")
    assert world.job_of(500) == "run-7"


def test_a_loop_of_parents_ends(world: World) -> None:
    world.proc.add(400, ppid=500, uid=USER)
    world.proc.add(500, ppid=400, uid=USER)
    with pytest.raises(Unidentified):
        world.job_of(500)


@pytest.mark.parametrize("pid", [0, -1, 4242])
def test_a_process_that_cannot_be_seen_is_refused(world: World, pid: int) -> None:
    with pytest.raises(Unidentified, match="not visible"):
        world.job_of(pid)


def test_a_pid_that_changes_hands_meanwhile_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.record("12")
    world.proc.add(500, uid=USER, cgroup="0::/slurmstepd.scope/job_12/step_0\n")
    get = JobRecords.get

    def get_and_reuse(records: JobRecords, job: str) -> JobRecord | None:
        world.proc.add(500, uid=USER, start=4711)
        return get(records, job)

    monkeypatch.setattr(JobRecords, "get", get_and_reuse)
    with pytest.raises(Unidentified, match="ended while it was identified"):
        world.job_of(500)


def test_a_clock_that_was_set_changes_nothing(world: World) -> None:
    """What `fikit run` writes is when its process began after the boot, which no clock has a part in."""
    world.record("run-7", pid=400, pid_start=900, started_ns=1)
    world.proc.add(400, uid=USER, start=900)
    assert world.job_of(400) == "run-7"
    world.proc.add(400, uid=USER, start=901)
    with pytest.raises(Unidentified):
        world.job_of(400)
