"""What a user may put where fikit reads, and how much of it: no reader waits, follows or reads without end, and no job fills the storage."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikit.commands import report, trace
from fikitd.api.client import Control
from fikitd.api.reports import MOST_DAMAGED, ReportStore
from fikitd.api.traces import TraceStore
from fikitd.profiles import memory_history, profile_store
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import user_files
from fikitd.store.storage import read_bounded
from profile_documents import document

ME = os.getuid()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    store = ReportStore(site_without_daemon(tmp_path, monkeypatch))
    store.save({**REPORT, "job": "11"})
    return store


def fifo(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def nested(path: Path) -> None:
    path.write_bytes(b'{"format": "fikit-report", "version": 1, "job": ' + b"[" * 200_000)


def huge_number(path: Path) -> None:
    path.write_bytes(b'{"format": "fikit-report", "version": ' + b"1" * 100_000 + b"}")


def twice(path: Path) -> None:
    path.write_bytes(b'{"format": "x", "format": "fikit-report", "version": 1, "version": 2}')


ODD = [fifo, directory, link, link_to_itself, device, sparse, nested, huge_number, twice]


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("suffix", [".json", ".trace.gz"])
def test_what_is_no_report_or_trace_is_said_at_once_and_hides_no_other(
    store: ReportStore, make: Callable[[Path], None], suffix: str
) -> None:
    make(store.directory / str(ME) / f"12{suffix}")
    before = time.monotonic()
    for command, argv in ((report.command, ["12"]), (trace.command, ["12"]), (report.command, ["--list"])):
        done = CliRunner().invoke(command, argv)
        assert (done.exit_code, isinstance(done.exception, SystemExit | None)) == (0 if argv == ["--list"] else 1, True)
    assert "11 serve" in done.output
    assert time.monotonic() - before < 5


def test_names_that_are_no_utf8_or_no_jobs_are_passed_over(store: ReportStore) -> None:
    own = os.fsencode(store.directory / str(ME))
    for name in (b"\xff.json", b"..json", b"\x1b[2J.json", b".json", b"a b.json", b"x" * 200 + b".json"):
        with open(own + b"/" + name, "w") as file:  # noqa: PTH123 - a name of bytes
            file.write("{}")
    assert store.jobs() == ["11"]
    done = CliRunner().invoke(report.command, ["--list"])
    assert (done.exit_code, "warning" in done.output) == (0, False)


def test_a_report_from_2099_is_not_the_newest_for_ever(store: ReportStore) -> None:
    for number in range(report.LISTED + 2):
        path = store.save({**REPORT, "job": f"9{number}", "started": "2099-01-01T00:00:00Z"})
        os.utime(path, (4e9, 4e9))
    store.save({**REPORT, "job": "13", "started": "2026-11-22T12:00:00Z"})
    output = CliRunner().invoke(report.command, ["--list"]).output
    shown = [line.split()[0] for line in output.splitlines() if " serve " in line]
    assert shown[:2] == ["13", "11"]
    assert "Job 13" in CliRunner().invoke(report.command, []).output


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Every file that is read."""
    seen: list[Path] = []

    def reading(path: Path, *how: Any) -> bytes:
        seen.append(path)
        return read_bounded(path, *how)

    monkeypatch.setattr(user_files, "read_bounded", reading)
    return seen


def test_of_very_many_reports_those_are_read_that_are_shown(store: ReportStore, reads: list[Path]) -> None:
    for number in range(100, 200):
        path = store.save({**REPORT, "job": str(number)})
        os.utime(path, (1000 + number, 1000 + number))
    output = CliRunner().invoke(report.command, ["--list"]).output
    assert [line.split()[0] for line in output.splitlines() if " serve " in line][:2] == ["11", "199"]
    assert len(reads) == report.LISTED
    reads.clear()
    assert "Job 11" in CliRunner().invoke(report.command, ["11"]).output
    assert len(reads) <= 2
    reads.clear()
    assert "the nearest are" in CliRunner().invoke(report.command, ["x199"]).output
    assert len(reads) <= 2  # no report, and no note about a job that fikit did not see


def test_a_user_whose_reports_are_all_damaged_costs_few_reads_and_one_line(
    store: ReportStore, reads: list[Path]
) -> None:
    for number in range(100, 200):
        (store.directory / str(ME) / f"{number}.json").write_text("{")
    output = CliRunner().invoke(report.command, ["--list"]).output
    assert len(reads) == MOST_DAMAGED
    assert output.count("warning") == 1
    assert "could not be read: it is not JSON" in output
    assert f", and {MOST_DAMAGED - 1} more" in output


