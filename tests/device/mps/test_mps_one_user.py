"""MPS of drivers whose control daemon serves one user at a time, on the emulated GPU: that user's programs join, others run in time slices."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikit.checks import mps as doctor
from fikitd.mps import notes
from fikitd.store.records import JobRecord
from mps_site import MpsSite, eventually, mps_site

pytest_plugins = ["mps_fixtures"]
Env = Callable[..., dict[str, str]]
OTHER = 65534
ONE_USER = "MPS of this driver serves one user at a time, and another user's jobs have it on this GPU now"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a fikitd of root's has several users")


@pytest.fixture(params=["550"])
def site(request: pytest.FixtureRequest, native: Path, mps_program: Path, emulator_env: Env) -> Iterator[MpsSite]:
    """Of the driver that is the parameter."""
    with mps_site(native, mps_program, emulator_env(), driver=request.param) as made:
        yield made


def asks(site: MpsSite, job: str, uid: int) -> dict[str, str]:
    """What a job of this user is told."""
    if not (site.daemon.run_dir / "jobs" / job).exists():
        JobRecord(job=job, uid=uid, gid=uid, priority=5, gpus="0").write(site.daemon.run_dir)
    return site.daemon.control.mps(job)


def owner(pid: int) -> int:
    return int(re.findall(r"^Uid:\t(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[0])


@pytest.mark.parametrize("site", ["550", "535"], indirect=True)
def test_the_first_users_programs_join_and_once_they_have_left_another_user_is_the_first(
    site: MpsSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start()
    job, beating = site.beats()
    assert site.in_mps(beating.pid)
    assert site.report(job)["warnings"] == []
    assert (owner(site.server()), owner(beating.pid)) == (0, 0)
    assert asks(site, "other", OTHER) == {}
    assert f"job other: it runs outside MPS, in time slices of its own: {ONE_USER}" in site.daemon.log.read_text()
    for name, value in {**site.device, "FIKIT_CONFIG": str(site.daemon.config)}.items():
        monkeypatch.setenv(name, value)
    (note,) = notes.found(site.pipes) or ()
    assert doctor.served(note, site.pipes).found.endswith("1 client; it takes programs of root only")
    pipes = site.pipes / f"{next(site.pipes.glob('*.json')).stem}-0"
    assert pipes.stat().st_mode & 0o7777 == 0o755

    beating.kill()
    beating.wait()
    said = eventually(lambda: asks(site, "other", OTHER))
    assert not pipes.exists(), "what the first user's job was told leads nowhere"
    eventually(lambda: list(site.pipes.glob("*/emulated_server")))
    eventually(lambda: owner(site.server()) == OTHER)  # a process of root's until it begins
    assert said["CUDA_MPS_PIPE_DIRECTORY"].endswith(f"-{OTHER}")
    # The first user's job goes on: its programs run outside, and wait for nothing.
    assert asks(site, job, 0) == {}
    site.told = lambda _job: {**said, "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}  # type: ignore[method-assign]
    begun = time.monotonic()
    late, outside = site.job("beat", 1000)
    assert outside.first_word == "running"
    assert time.monotonic() - begun < 5
    assert not site.in_mps(outside.pid)
    (warning,) = site.report(late)["warnings"]
    assert "another user's jobs" in warning


def test_log_says_whose_programs_the_server_takes_and_why(site: MpsSite) -> None:
    site.start()
    site.beats()
    said = r"MPS serves GPU-\S+: control daemon \d+, server \d+, programs of user 0 only: nvidia-cuda-mps-control does not know -multiuser-server"
    assert re.search(said, site.daemon.log.read_text())


@pytest.mark.parametrize("site", ["535"], indirect=True)
def test_where_no_fault_can_be_seen_the_log_says_so_once_and_programs_join(site: MpsSite) -> None:
    site.start()
    for _ in range(2):
        _, beating = site.beats()
        assert site.in_mps(beating.pid)
    assert site.daemon.log.read_text().count("this driver's control daemon says no server's state") == 1


def test_next_fikitd_goes_on_with_the_server_of_one_user_and_lets_no_other_one_in(site: MpsSite) -> None:
    site.start()
    _, beating = site.beats()
    server = site.server()
    assert site.daemon.process is not None
    site.daemon.process.kill()
    site.daemon.process.wait(20)
    site.start()
    assert asks(site, "other", OTHER) == {}
    _, second = site.beats()
    assert site.in_mps(second.pid)
    assert beating.poll() is None
    assert site.server() == server
