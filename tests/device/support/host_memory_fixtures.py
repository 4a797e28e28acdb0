"""Fixtures of tests about a job whose memory may lie on the host: a small GPU, what the job may have, what the device says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import stats
from host_memory import GPU, MIB, ON_GPU, ON_HOST
from shim_daemon import Daemon


@pytest.fixture
def small_gpu(tmp_path: Path) -> Path:
    """The configuration of a GPU of 64 MiB, of which a context takes nothing."""
    config = tmp_path / "small.toml"
    config.write_text(f'[device]\nmemory = "{GPU}MiB"\ncontext_memory = 0\n')
    return config


@pytest.fixture
def allowed(daemon: Callable[..., Daemon]) -> Daemon:
    return daemon(limit_bytes=ON_GPU * MIB, host_bytes=ON_HOST * MIB)


@pytest.fixture
def account(native: Path, emulator_env: Callable[..., dict[str, str]]) -> Callable[[], dict[str, Any]]:
    """What the device says of its newest process."""

    def look() -> dict[str, Any]:
        (device,) = stats(native, emulator_env())
        found = device["processes"][-1]
        assert isinstance(found, dict)
        return found

    return look