def test_a_jobs_programs_leave_a_bounded_number_of_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_store, "MAX_KEYS", 4)
    store = ProfileStore(tmp_path)
    said: list[str] = []
    for number in range(7):
        store.save(ME, document(key=f"k{number}"), "run1", warn=said.append)
        os.utime(tmp_path / str(ME) / f"k{number}", (1000 + number, 1000 + number))
    assert store.keys(ME) == ["k3", "k4", "k5", "k6"]
    assert len(set(said)) == 1, "one sentence, which a job says once"
    assert "fikit keeps 4 of a user" in said[0]
    store.save(ME, document(key="k3"), "run2")
    assert store.keys(ME) == ["k3", "k4", "k5", "k6"], "no new one"


def test_a_jobs_programs_leave_a_bounded_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ProfileStore(tmp_path)
    size = store.save(ME, document(key="k0", command=["x" * 5000]), "run1").stat().st_size
    monkeypatch.setattr(profile_store, "MAX_USER_BYTES", 3 * size + 10)
    monkeypatch.setattr(profile_store, "LARGE_BYTES", size - 1)
    os.utime(tmp_path / str(ME) / "k0", (1000, 1000))
    for number in range(1, 6):
        store.save(ME, document(key=f"k{number % 3}", command=["x" * 5000]), f"run{number}")
        os.utime(tmp_path / str(ME) / f"k{number % 3}", (1000 + number, 1000 + number))
    left = sum(path.stat().st_size for path in (tmp_path / str(ME)).rglob("*.json"))
    assert left <= 3 * size + 10
    assert "k2" in store.keys(ME), "the last one is there"


def test_the_bounds_of_small_and_large_profiles_fit_together() -> None:
    """Small ones are not counted at each save: as many as a user may have are within the bound all the same."""
    assert profile_store.MAX_KEYS * profile_store.MAX_FILES * profile_store.LARGE_BYTES <= profile_store.MAX_USER_BYTES
    assert profile_store.MAX_USER_BYTES >= 8 * profile_store.MAX_TOTAL_BYTES, "of one profile, what is read has room"


def test_of_a_profile_with_a_clock_from_2099_nothing_else_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_store, "MAX_KEYS", 2)
    store = ProfileStore(tmp_path)
    for key, when in (("future", 4e9), ("now", time.time())):
        store.save(ME, document(key=key), "run1")
        os.utime(tmp_path / str(ME) / key, (when, when))
    store.save(ME, document(key="new"), "run1")
    assert store.keys(ME) == ["new", "now"]


def test_names_of_jobs_leave_a_bounded_number_of_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_history, "MAX_NAMES", 3)
    known = MemoryHistory(ProfileStore(tmp_path))
    for number in range(5):
        known.remember(ME, f"job{number}", "1", 5)
        os.utime(tmp_path / str(ME) / ".memory" / f"job{number}", (1000 + number, 1000 + number))
    known.remember(ME, "job5", "1", 5)
    left = sorted(path.name for path in (tmp_path / str(ME) / ".memory").iterdir())
    assert left == ["job3", "job4", "job5"]


def test_the_job_whose_profiles_put_others_out_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_store, "MAX_KEYS", 1)
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    core.measured = [fakes.kernel()]
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        for key in ("a", "b", "c"):
            daemon.job(measure=True, profile=key)
            daemon.client().close()
            eventually(lambda key=key: key in ProfileStore(config.daemon.profile_dir).keys(ME))
        warnings = eventually(lambda: daemon.control.job("12")["warnings"])  # a busy machine has others of its own
        assert len([warning for warning in warnings if "fikit keeps 1 of a user" in warning]) == 1


def test_a_trace_that_is_larger_than_any_is_not_unpacked(store: ReportStore) -> None:
    bomb = gzip.compress(b"[" * 3 * 2**26)
    path = store.directory / str(ME) / "12.trace.gz"
    path.write_bytes(bomb)
    done = CliRunner().invoke(trace.command, ["12"])
    assert "it is cut off, or larger than any trace" in done.output
    path.write_bytes(gzip.compress(b"[[],[]" + b",[]" * 2**24))
    done = CliRunner().invoke(trace.command, ["12"])
    assert "values" in done.output
    assert TraceStore(store.directory).load("13") is None
