"""Several nodes, one storage: what one fikitd writes, no other replaces."""

from __future__ import annotations

import gc
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from descriptors import descriptors_of
from fikitd.api.client import Control
from fikitd.profiles.profile_store import ProfileStore
from trace_samples import EVENTS


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


def test_pages_of_a_job_go_with_it_also_when_its_report_could_not_be_stored(tmp_path: Path) -> None:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    Path(config.daemon.report_dir).write_text("in the way")

    gc.collect()
    before = descriptors_of("fikit-memory")
    gc.disable()  # a failed call's traceback and its frames are a circle, which only the collector would find
    try:
        with fakes.serving(config, core, proc.root):
            daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
            daemon.job()
            daemon.client().close()
            eventually(lambda: daemon.control.job("12")["state"] == "ended")
            daemon.control.end("12")
            eventually(lambda: descriptors_of("fikit-memory") == before)
    finally:
        gc.enable()


def test_report_of_a_job_waits_for_a_profile_on_slow_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = ProfileStore.save

    def slowly(*arguments: Any, **how: Any) -> None:
        time.sleep(0.6)
        save(*arguments, **how)

    monkeypatch.setattr(ProfileStore, "save", slowly)
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    core.measured = [fakes.kernel()]
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        daemon.job(measure=True, profile="slow")
        daemon.client().close()
        eventually(lambda: daemon.control.job("12")["state"] == "ended")
        assert "profile slow not stored yet" in daemon.control.summary("12")
        assert "profile slow stored" in daemon.control.end("12")
        assert daemon.stored("12")["profile"]["stored"] is True


def test_a_job_whose_storage_is_not_mounted_says_so_in_its_last_line_and_makes_nothing(tmp_path: Path) -> None:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    away = tmp_path / "shared" / "fikit"
    config = replace(
        config, daemon=replace(config.daemon, report_dir=str(away / "reports"), profile_dir=str(away / "profiles"))
    )
    proc.root.mkdir()
    core.measured = [fakes.kernel()]
    core.journal = EVENTS
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        daemon.job(name="train")
        client = daemon.client()
        client.send(fakes.description())
        client.close()
        eventually(lambda: daemon.control.job("12")["state"] == "ended")
        line = daemon.control.end("12")
        why = f"there is no {away}: is its file system mounted on this node?"
        assert f"its report could not be stored in {away / 'reports'}: {why}" in line
    assert not (tmp_path / "shared").exists()
