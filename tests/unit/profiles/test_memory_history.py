"""What jobs of a name needed: kept for the next one, bounded, and read as hostile input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fikitd.profiles.memory_history import KEPT, MemoryHistory
from fikitd.profiles.profile_store import ProfileStore

ME = os.getuid()


@pytest.fixture
def peaks(tmp_path: Path) -> MemoryHistory:
    return MemoryHistory(ProfileStore(tmp_path))


def test_the_last_jobs_of_a_name_are_known(peaks: MemoryHistory) -> None:
    for number in range(KEPT + 3):
        peaks.remember(ME, "train", str(number), 100 + number)
    assert peaks.of(ME, "train") == {str(n): 100 + n for n in range(3, KEPT + 3)}
    assert peaks.of(ME, "other") == {}


def test_a_job_that_is_stored_twice_has_one_line(peaks: MemoryHistory) -> None:
    peaks.remember(ME, "train", "1", 5)
    peaks.remember(ME, "train", "2", 6)
    peaks.remember(ME, "train", "1", 7)
    assert peaks.of(ME, "train") == {"2": 6, "1": 7}


@pytest.mark.parametrize("text", [b"", b"1\n", b"1 x\n", b"\xff\n", b"1 2 3\n", b"a/b 3\n", b"1 5" + b"0" * 5000])
def test_nonsense_is_no_peak(peaks: MemoryHistory, tmp_path: Path, text: bytes) -> None:
    file = tmp_path / str(ME) / ".memory" / "train"
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    assert peaks.of(ME, "train") == {}
    peaks.remember(ME, "train", "1", 5)
    assert peaks.of(ME, "train") == {"1": 5}


def test_the_folder_of_peaks_is_no_profile(peaks: MemoryHistory, tmp_path: Path) -> None:
    peaks.remember(ME, "train", "1", 5)
    assert ProfileStore(tmp_path).keys(ME) == []


@pytest.mark.parametrize("name", ["..", "a/b", ".x", "../../etc/passwd", "x" * 500, "ä" * 500, "a\nb", "%2E"])
def test_names_are_no_paths(peaks: MemoryHistory, tmp_path: Path, name: str) -> None:
    peaks.remember(ME, name, "1", 5)
    assert peaks.of(ME, name) == {"1": 5}
    [file] = (tmp_path / str(ME) / ".memory").iterdir()
    assert file.read_text() == "1 5\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([str(ME), ".memory", file.name])


def test_a_job_without_a_name_is_not_remembered(peaks: MemoryHistory) -> None:
    assert peaks.of(ME, "") == {}
    with pytest.raises(ValueError, match="without a name"):
        peaks.remember(ME, "", "1", 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user's directory")
def test_nothing_is_written_into_another_users_directory(peaks: MemoryHistory, tmp_path: Path) -> None:
    (tmp_path / "4242").mkdir()
    os.chown(tmp_path / "4242", 1234, 1234)
    peaks.remember(4242, "train", "1", 5)
    assert list((tmp_path / "4242").iterdir()) == []
    assert peaks.of(4242, "train") == {"1": 5}, "it is in another one"
