"""Everybody's storage, of mode 1777: nobody can plant there what is believed, or keep a user from having a place."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT
from daemon_in_thread import as_nobody
from fikitd.api.reports import ReportError, ReportStore
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import mounts, own_directory
from fikitd.store.own_directory import everybodys, make, make_parent, of, prepare
from fikitd.store.storage import become
from profile_documents import document

VICTIM, MALLORY, NOBODY = 1234, 4321, 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """As docs/admin.md makes it."""
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def as_user(uid: int, function: Callable[[], Any]) -> Any:
    """On a thread with that user's rights over files, as fikitd works."""
    results: list[Any] = []

    def work() -> None:
        try:
            become(uid, uid)
            results.append(function())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def taken_by_a_directory(path: Path) -> None:
    path.mkdir(mode=0o777)
    path.chmod(0o777)


def taken_by_a_file(path: Path) -> None:
    path.touch()


def taken_by_a_link_to_the_victims(path: Path) -> None:
    home = path.parent.parent / "home"
    home.mkdir()
    os.chown(home, VICTIM, VICTIM)
    path.symlink_to(home)


def taken_by_a_fifo(path: Path) -> None:
    os.mkfifo(path)


TAKEN = [taken_by_a_directory, taken_by_a_file, taken_by_a_link_to_the_victims, taken_by_a_fifo]


@root_only
@pytest.mark.parametrize("take", TAKEN)
def test_a_name_that_somebody_else_took_costs_its_user_nothing(shared: Path, take: Callable[[Path], None]) -> None:
    take(shared / str(VICTIM))
    os.chown(shared / str(VICTIM), MALLORY, MALLORY, follow_symlinks=False)
    reports, profiles = ReportStore(shared), ProfileStore(shared)
    record = {**REPORT, "uid": VICTIM}
    for number in ("1", "2"):
        as_user(VICTIM, lambda number=number: reports.save({**record, "job": number}))
    as_user(VICTIM, lambda: profiles.save(VICTIM, document(), "run1"))
    as_user(VICTIM, lambda: MemoryHistory(profiles).remember(VICTIM, "train", "1", 5))
    (own,) = of(shared, VICTIM)
    assert own.name.startswith(f"{VICTIM}.")
    assert own.stat().st_mode & 0o777 == 0o700
    assert reports.load("2") == {**record, "job": "2"}
    assert profiles.keys(VICTIM) == ["net"]
    assert MemoryHistory(profiles).of(VICTIM, "train") == {"1": 5}
    assert [uid for uid, _ in everybodys(shared)] == [VICTIM]


@root_only
def test_a_report_planted_for_somebody_elses_job_is_neither_shown_nor_in_the_way(shared: Path) -> None:
    store = ReportStore(shared)
    forged = {**REPORT, "job": "101", "uid": VICTIM, "kernels": 666}
    planted = as_user(MALLORY, lambda: store.save({**forged, "uid": MALLORY}))
    (shared / "101.json").write_bytes(planted.read_bytes())  # where fikitds of before wrote
    for path in (planted, shared / "101.json"):
        path.write_text(path.read_text().replace(f'"uid": {MALLORY}', f'"uid": {VICTIM}'))
        os.chown(path, MALLORY, MALLORY)
    with pytest.raises(ReportError, match=f"says that it is of job 101 of uid {VICTIM}"):
        store.load("101")
    as_user(VICTIM, lambda: store.save({**forged, "kernels": 3}))
    found = store.load("101")
    assert found is not None
    assert found["kernels"] == 3
    assert [report["kernels"] for report in store.newest()] == [3]


@root_only
def test_what_somebody_put_where_reports_of_before_are_is_not_ones_own(shared: Path) -> None:
    store, planted = ReportStore(shared), shared / "101.json"
    planted.write_text(json.dumps({**REPORT, "job": "101", "uid": NOBODY}))
    planted.chmod(0o644)
    for owner, believed in ((MALLORY, False), (NOBODY, True)):
        os.chown(planted, owner, owner)
        assert [report["job"] for report in as_nobody(store.newest)] == ["101"] * believed
        if believed:
            assert as_nobody(lambda: store.load("101"))["uid"] == NOBODY
        else:
            with pytest.raises(ReportError, match=f"belongs to uid {MALLORY}, not to uid {NOBODY}"):
                as_nobody(lambda: store.load("101"))


@root_only
def test_root_says_whose_where_two_users_have_a_report_of_one_number(shared: Path) -> None:
    store = ReportStore(shared)
    for uid in (VICTIM, MALLORY):
        as_user(uid, lambda uid=uid: store.save({**REPORT, "uid": uid}))
    with pytest.raises(ReportError, match=f"each of the uids {VICTIM}, {MALLORY} in .*: say whose with --user"):
        store.load("12")
    found = store.load("12", VICTIM)
    assert found is not None
    assert found["uid"] == VICTIM


