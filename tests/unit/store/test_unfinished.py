"""What somebody left in run_dir who was killed while he wrote there goes: run_dir lives as long as the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import eventually
from fikitd.daemon import run_directory, server
from fikitd.store import temporary
from fikitd.store.temporary import Unfinished


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "jobs"
    found.mkdir()
    return found


def look(directory: Path) -> Callable[[], list[str]]:
    """Each time what is left."""
    unfinished = Unfinished([directory, directory / "is not there"])

    def again() -> list[str]:
        unfinished.remove()
        return sorted(os.listdir(directory))  # noqa: PTH208

    return again


def test_what_is_there_at_two_looks_goes(directory: Path) -> None:
    for name in (".13.4711", "12"):
        (directory / name).write_text("version=1\n")
    left = look(directory)
    assert left() == [".13.4711", "12"], "its prolog may be at work"
    assert left() == ["12"]
    assert left() == ["12"]


def test_a_name_that_is_written_again_and_again_is_another_file_each_time(directory: Path) -> None:
    left, note = look(directory), directory / ".12"
    for text in ("one", "two", "three"):
        note.write_text(text)
        assert ".12" in left()
        note.rename(directory / "12")
    assert left() == ["12"]


def test_what_is_no_file_stays(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    (directory / ".link").symlink_to(tmp_path / "kept")
    (directory / ".directory").mkdir()
    left = look(directory)
    assert left() == left() == [".directory", ".link"]
    assert (tmp_path / "kept").exists()


def test_who_cannot_remove_it_goes_on(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".1", ".2"):
        (directory / name).write_text("")

    def refuse(path: str) -> None:
        raise PermissionError(path)

    left = look(directory)
    left()
    with monkeypatch.context() as patched:
        patched.setattr(temporary.os, "unlink", refuse)
        assert left() == [".1", ".2"]
    assert left() == []


def test_a_fikitd_looks_in_all_places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP_S", 0.01)
    config, proc = fakes.config_in(tmp_path), fakes.FakeProc(tmp_path / "proc")
    with fakes.serving(config, fakes.FakeCore(), proc.root):
        places = [Path(config.daemon.run_dir) / name for name in run_directory.NOTES]
        for place in places:
            place.mkdir(exist_ok=True)
            (place / ".12.0a1b2c3d").write_text("")
        eventually(lambda: not any(list(place.glob(".*")) for place in places))
