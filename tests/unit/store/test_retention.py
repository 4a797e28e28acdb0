"""What a site does not keep goes: the oldest of each user's own, when one of the user's jobs ends."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikitd.api.client import Control
from fikitd.profiles import profile_store, run_files
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import temporary
from fikitd.store.storage import write_atomic
from fikitd.workers.retention import Kept, prune_peaks, prune_profiles, prune_reports, prune_temporary

ME = os.getuid()
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def put(directory: Path, *names: str) -> None:
    """Files, the first one the oldest."""
    directory.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        path = directory / name
        path.write_text("x")
        os.utime(path, (1000 + number, 1000 + number))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_newest_reports_and_traces_stay(tmp_path: Path) -> None:
    put(tmp_path, "9.json", "8.json", "9.trace.gz", "8.trace.gz", "10.json", "10.trace.gz", "notes", ".9.json.0a1b2c3d")
    prune_reports(tmp_path, ME, Kept(reports=2, traces=1, profiles=0))
    assert names(tmp_path) == [".9.json.0a1b2c3d", "10.json", "10.trace.gz", "8.json", "notes"]
    prune_reports(tmp_path, ME, Kept(reports=0, traces=0, profiles=0))
    assert len(names(tmp_path)) == 5


def test_what_fikitds_of_before_left_counts_with_what_the_user_has_now(tmp_path: Path) -> None:
    put(tmp_path / "own", "5.json", "6.json")
    put(tmp_path / "shared", "1.json", "2.json", "2.trace.gz")
    have = prune_reports(tmp_path / "own", ME, Kept(reports=3, traces=3, profiles=0))
    assert have == (2, 0)
    prune_reports(tmp_path / "shared", ME, Kept(reports=3, traces=3, profiles=0), have)
    assert names(tmp_path / "shared") == ["2.json", "2.trace.gz"]


@root_only
def test_other_users_files_and_links_and_directories_stay(tmp_path: Path) -> None:
    put(tmp_path, "1.json", "2.json", "3.json", "4.json")
    os.chown(tmp_path / "1.json", 1234, 1234)
    (tmp_path / "5.json").symlink_to(tmp_path / "1.json")
    (tmp_path / "6.json").mkdir()
    prune_reports(tmp_path, ME, Kept(reports=1, traces=0, profiles=0))
    assert names(tmp_path) == ["1.json", "4.json", "5.json", "6.json"]


def test_the_profiles_that_were_added_to_last_stay_whole(tmp_path: Path) -> None:
    for age, key in enumerate(("train", "old", "infer")):
        put(tmp_path / key, "run-1.json", "run-2.json")
        os.utime(tmp_path / key, (1000 - age, 1000 - age))
    put(tmp_path / ".memory", "train")
    os.utime(tmp_path / "old", (1, 1))
    prune_profiles(tmp_path, ME, 2)
    assert names(tmp_path) == [".memory", "infer", "train"]
    assert names(tmp_path / "train") == ["run-1.json", "run-2.json"]
    prune_profiles(tmp_path / "missing", ME, 2)


def test_of_how_much_memory_jobs_needed_the_newest_stay(tmp_path: Path) -> None:
    put(tmp_path, "old", "train", "infer", ".infer.0a1b2c3d")
    prune_peaks(tmp_path, ME, 0)
    prune_peaks(tmp_path, ME, 2)
    prune_peaks(tmp_path / "missing", ME, 2)
    assert names(tmp_path) == [".infer.0a1b2c3d", "infer", "train"]


def killed(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch, hours: float = 25) -> Path:
    """The temporary file of a writer that was killed in the middle, so many hours ago."""
    directory.mkdir(parents=True, exist_ok=True)
    before = set(directory.iterdir())

    def dies(_descriptor: int) -> None:
        os._exit(0)

    if (child := os.fork()) == 0:
        monkeypatch.setattr(os, "fsync", dies)
        write_atomic(directory / name, b"half", mode=0o600)
    os.waitpid(child, 0)
    [left] = set(directory.iterdir()) - before
    written_s = time.time() - hours * 3600
    os.utime(left, (written_s, written_s))
    return left


@pytest.mark.starts_processes
def test_what_a_killed_writer_left_goes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports, profiles = tmp_path / "reports", tmp_path / "profiles"
    put_own = [reports / str(ME), profiles / str(ME), profiles / str(ME) / "net", profiles / str(ME) / ".memory"]
    gone = [
        killed(directory, name, monkeypatch)
        for directory, name in zip(put_own, ("12.json", "x", "run.json", "train"), strict=True)
    ]
    young = killed(reports / str(ME), "13.json", monkeypatch, hours=23)
    prune_temporary(reports, profiles, ME)
    assert [path for path in gone if path.exists()] == []
    assert young.exists()


def test_files_that_only_look_like_a_killed_writers_stay(tmp_path: Path) -> None:
    own = tmp_path / "reports" / str(ME)
    own.parent.mkdir()
    put(own, ".notes", ".12.json.0a1b2c3", ".12.json.0A1B2C3D", "12.json.0a1b2c3d", ".12.json.0a1b2c3d.bak")
    put(tmp_path / "elsewhere", ".1.json.0a1b2c3d")
    (own / ".13.json.0a1b2c3d").symlink_to(tmp_path / "elsewhere" / ".1.json.0a1b2c3d")
    os.utime(own / ".13.json.0a1b2c3d", (1000, 1000), follow_symlinks=False)
    (own / ".14.json.0a1b2c3d").mkdir()
    profiles = tmp_path / "profiles"
    (profiles / str(ME)).mkdir(parents=True)
    (profiles / str(ME) / "net").symlink_to(tmp_path / "elsewhere")
    before = names(own)
    prune_temporary(own.parent, profiles, ME)
    assert (names(own), names(tmp_path / "elsewhere")) == (before, [".1.json.0a1b2c3d"])


@root_only
def test_another_users_temporary_file_stays(tmp_path: Path) -> None:
    own = tmp_path / str(ME)
    put(own, ".1.json.0a1b2c3d", ".2.json.0a1b2c3d")
    os.chown(own / ".1.json.0a1b2c3d", 1234, 1234)
    prune_temporary(tmp_path, tmp_path / "missing", ME)
    assert names(own) == [".1.json.0a1b2c3d"]


@pytest.mark.starts_processes
def test_a_killed_writers_age_is_in_the_file_systems_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    young = killed(tmp_path / str(ME), "12.json", monkeypatch, hours=0)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    prune_temporary(tmp_path, tmp_path / "missing", ME)
    assert young.exists()


@pytest.mark.starts_processes
def test_of_a_file_with_one_writer_only_its_own_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, young = (killed(tmp_path, "node1.json", monkeypatch, hours) for hours in (25, 1))
    other = killed(tmp_path, "node10.json", monkeypatch)
    temporary.remove_of(tmp_path / "node1.json")
    temporary.remove_of(tmp_path / "missing" / "node1.json")
    assert (mine.exists(), young.exists(), other.exists()) == (False, True, True)


def test_a_clock_that_is_years_ahead_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "1.json", "2.json")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    prune_reports(tmp_path, ME, Kept(reports=2, traces=2, profiles=2))
    assert names(tmp_path) == ["1.json", "2.json"]


def test_it_is_done_when_a_job_ends_but_not_for_every_job(tmp_path: Path) -> None:
    config = fakes.config_in(tmp_path)
    config = replace(config, daemon=replace(config.daemon, keep_reports=2, keep_profiles=1))
    core, proc = FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    reports = Path(config.daemon.report_dir)
    put(reports, "1.json", "2.json", "3.json")
    put(reports / str(ME), ".11.json.0a1b2c3d")
    peaks = Path(config.daemon.profile_dir) / str(ME) / ".memory"
    peaks.parent.mkdir(parents=True)
    put(peaks, "old", "new")
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        for job in ("12", "13", "14"):
            daemon.job(job)
            daemon.client().close()
            daemon.control.end(job)
            if job == "12":
                eventually(lambda: names(reports) == sorted(["3.json", str(ME)]))
                eventually(lambda: names(peaks) == ["new"])
    assert names(reports) == sorted(["3.json", str(ME)])
    assert names(reports / str(ME)) == ["12.json", "13.json", "14.json"]


def test_what_a_killed_writer_left_goes_where_everything_is_kept(tmp_path: Path) -> None:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    own = Path(config.daemon.report_dir) / str(ME)
    own.parent.mkdir(exist_ok=True)
    put(own, ".11.json.0a1b2c3d", "11.json")
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        daemon.job("12")
        daemon.client().close()
        daemon.control.end("12")
        eventually(lambda: names(own) == ["11.json", "12.json"])


def test_measured_runs_that_nobody_reads_any_more_are_removed(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    device = {"name": "GPU A", "memory_bytes": 2**34, "emulated": True}
    document = profile_store.document(
        key="net", command=["x"], created="2026-11-21T12:00:00Z", device=device, span_ns=1, launches=1, peak_bytes=1,
        kernels=[fakes.kernel()],
    )  # fmt: skip
    for number in range(run_files.MAX_RUNS + 3):
        store.save(ME, document, f"20261121T1200{number:02}Z")
    left = names(tmp_path / str(ME) / "net")
    assert (len(left), left[0]) == (run_files.MAX_RUNS, "20261121T120003Z.json")
