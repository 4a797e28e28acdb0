"""The longest run_dir that fikit.toml takes: the sockets in its directories have paths that fit into no address."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from daemon_process import SOURCE, Fikitd, Runner
from fikitd.base.protocol import CONTROL_NAME, SOCKET_NAME
from fikitd.config.fikit_toml import SOCKET_PATH_BYTES
from other_user import UID, other_user


def test_a_job_reaches_its_users_own_socket_under_the_longest_run_dir(
    cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> None:
    longest = SOCKET_PATH_BYTES - len(CONTROL_NAME) - 1
    with other_user(emulator_env()) as user:
        root = user.directory / ("x" * (longest - len(os.fsencode(user.directory)) - len("//run")))
        root.mkdir()
        program = user.directory / "spin"
        program.write_bytes(cc(SOURCE).read_bytes())
        program.chmod(0o755)
        daemon = Fikitd(root)
        assert len(os.fsencode(daemon.run_dir)) == longest
        with daemon.started({}):
            (daemon.run_dir / SOCKET_NAME).unlink()  # everybody's: the user's own is enough
            runner = Runner(daemon, program, user.shim, dict(user.env))
            job, process = runner.start(50, 100_000, uid=UID)
            assert process.communicate(timeout=60) == ("done 50\n", "")
            assert "50 kernels" in daemon.control.summary(job)
