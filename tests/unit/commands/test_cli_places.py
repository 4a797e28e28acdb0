"""Whose directories `fikit run` and `fikit report` use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fikit import site_paths
from fikit.running import daemon
from fikitd.config import fikit_toml
from fikitd.store import mounts


def test_named_configuration_is_the_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text('[daemon]\nrun_dir = "/somewhere"\n')
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    assert [(place.run_dir, place.config_file) for place in site_paths.places()] == [(Path("/somewhere"), config)]


def test_personal_place_follows_the_xdg_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/state")
    place = site_paths.places()[-1]
    assert place.run_dir == Path("/run/user/7/fikit")
    assert place.report_dir == Path("/home/u/state/fikit/reports")


def test_private_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    site_paths.make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    site_paths.make_private(tmp_path / "a" / "b")


def test_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="only you can write"):
        site_paths.make_private(tmp_path / "open")


def test_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(PermissionError, match="only you can write"):
        site_paths.make_private(tmp_path / "link")


def test_results_that_have_no_place_are_a_sentence_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(daemon.CannotStart, match=r"couldn't make .*: Not a directory: set XDG_STATE_HOME to "):
        daemon.join_or_start(None)


@pytest.mark.parametrize(("host_gib", "allows"), [("7", "lower"), ("0", "no")])
def test_own_fikitd_goes_by_what_the_machine_allows_of_memory_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host_gib: str, allows: str
) -> None:
    (tmp_path / "site.toml").write_text(f'[oversubscribe]\nallow = "lower"\nhost_gib = {host_gib}\n')
    monkeypatch.setattr(fikit_toml, "DEFAULT_PATH", tmp_path / "site.toml")
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(daemon, "_policy_of", lambda place: "budget")
    file = daemon.join_or_start(None).config_file
    assert fikit_toml.load(file).oversubscribe.allow == allows, "nothing, by a file with a mistake"


@pytest.fixture
def without_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing says where; there is a directory for temporary files, which everybody may write."""
    for name in ("FIKIT_CONFIG", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
@pytest.mark.parametrize("kind", [Path.mkdir, Path.touch, lambda path: path.symlink_to("/root")])
def test_a_place_that_another_user_has_taken_is_not_used_and_costs_nothing(
    without_xdg: Path, kind: Callable[[Path], None]
) -> None:
    taken = without_xdg / f"fikit-{os.getuid()}"
    kind(taken)
    os.chown(taken, 4321, 4321, follow_symlinks=False)
    site_paths.make_private(site_paths.personal().run_dir)
    run_dir = site_paths.personal().run_dir
    assert run_dir.parent == without_xdg
    assert run_dir.name.startswith(f"fikit-{os.getuid()}.")
    assert (run_dir.stat().st_uid, run_dir.stat().st_mode & 0o777) == (os.getuid(), 0o700)
    site_paths.make_private(run_dir)
    assert site_paths.personal().run_dir == run_dir, "found again, by whoever asks later"


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_who_has_no_home_keeps_results_beside_the_sockets(
    without_xdg: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    def no_entry(_uid: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    place = site_paths.personal()
    assert place.report_dir == place.run_dir / "state" / "reports"


def test_where_no_temporary_file_can_be_made_there_is_a_place_to_look_at(
    without_xdg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert site_paths.personal().run_dir == Path(f"/tmp/fikit-{os.getuid()}")


def test_results_are_not_put_below_a_mount_point_without_its_file_system(
    without_xdg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = without_xdg / "home"
    home.mkdir()
    (without_xdg / "fstab").write_text(f"server:/home {home} nfs defaults 0 0\n")
    monkeypatch.setattr(mounts, "FSTAB", without_xdg / "fstab")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(daemon.CannotStart, match=f"the file system of {home} is not mounted"):
        daemon.join_or_start(None)
    assert list(home.iterdir()) == []
    hidden = f"(the file system of {home} is not mounted)"
    assert hidden in site_paths.looked_in([site_paths.personal().report_dir])
