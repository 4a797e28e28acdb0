"""Fixtures that several files of unit tests use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A directory with two made recordings: serve.csv, which answers requests, and train.csv."""
    (tmp_path / "serve.csv").write_bytes(recordings.inference(1).text())
    (tmp_path / "train.csv").write_bytes(recordings.training(1).text())
    return tmp_path
