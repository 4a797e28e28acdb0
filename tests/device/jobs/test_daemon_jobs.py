"""fikitd with real processes on the emulated GPU: counts, profiles, and everything that can go wrong around a job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, Runner, client_runner, eventually, let_others_in, mount, unmount
from fikitd.api.reports import duration, summary_line
from fikitd.profiles.profile_store import ProfileStore

from fikitd import paths

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: other users' processes, or a mount")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path).start()
    yield daemon
    assert daemon.process is not None
    if daemon.process.poll() is None:
        assert daemon.stop() == 0, daemon.log.read_text()


runner = pytest.fixture(client_runner)


def alone_s(profile: Any, launches: int) -> float:
    """What a profile says of so many launches of its only kernel: the first without context, the others in theirs."""
    means_ns = {len(kernel["context"]): kernel["duration"]["mean_ns"] for kernel in profile["kernels"]}
    return float(means_ns[0] + (launches - 1) * means_ns.get(3, means_ns[0])) / 1e9


def test_every_launch_is_in_the_report(daemon: Fikitd, runner: Runner) -> None:
    job, stderr, summary = runner.run(123, 20_000, priority=8)
    assert stderr == ""
    report = daemon.report(job)
    used = duration(report["gpu_time_s"])
    assert summary == (
        f"fikit: job 1 low: 123 kernels, GPU time {used}, waited 0 us, no profile yet; "
        f"samples of this run are stored as {report['profile']['key']} (emulated GPU)"
    )
    assert (report["kernels"], report["processes"], report["priority"], report["state"]) == (123, 1, 8, "ended")
    assert report["device"]["emulated"] is True
    assert report["device"]["memory_bytes"] > 0
    assert (report["profile"]["found"], report["warnings"]) == (False, [])


def test_a_measured_program_is_known_in_its_next_run(daemon: Fikitd, runner: Runner) -> None:
    job, _, summary = runner.run(100, 200_000, measure=True)
    key = daemon.report(job)["profile"]["key"]
    assert key.startswith("daemon_client-")
    assert re.search(rf"measured 100 kernels, GPU time \d+ ms, profile {key} (not )?stored", summary)

    profile = eventually(lambda: ProfileStore(daemon.profiles).load(os.getuid(), key))  # a busy machine has it late
    (kernel,) = (kernel for kernel in profile["kernels"] if not kernel["context"])
    assert kernel["name"] == "fikit_spin"
    assert 90 <= kernel["duration"]["count"] <= 99  # the first launch loads the kernel: it says less of its length
    mean_ns = kernel["duration"]["mean_ns"]
    assert 190_000 < mean_ns < 2_000_000  # a busy machine makes the emulated GPU slower, never faster

    job, _, summary = runner.run(100, 200_000)
    report = daemon.report(job)
    assert report["profile"] == {"key": key, "found": True, "stored": True, "borrowed": None}
    assert report["gpu_time_s"] == pytest.approx(alone_s(profile, 100), rel=0.01)
    parts = ("alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
    assert sum(report[part] for part in parts) == pytest.approx(report["elapsed_s"], abs=1e-6)
    assert (report["waited_s"], report["delayed_s"], report["unexplained_s"]) == (0, 0, 0), "nobody else was there"
    assert report["slowdown"] == pytest.approx(report["elapsed_s"] / report["alone_s"], rel=0.01)
    assert f"{report['slowdown']:.2f}x of its time alone, 100 kernels, GPU time" in summary


def test_rank_0_and_the_others_have_times_of_their_own(daemon: Fikitd, runner: Runner) -> None:
    for rank in ("0", "1", "2"):
        runner.env |= {"RANK": rank, "WORLD_SIZE": "3"}
        runner.run(60, 200_000, measure=True)
    job, _, _ = runner.run(60, 200_000)
    assert daemon.report(job)["profile"]["borrowed"] is None
    (key,) = ProfileStore(daemon.profiles).keys(os.getuid())
    profile = ProfileStore(daemon.profiles).load(os.getuid(), key)
    assert profile is not None
    assert profile["variants"] == 2
    for name in ("RANK", "WORLD_SIZE"):
        del runner.env[name]
    job, _, _ = runner.run(60, 200_000)
    assert daemon.report(job)["profile"]["borrowed"]["borrowed"] == 1, "alone it is neither"


def test_a_run_with_other_arguments_goes_by_what_was_measured_with_these(daemon: Fikitd, runner: Runner) -> None:
    job, _, _ = runner.run(100, 200_000, measure=True)
    key = daemon.report(job)["profile"]["key"]
    job, _, summary = runner.run(60, 200_000)
    profile = daemon.report(job)["profile"]
    assert (profile["key"], profile["found"]) == (key, True)
    assert profile["borrowed"] == {**profile["borrowed"], "kernels": 1, "known": 1, "borrowed": 1}
    assert profile["borrowed"]["run"].endswith(" 100 200000")
    assert f"times from {profile['borrowed']['run']} (1 of 1 kernels known)" in summary
    job, _, _ = runner.run(60, 200_000)
    assert daemon.report(job)["profile"]["borrowed"] is None, "by now a run with the same arguments was sampled"


def test_a_program_that_nobody_measured_is_known_in_its_next_run(daemon: Fikitd, runner: Runner) -> None:
    job, _, _ = runner.run(200, 200_000)
    first = daemon.report(job)
    key = first["profile"]["key"]
    assert (first["profile"]["found"], first["profile"]["stored"], first["span_alone_s"]) == (False, True, None)
    assert f"samples of this run are stored as {key}" in summary_line(first)

    profile = ProfileStore(daemon.profiles).load(os.getuid(), key)
    assert profile is not None
    (kernel,) = (kernel for kernel in profile["kernels"] if not kernel["context"])
    assert 2 <= kernel["duration"]["count"] < 200 / 8
    assert 190_000 < kernel["duration"]["mean_ns"] < 2_000_000
    assert first["gpu_time_s"] == pytest.approx(200 * kernel["duration"]["mean_ns"] / 1e9, rel=0.01)
    # Two samples have one gap between them; the first launch, which is timed besides, has the one behind it.
    assert 1 <= kernel["gap"]["count"] <= kernel["duration"]["count"] / 2 + 1

    job, _, summary = runner.run(200, 200_000)
    second = daemon.report(job)
    assert (second["profile"]["key"], second["profile"]["found"]) == (key, True)
    assert second["gpu_time_s"] == pytest.approx(alone_s(profile, 200), rel=0.01)
    assert "x of its time alone, 200 kernels" in summary


def test_a_named_profile_is_used_by_another_command_line(daemon: Fikitd, runner: Runner) -> None:
    runner.run(50, 100_000, measure=True, profile="mine")
    job, *_ = runner.run(70, 100_000, profile="mine")
    assert daemon.report(job)["profile"]["found"] is True


def test_a_killed_daemon_costs_the_program_one_line_and_nothing_else(daemon: Fikitd, runner: Runner) -> None:
    job, process = runner.start(100, 50_000, "hold")
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "done 100\n"
    eventually(lambda: daemon.control.job(job)["kernels"] == 100)
    assert daemon.process is not None
    daemon.process.kill()
    daemon.process.wait()
    process.stdin.write("x")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "done 100\n")
    assert len(err.splitlines()) == 1
    assert err.startswith("fikit: ")

    daemon.start()
    job, _, _ = runner.run(30, 50_000)
    assert daemon.report(job)["kernels"] == 30


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_job_goes_on_with_its_counters_under_the_next_daemon(
    signal_number: signal.Signals, daemon: Fikitd, runner: Runner
) -> None:
    client, runner.client = runner.client, Path("/bin/sh")
    job, process = runner.start("-c", f"{client} 40 50000 && read go && {client} 50 50000")
    assert process.stdout is not None
    assert process.stdout.readline() == "done 40\n"
    eventually(lambda: daemon.control.job(job)["state"] == "ended")
    noted = daemon.run_dir / "ledger" / job
    eventually(
        lambda: noted.exists() and json.loads(noted.read_text())["totals"]["kernels"] == 40
    )  # a moment later, on a thread of its own
    assert daemon.process is not None
    daemon.process.send_signal(signal_number)
    daemon.process.wait()
    daemon.start()
    assert daemon.control.job(job)["kernels"] == 40
    assert process.communicate("go\n", timeout=60) == ("done 50\n", "")
    runner.end(job)
    report = daemon.report(job)
    assert (report["kernels"], report["processes"], report["state"]) == (90, 2, "ended")
    assert list((daemon.run_dir / "ledger").iterdir()) == []


def test_a_killed_program_still_has_a_report(daemon: Fikitd, runner: Runner) -> None:
    job, process = runner.start(40, 50_000, "hold")
    assert process.stdout is not None
    assert process.stdout.readline() == "done 40\n"
    process.kill()
    process.wait()
    eventually(lambda: daemon.control.job(job)["ended"])
    runner.end(job)
    assert daemon.report(job)["kernels"] == 40


def test_what_a_cancelled_program_had_queued_is_no_time_on_the_gpu(daemon: Fikitd, runner: Runner) -> None:
    runner.run(20, 1_000_000, measure=True, profile="mine")  # so that every launch has a time
    begun_s = time.monotonic()
    job, process = runner.start(1000, 500_000_000, "quiet", profile="mine")
    eventually(lambda: any(running["kernels"] > 50 for running in daemon.control.jobs()))
    process.kill()
    process.wait()
    eventually(lambda: daemon.control.job(job)["ended"])
    there_s = time.monotonic() - begun_s
    runner.end(job)
    report = daemon.report(job)
    assert (report["gpu_time_s"], report["delayed_s"], report["untimed"]) == (None, 0, 0)
    assert report["unfinished"] == report["kernels"] > 50
    assert 0 < report["gpu_time_at_most_s"] < there_s
    assert "GPU time at most" in summary_line(report)


def test_a_corrupt_profile_is_skipped_and_named(daemon: Fikitd, runner: Runner) -> None:
    runner.run(50, 100_000, measure=True, profile="mine")
    bad = next((daemon.profiles / str(os.getuid()) / "mine").iterdir()).with_name("bad.json")
    bad.write_text('{"format": "fikit-profile", "ver')
    job, stderr, summary = runner.run(50, 100_000, profile="mine")
    report = daemon.report(job)
    assert stderr == ""
    assert report["profile"]["found"] is True
    assert len(report["warnings"]) == 1
    assert str(bad) in report["warnings"][0]
    assert summary.endswith(f"1 warning, see fikit-report {job} (emulated GPU)")


def measured(runner: Runner) -> tuple[str, str, str]:
    """A job that ends after fikitd has tried to store its profile: its id, standard error and summary line."""
    job, process = runner.start(50, 100_000, measure=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    eventually(lambda: runner.daemon.control.job(job)["profile"]["stored"] is not None)
    summary = runner.daemon.control.summary(job)
    runner.end(job)
    return job, err, summary


def test_a_file_in_place_of_the_profile_directory_costs_a_warning(daemon: Fikitd, runner: Runner) -> None:
    daemon.profiles.write_text("")
    job, stderr, summary = measured(runner)
    report = daemon.report(job)
    assert stderr == ""
    assert report["profile"]["stored"] is False
    assert report["warnings"] == [f"its profile could not be stored in {daemon.profiles}: Not a directory"]
    assert "not stored, 1 warning" in summary


@root_only
@pytest.mark.parametrize(
    ("options", "reason"),
    [("size=4k,nr_inodes=8", "No space left on device"), ("ro", "Read-only file system")],
    ids=["full", "read-only"],
)
def test_storage_that_takes_nothing_costs_warnings_only(
    daemon: Fikitd, runner: Runner, options: str, reason: str
) -> None:
    mount(daemon.profiles, options)
    try:
        if options != "ro":
            (daemon.profiles / "filler").write_bytes(bytes(4096))
        job, stderr, _ = measured(runner)
        report = daemon.report(job)
        assert stderr == ""
        assert report["kernels"] == 50
        assert report["warnings"] == [f"its profile could not be stored in {daemon.profiles}: {reason}"]
    finally:
        unmount(daemon.profiles)


@root_only
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["directories of root", "directories open to users"])
def test_another_users_job_owns_its_profile_and_report(daemon: Fikitd, runner: Runner, mode: int) -> None:
    let_others_in(daemon.root)
    let_others_in(runner.client.parent)
    as_user = {"user": 1234, "group": 1234, "extra_groups": []}
    for file in (runner.client, paths.shim()):
        if subprocess.run(["test", "-r", file], check=False, **as_user).returncode:  # type: ignore[call-overload]
            pytest.skip(f"another user cannot reach {file}")
    for directory in (daemon.reports, daemon.profiles):
        directory.mkdir()
        directory.chmod(mode)
    trap = daemon.root / "trap"
    trap.write_text("root's")
    (daemon.reports / "1.json").symlink_to(trap)

    job, process = runner.start(50, 100_000, uid=1234, measure=True, profile="mine")
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    daemon.control.summary(job)
    runner.end(job)
    report = daemon.reports / "1234" / f"{job}.json"
    assert daemon.report(job)["warnings"] == []
    (profile,) = (daemon.profiles / "1234" / "mine").iterdir()
    for path in (profile, profile.parent, profile.parent.parent, report, report.parent):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (1234, 1234), path
    assert report.stat().st_mode & 0o777 == 0o600
    assert (report.parent.stat().st_mode & 0o777, profile.parents[1].stat().st_mode & 0o777) == (0o700, 0o700)
    assert trap.read_text() == "root's"


def test_a_second_daemon_says_so_and_ends_with_success(daemon: Fikitd) -> None:
    second = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 0
    assert second.stderr == f"fikitd: another fikitd serves {daemon.run_dir} already\n"
    assert daemon.control.ping()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_with_success_and_removes_its_sockets(daemon: Fikitd, number: signal.Signals) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(number)
    assert daemon.process.wait(20) == 0
    assert not list(daemon.run_dir.glob("*.sock"))


def test_a_faulty_configuration_ends_the_daemon_with_one_sentence(tmp_path: Path) -> None:
    daemon = Fikitd(tmp_path)
    daemon.config.write_text("[scheduler]\nlease = 5\n")
    for arguments in ((), ("--check-config",)):
        done = subprocess.run(daemon.command(*arguments), capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert f'{daemon.config}:2: unknown key "lease" in [scheduler]; did you mean "lease_ms"?' in done.stderr


def test_a_wrong_option_of_the_daemon_is_one_sentence() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("fikitd"), "--hlep"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("fikitd: No such option")


def test_an_idle_daemon_uses_no_cpu(daemon: Fikitd, runner: Runner) -> None:
    runner.run(10, 20_000)
    assert daemon.process is not None
    stat = Path(f"/proc/{daemon.process.pid}/stat")

    def ticks() -> int:
        return sum(int(field) for field in stat.read_text().rpartition(")")[2].split()[11:13])

    before = ticks()
    # The time is what is tested: 1 tick is 10 ms of CPU in one second.
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.process.wait(1.0)
    assert ticks() - before <= 1
