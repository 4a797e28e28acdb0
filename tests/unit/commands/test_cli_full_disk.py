"""A file system that takes nothing more is one sentence: what was to be written, where, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit import disk_space
from fikit.commands import demo
from fikit.demo.experiment import _Started
from fikit.errors import UserError
from fikit.sandbox import needs as sandbox_needs
from fikit.sandbox import sandbox
from fikit.sandbox import site as sandbox_site
from fikit.sandbox.needs import SandboxError

FULL = Path("/dev/full")


def does_not_fit(source: str, target: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source, None, target)


def copies_what_does_not_fit(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=does_not_fit)


def test_a_file_and_a_tree_that_do_not_fit_are_said_alike(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()
    for attempt in (
        lambda: FULL.write_text("x"),
        lambda: copies_what_does_not_fit(tmp_path / "tree", tmp_path / "copy"),
    ):
        with pytest.raises(SandboxError) as said, disk_space.needed("the files", "make room", SandboxError):
            attempt()
        assert said.value.message == "the files could not be written: No space left on device; make room"


def test_what_fails_for_another_reason_is_not_called_full(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_space.needed("the files", "make room"):
        (tmp_path / "none").read_text()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("nowhere")
    with pytest.raises(shutil.Error), disk_space.needed("the files", "make room"):
        shutil.copytree(tmp_path / "tree", tmp_path / "copy")


def test_a_demo_whose_files_do_not_fit_says_where_room_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def launcher(*_: object) -> Iterator[None]:
        FULL.write_text("x")
        yield

    monkeypatch.setattr(demo, "launcher_of", launcher)
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo.tempfile, "gettempdir", lambda: "/small")
    done = CliRunner().invoke(demo.command, ["--out", str(tmp_path / "demo")])
    where = f"make room in {tmp_path / 'demo'} and /small, or choose others with --out and TMPDIR"
    assert (done.exit_code, done.output) == (
        1,
        f"Error: the demo's files could not be written: No space left on device; {where}\n",
    )


def test_a_sandbox_that_does_not_fit_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "sandbox"
    root.mkdir()
    monkeypatch.setattr(sandbox, "make_directory", lambda: root)
    monkeypatch.setattr(sandbox_needs, "check", lambda real_gpu: None)
    monkeypatch.setattr(sandbox_site, "_copy_readable", copies_what_does_not_fit)
    with pytest.raises(SandboxError) as said:
        sandbox.Sandbox().start()
    assert said.value.message == (
        f"the sandbox's files in {root} could not be written: No space left on device; "
        "make room there, or set TMPDIR to a directory that has some"
    )
    assert not root.exists()


def test_a_job_that_failed_on_a_full_disk_is_not_the_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failed:
        def poll(self) -> int:
            return 1

        def stop(self) -> None: ...

    logs, meet = tmp_path / "logs", tmp_path / "meet"
    for directory in (logs, meet):
        directory.mkdir()

    def said() -> str:
        with pytest.raises(UserError) as error:
            _Started("high", Failed(), logs / "high.out", meet).wait_for("ready", 1.0)
        return error.value.message

    usual, room_in = os.statvfs(tmp_path), said()
    assert room_in.endswith(f"(output in {logs / 'high.out'})")
    none = os.statvfs_result((*usual[:4], 0, *usual[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: none if Path(path) == meet else usual)
    assert said() == f"{room_in}; there is no room in {meet}"