@root_only
def test_another_users_file_in_ones_own_directory_is_not_believed(shared: Path) -> None:
    """A hard link: protected_hardlinks forbids them on local disks only."""
    store = ReportStore(shared)
    path = as_user(VICTIM, lambda: store.save({**REPORT, "uid": VICTIM}))
    own = as_user(MALLORY, lambda: make(shared, MALLORY))
    (own / "12.json").hardlink_to(path)
    (own / "13.json").symlink_to(path)
    found = store.load("12")
    assert found is not None
    assert found["uid"] == VICTIM
    assert len(store.newest()) == 1
    with pytest.raises(ReportError, match="symbolic link"):
        store.load("13")


@root_only
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_users_directory_is_the_users_alone(tmp_path: Path, shared: Path, mode: int) -> None:
    shared.chmod(mode)
    for store in (ProfileStore(shared / "profiles"), ProfileStore(shared)):
        store.prepare(VICTIM, VICTIM)
        if store.directory.is_dir() and (mode == 0o755 or store.directory == shared):
            as_user(VICTIM, lambda store=store: store.save(VICTIM, document(), "run1"))
            own = store.directory / str(VICTIM)
            assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (VICTIM, 0o700)


@root_only
def test_a_directory_of_before_that_all_may_look_into_is_closed(shared: Path) -> None:
    own = shared / str(VICTIM)
    own.mkdir(mode=0o755)
    os.chown(own, VICTIM, VICTIM)
    assert as_user(VICTIM, lambda: make(shared, VICTIM)) == own
    assert own.stat().st_mode & 0o777 == 0o700


@root_only
def test_root_gives_away_no_directory_that_is_somebodys(shared: Path) -> None:
    shared.chmod(0o755)
    (shared / str(VICTIM)).mkdir()
    os.chown(shared / str(VICTIM), MALLORY, MALLORY)
    (shared / "99").symlink_to("/etc")
    for uid in (VICTIM, 99):
        prepare(shared, uid, uid)
    assert (shared / str(VICTIM)).stat().st_uid == MALLORY
    assert Path("/etc").stat().st_uid == 0


@root_only
def test_a_directory_that_a_killed_fikitd_had_made_and_not_given_is_given(shared: Path) -> None:
    shared.chmod(0o755)
    (shared / str(VICTIM)).mkdir(mode=0o700)
    prepare(shared, VICTIM, VICTIM)
    assert (shared / str(VICTIM)).stat().st_uid == VICTIM


def test_storage_that_is_not_mounted_is_not_made_anew_on_the_local_disk(tmp_path: Path) -> None:
    away = tmp_path / "not-mounted" / "fikit"
    sentence = f"there is no {away}: is its file system mounted on this node"
    for attempt in (
        lambda: ReportStore(away / "reports").save(REPORT),
        lambda: ProfileStore(away / "profiles").save(os.getuid(), document(), "run1"),
        lambda: ProfileStore(away / "profiles").load(os.getuid(), "net"),
        lambda: MemoryHistory(ProfileStore(away / "profiles")).remember(os.getuid(), "train", "1", 5),
    ):
        with pytest.raises(FileNotFoundError, match=sentence):
            attempt()
    prepare(away / "reports", os.getuid(), os.getgid())
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_below_a_mount_point_that_has_nothing_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = tmp_path / "shared storage"
    (point / "reports").mkdir(parents=True)
    table = tmp_path / "fstab"
    escaped = str(point).replace(" ", "\\040")
    table.write_text(f"# a comment\nserver:/export {escaped} nfs defaults 0 0\nbroken\nnone none swap sw\n")
    monkeypatch.setattr(mounts, "FSTAB", table)
    assert mounts.missing_above(point / "reports" / "x") == point
    assert mounts.missing_above(tmp_path) is None
    with pytest.raises(FileNotFoundError, match=f"the file system of {point} is not mounted"):
        ReportStore(point / "reports").save(REPORT)
    assert list((point / "reports").iterdir()) == []
    table.write_text("/dev/sda1 / ext4 defaults\nproc /proc proc defaults\n")
    assert mounts.missing_above(Path("/proc/sys")) is None, "it is mounted"


def test_the_last_directory_of_all_is_made(tmp_path: Path) -> None:
    make_parent(tmp_path / "reports")
    assert (tmp_path / "reports").stat().st_mode & 0o777 == 0o755


def test_the_machines_own_state_is_made_with_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_directory, "LOCAL_STATE", tmp_path / "fikit")
    make_parent(tmp_path / "fikit" / "reports")
    assert (tmp_path / "fikit" / "reports").is_dir()


def test_storage_on_which_nothing_is_anybodys_own_is_said_and_left_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_directory, "belongs", lambda *_: False)
    with pytest.raises(PermissionError, match="does not belong to it"):
        make(tmp_path, os.getuid())
    assert list(tmp_path.iterdir()) == []
