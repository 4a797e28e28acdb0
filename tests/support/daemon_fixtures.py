"""What the conftest files of tests/unit and tests/native share: fixtures, and that a file left open fails a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_in_thread import Daemon
from fikitd.api.client import Control

from bench import recordings


def forbid_open_files(items: list[pytest.Item], folder: Path) -> None:
    """A socket or file that a test of this folder leaves to the garbage collector fails whatever test runs when that comes."""
    for item in items:
        if item.path.is_relative_to(folder):
            for warning in ("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    """The connections that a test has made to its daemon end with it."""
    yield
    while fakes.FakeClient.made:
        fakes.FakeClient.made.pop().close()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A directory with two made recordings: serve.csv, which answers requests, and train.csv."""
    (tmp_path / "serve.csv").write_bytes(recordings.inference(1).text())
    (tmp_path / "train.csv").write_bytes(recordings.training(1).text())
    return tmp_path


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One that serves, in a thread."""
    config, core, proc = fakes.config_in(tmp_path), fakes.FakeCore(), fakes.FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))
