"""A real fikitd whose lower jobs may have more memory than the GPU has, and Python programs as jobs on a small emulated GPU of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner
from restarted_service import Service

from fikitd import paths

MIB = 2**20
CHUNK = 2 * MIB  # what the device moves at a time
SUPPORT = Path(__file__).resolve().parent  # what the programs import


def small_gpu(memory_mib: int, kernel_us: int) -> str:
    """The emulator's configuration of a GPU of which a context takes nothing."""
    return f'[device]\nmemory = "{memory_mib}MiB"\ncontext_memory = 0\n[default]\nbase_us = {kernel_us}\n'


def oversubscribing_daemon(tmp_path: Path) -> Iterator[Service]:
    """For a file's fixture `daemon`."""
    yield from serving(Service(tmp_path))


def serving(daemon: Service) -> Iterator[Service]:
    """It ends well when the test is over, and nothing that it did was a fault of its own."""
    config = daemon.config.read_text().replace('policy = "paper"', 'policy = "budget"')
    daemon.config.write_text(config + '\n[oversubscribe]\nallow = "lower"\nepoch_s = 1\n')
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()
    daemon.systemd.stop()
    assert "Traceback" not in daemon.log.read_text()


def runner_on(gpu: str) -> Callable[..., Runner]:
    """A file's fixture `runner`: of Python programs, on an emulated GPU with this configuration, which is tmp_path/small.toml."""

    @pytest.fixture
    def runner(daemon: Service, emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> Runner:
        config = tmp_path / "small.toml"
        config.write_text(gpu)
        return python_runner(daemon, emulator_env, config)

    return runner


def python_runner(daemon: Fikitd, environment: Callable[..., dict[str, str]], gpu: Path | None = None) -> Runner:
    """For a file's fixture `runner`: its programs are Python's (`-c CODE`), and may import what lies in support/. environment: `emulator_env`;
    gpu: the emulator's configuration, where it is not the usual one."""
    env = environment(PYTHONPATH=str(SUPPORT), **({"EMUCUDA_CONFIG": str(gpu)} if gpu else {}))
    return Runner(daemon, Path(sys.executable), paths.shim(), env)
