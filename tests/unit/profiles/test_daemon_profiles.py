"""Profiles of the daemon's jobs: stored, found, late, or on storage that hangs. The native core is a fake."""

from __future__ import annotations

import errno
import logging
import threading
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import ME, Daemon
from fikitd._core import pack_profile
from fikitd.base import protocol
from fikitd.clients import client_profiles, managed
from fikitd.daemon import control
from fikitd.profiles.profile_match import Match
from fikitd.profiles.profile_store import ProfileStore


def test_a_measured_job_stores_its_profile_and_the_next_finds_it(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "SUMMARY_WAIT_S", 10)
    monkeypatch.setattr(managed, "PROFILE_WAIT_S", 10)
    daemon.core.measured = [fakes.kernel("gemm")]
    daemon.core.rhythm = {"version": 1, "slacks": {"0" * 16: [2, 5, 6]}, "segments": {}, "runs": {"1" * 16: [3, 9]}}
    daemon.job("12", measure=True, profile="mine", uid=ME)
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    assert "measured 1 kernel, profile mine stored" in daemon.control.summary("12")
    daemon.control.end("12")
    assert daemon.stored("12")["profile"] == {"key": "mine", "found": False, "stored": True, "borrowed": None}

    daemon.job("13", profile="mine")
    daemon.client()
    assert daemon.core.seen[2]["profile"] == pack_profile(daemon.core.measured, daemon.core.rhythm, 2**20)
    assert daemon.control.job("13")["profile"]["found"] is True


def test_a_job_whose_end_comes_before_its_profile_is_stored_has_what_became_of_it_in_its_report(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()

    def save(*_: Any, **__: Any) -> None:
        assert answer.wait(20)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ProfileStore, "save", save)
    monkeypatch.setattr("fikitd.jobs.registry.ENDING_S", 0.05)
    daemon.core.measured = [fakes.kernel()]
    daemon.job(measure=True, profile="mine")
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    daemon.control.end("12")
    assert (daemon.stored()["profile"]["stored"], daemon.stored()["warnings"]) == (None, [])
    answer.set()
    eventually(lambda: daemon.stored()["profile"]["stored"] is False)
    (warning,) = daemon.stored()["warnings"]
    assert "its profile could not be stored" in warning
    assert "No space left on device" in warning
    assert daemon.control.jobs() == []


def test_a_profile_of_another_device_is_not_used(daemon: Daemon) -> None:
    daemon.core.measured = [fakes.kernel()]
    daemon.job("12", measure=True, profile="mine")
    daemon.client(name=b"NVIDIA H200").close()
    daemon.control.end("12")
    daemon.job("13", profile="mine")
    daemon.client(name=b"NVIDIA A100")
    assert daemon.core.seen[2]["profile"] is None


def test_storage_that_hangs_delays_a_hello_by_a_bounded_time_only(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()
    monkeypatch.setattr(ProfileStore, "of", lambda *_: Path("/there"))
    monkeypatch.setattr(ProfileStore, "match", lambda *_: answer.wait(20) and None)
    monkeypatch.setattr(managed, "PROFILE_WAIT_S", 0.2)
    monkeypatch.setattr(client_profiles, "PROFILE_TIMEOUT_S", 0.5)
    try:
        daemon.job()
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello())
        assert daemon.control.ping()
        assert client.answer()[0] == protocol.WELCOME
        warnings = eventually(lambda: daemon.control.job("12")["warnings"])
        assert "the file system did not answer within 0.5 s" in warnings[0]
    finally:
        answer.set()


def test_a_profile_that_comes_late_is_still_used(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    answer = threading.Event()
    monkeypatch.setattr(ProfileStore, "of", lambda *_: Path("/there"))
    late = Match({"kernels": [fakes.kernel("late")]}, [], 0)
    monkeypatch.setattr(ProfileStore, "match", lambda *_: answer.wait(20) and late)
    monkeypatch.setattr(managed, "PROFILE_WAIT_S", 0.05)
    daemon.job()
    client = daemon.client()
    assert daemon.core.seen[1]["profile"] is None
    eventually(lambda: any(line.endswith("still being looked for") for line in caplog.messages))
    answer.set()
    assert eventually(lambda: daemon.core.seen[1]["profile"]) == pack_profile([fakes.kernel("late")], {}, 2**20)
    client.close()
