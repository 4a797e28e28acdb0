"""Fixtures that several files of unit tests use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_in_thread import Daemon
from fikitd.client import Control

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A socket or file that is left to the garbage collector fails whatever test runs when that comes; this folder's only, for
    the hook sees all items."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
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
