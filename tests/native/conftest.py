"""Fixtures of the tests that compile or start processes (tests/support/daemon_fixtures.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from daemon_fixtures import daemon, forbid_open_files, hang_up, traces

__all__ = ["daemon", "hang_up", "traces"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The hook sees the items of all folders."""
    forbid_open_files(items, Path(__file__).parent)
