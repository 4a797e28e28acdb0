"""`fikit top` of real programs on one emulated GPU: in a pipe, as JSON, on a terminal, and where no fikitd runs."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, client_runner, eventually, usual_daemon

TOP = [sys.executable, "-m", "fikit", "top", "--interval", "0.3"]
LEAVES_SCREEN = b"\x1b[?1049l"


daemon = pytest.fixture(usual_daemon)
runner = pytest.fixture(client_runner)


def environment(daemon: Fikitd) -> dict[str, str]:
    return {**os.environ, "FIKIT_CONFIG": str(daemon.config), "TERM": "xterm"}


def top(daemon: Fikitd, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOP, *options], env=environment(daemon), capture_output=True, text=True, check=False, timeout=30
    )


def read_until(screen: int, wanted: bytes) -> bytes:
    shown, deadline = b"", time.monotonic() + 20
    while wanted not in shown:
        assert select.select([screen], [], [], deadline - time.monotonic())[0], shown
        shown += os.read(screen, 65536)
    return shown


def test_a_running_job_is_a_row(daemon: Fikitd, runner: Runner) -> None:
    job, process = runner.start(100, 1_000_000, "hold", priority=8)
    eventually(lambda: daemon.control.node()["clients"])
    use = json.loads(top(daemon, "--json").stdout)
    [gpu] = use["gpus"]
    [row] = gpu["jobs"]
    assert gpu["emulated"]
    assert (row["job"], row["priority_name"], row["pids"]) == (job, "low", [process.pid])
    shown = top(daemon)
    assert shown.returncode == 0, shown.stderr
    assert "low (8)" in shown.stdout
    process.communicate("x", timeout=60)
    runner.end(job)
    assert "no job shares a GPU of this node now" in top(daemon, "--once").stdout


@contextmanager
def on_a_terminal(daemon: Fikitd, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program, which must end well by itself, and its screen."""
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment(daemon)
    ) as process:
        os.close(terminal)
        try:
            yield process, screen
            assert process.wait(20) == 0
        finally:
            process.kill()
            os.close(screen)


@pytest.mark.parametrize("end", ["ctrl-c", "sigterm"])
def test_a_terminal_is_left_as_it_was(daemon: Fikitd, end: str) -> None:
    # Without a terminal of its own Ctrl-C reaches nobody; whoever runs the tests in the background ignores SIGINT.
    with on_a_terminal(daemon, "setsid", "--ctty", "env", "--default-signal=INT", *TOP) as (process, screen):
        read_until(screen, b"policy paper")
        os.write(screen, b"\x03") if end == "ctrl-c" else process.terminate()
        assert LEAVES_SCREEN in read_until(screen, LEAVES_SCREEN)


def test_a_terminal_that_can_replace_nothing_gets_one_look_below_the_other(daemon: Fikitd) -> None:
    with on_a_terminal(daemon, "env", "TERM=dumb", *TOP) as (process, screen):
        for _ in range(2):
            assert b"\x1b" not in read_until(screen, b"policy paper")
        process.terminate()


def test_with_its_errors_in_a_file_it_still_shows_who_uses_the_gpu(daemon: Fikitd, tmp_path: Path) -> None:
    with on_a_terminal(daemon, "sh", "-c", f"exec {' '.join(TOP)} 2>{tmp_path}/errors") as (process, screen):
        read_until(screen, b"policy paper")
        process.terminate()
    assert (tmp_path / "errors").read_text() == ""


def test_it_goes_on_with_the_next_fikitd(daemon: Fikitd) -> None:
    with on_a_terminal(daemon, *TOP) as (process, screen):
        read_until(screen, b"policy paper")
        assert daemon.stop() == 0
        read_until(screen, b"does not answer")
        daemon.start()
        read_until(screen, b"policy paper")
        process.terminate()
        read_until(screen, LEAVES_SCREEN)


def test_without_a_fikitd_it_is_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(f'[daemon]\nrun_dir = "{tmp_path}/run"\n')
    done = subprocess.run(
        TOP, env={**os.environ, "FIKIT_CONFIG": str(config)}, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"fikit: fikitd does not answer at {tmp_path}/run/control.sock: ")
