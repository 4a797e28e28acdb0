"""`fikit doctor` about the directories in which fikitd tells others of its node."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikit.checks import published
from status_samples import NOW_S, status, write


def test_nodes_that_write_are_counted_and_late_ones_named(tmp_path: Path) -> None:
    directory = write(tmp_path / "s", status("n1"), status("n2"))
    assert published.status_files(directory, NOW_S).found == f"2 nodes in {directory}"
    write(directory, *(status(f"old{number}", written_s=NOW_S - 900) for number in range(7)))
    check = published.status_files(directory, NOW_S)
    assert (check.status, check.found) == (
        "warn",
        "old0, old1, old2, old3, old4 and 2 more have not written for a minute",
    )


def test_what_is_wrong_with_the_directory_is_said_with_what_to_do(tmp_path: Path) -> None:
    missing = published.status_files(tmp_path / "missing", NOW_S)
    assert (missing.status, missing.advice.split(",")[0]) == ("warn", f"install -d -m 0755 {tmp_path}/missing")
    directory = write(tmp_path / "s", status("n1"))
    directory.chmod(0o777)
    assert "others than root may write there" in published.status_files(directory, NOW_S).found
    directory.chmod(0o755)
    (directory / "n1.status").write_text("{")
    assert "n1.status is not believed" in published.status_files(directory, NOW_S).found


def test_the_directory_for_dcgm_exporter_is_there_and_roots(tmp_path: Path) -> None:
    assert "tmpfiles.d" in published.job_map(tmp_path / "missing").advice
    assert published.job_map(tmp_path).status == "ok"
    tmp_path.chmod(0o777)
    assert published.job_map(tmp_path).status == "warn"


def test_what_the_site_does_not_publish_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config := tmp_path / "fikit.toml").write_text("")
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    assert list(published.area()) == []
    config.write_text(f'[daemon]\nstatus_dir = "{tmp_path}/x"\n[metrics]\njob_map_dir = "{tmp_path}/y"\n')
    assert [check.name for check in published.area()] == ["status_dir", "job_map_dir"]
