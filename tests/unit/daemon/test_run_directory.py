"""The directory of a daemon: nobody else may write there, and one daemon has it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from descriptors import descriptors_of
from fikitd.daemon import run_directory
from fikitd.daemon.run_directory import LOCK_NAME, AlreadyServed, CannotServe


def test_it_is_made_and_made_again_without_harm(tmp_path: Path) -> None:
    run_dir = tmp_path / "a" / "run"
    run_directory.prepare(run_dir)
    (run_dir / "jobs" / "12").touch()
    run_directory.prepare(run_dir)
    assert (run_dir / "jobs" / "12").exists()
    assert stat.S_IMODE(run_dir.stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_one_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(CannotServe, match="writable by nobody else"):
        run_directory.prepare(tmp_path)


def test_one_that_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotServe, match=r"run_dir .*/file/run cannot be used: Not a directory"):
        run_directory.prepare(tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")
def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    with pytest.raises(CannotServe, match="must belong to uid 0"):
        run_directory.prepare(tmp_path)


def test_one_daemon_has_it_and_the_next_once_that_has_gone(tmp_path: Path) -> None:
    held = run_directory.lock(tmp_path)
    with pytest.raises(AlreadyServed, match="another fikitd serves"):
        run_directory.lock(tmp_path)
    assert descriptors_of(str(tmp_path)) == 1, "who gives way keeps nothing open"
    assert stat.S_IMODE((tmp_path / LOCK_NAME).stat().st_mode) == 0o600
    os.close(held)
    os.close(run_directory.lock(tmp_path))


def test_no_child_keeps_the_lock(tmp_path: Path) -> None:
    held = run_directory.lock(tmp_path)
    assert not os.get_inheritable(held)
    os.close(held)
