"""Several nodes, one storage: what one fikitd writes, no other replaces."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import daemon_fakes as fakes
from daemon_fakes import FakeCore, FakeProc
from fikitd.client import Control
from fikitd.profiles import ProfileStore
from test_daemon_server import Daemon


def test_processes_with_one_pid_on_two_nodes_keep_both_their_profiles(tmp_path: Path) -> None:
    """On each node the first client of job 12, at the same second, with the pid of this process."""
    shared = fakes.config_in(tmp_path)
    for node in ("one", "two"):
        config = replace(shared, daemon=replace(shared.daemon, run_dir=str(tmp_path / node)))
        core, proc = FakeCore(), FakeProc(tmp_path / f"proc-{node}")
        proc.root.mkdir()
        core.measured = [fakes.kernel()]
        with fakes.serving(config, core, proc.root):
            daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
            daemon.job(measure=True, profile="common", started_ns=7)
            daemon.client().close()
            daemon.control.end("12")
    profile = ProfileStore(shared.daemon.profile_dir).load(os.getuid(), "common")
    assert profile is not None
    assert profile["kernels"][0]["duration"]["count"] == 2
