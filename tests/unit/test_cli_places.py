"""Whose directories `fikit run` and `fikit report` use."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikit import daemon, places


def test_named_configuration_is_the_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text('[daemon]\nrun_dir = "/somewhere"\n')
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    assert [(place.run_dir, place.config_file) for place in places.places()] == [(Path("/somewhere"), config)]


def test_personal_place_follows_the_xdg_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/state")
    place = places.places()[-1]
    assert place.run_dir == Path("/run/user/7/fikit")
    assert place.report_dir == Path("/home/u/state/fikit/reports")


def test_private_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    places.make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    places.make_private(tmp_path / "a" / "b")


def test_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="only you can write"):
        places.make_private(tmp_path / "open")


def test_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(PermissionError, match="only you can write"):
        places.make_private(tmp_path / "link")


def test_results_that_have_no_place_are_a_sentence_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(daemon.CannotStart, match=r"couldn't make .*: Not a directory: set XDG_STATE_HOME to "):
        daemon.join_or_start(None)
