"""A program asks whether it may become a client of MPS (purpose JOIN); this fikitd runs none, and that changes nothing else."""

from __future__ import annotations

import os

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import ME, Daemon
from fikitd.base import protocol


def asks(daemon: Daemon, **facts: int) -> FakeClient:
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello(purpose=protocol.PURPOSE_JOIN, uuid=bytes(16), **facts))
    return client


def test_without_mps_it_is_refused_and_is_no_client(daemon: Daemon) -> None:
    daemon.job()
    assert asks(daemon).refusal() == "its job was not told to join, or MPS serves another user's jobs by now"
    assert daemon.core.seen == {}
    assert daemon.control.jobs() == [], "no report begins with it"
    daemon.client()  # and it works as ever


def test_a_program_of_no_job_is_refused_as_any(daemon: Daemon) -> None:
    daemon.proc.add(os.getpid(), uid=ME, cgroup="0::/user.slice")
    assert "belongs to no fikit job" in asks(daemon).refusal()


def test_one_of_another_version_is_refused_as_any(daemon: Daemon) -> None:
    daemon.job()
    assert "install the same fikit" in asks(daemon, version=protocol.VERSION + 1, newest=99).refusal()


def test_a_program_that_says_it_is_in_somebody_elses_mps_is_reported_so(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client(purpose=protocol.HELLO_MPS)
    assert daemon.control.job("12")["device_mode"] == "other-mps"
    client.close()
    eventually(lambda: daemon.control.job("12")["processes"] == 1 and daemon.core.seen)
    daemon.client()
    assert daemon.control.job("12")["device_mode"] == "mixed"


@pytest.mark.parametrize("purpose", [3, 0xFF, protocol.HELLO_MPS | protocol.PURPOSE_WATCH, 0xFF00])
def test_a_purpose_that_nobody_knows_is_work_or_what_its_lower_half_says(daemon: Daemon, purpose: int) -> None:
    """As a later shim may send it."""
    daemon.job()
    daemon.client(purpose=purpose)
    watches = purpose & protocol.PURPOSE_MASK == protocol.PURPOSE_WATCH
    assert bool(daemon.core.seen) != watches
