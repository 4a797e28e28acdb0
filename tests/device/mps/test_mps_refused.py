"""The emulated driver refuses a program that fikitd let join MPS: it begins outside, or gets the driver's error, and its report says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from emulator_tools import Partner
from fikitd.mps import control
from fikitd.mps.control import began
from fikitd.store.records import JobRecord
from mps_site import MpsSite, eventually

pytest_plugins = ["mps_fixtures"]


def refusing(site: MpsSite, error: int, *, begins_again: bool) -> dict[str, str]:
    """The environment of programs whose driver refuses them as clients of MPS, on the site's GPU."""
    usual = (site.native / "emulator/default.toml").read_text()
    model = site.daemon.run_dir.parent / f"refuses-{error}-{begins_again}.toml"
    model.write_text(f"{usual}\n[mps]\nrefuses = {error}\ninit_again = {str(begins_again).lower()}\n")
    return {"EMUCUDA_CONFIG": str(model)}


@pytest.mark.parametrize("error", sorted(control.REFUSALS))
def test_a_program_that_the_driver_refuses_runs_in_time_slices_and_its_report_says_why(
    site: MpsSite, error: int
) -> None:
    site.start()
    job, outside = site.beats(env=refusing(site, error, begins_again=True))
    assert not site.in_mps(outside.pid)
    report = site.report(job)
    assert report["device_mode"] == "slices"
    assert report["warnings"] == [
        f"the driver refused a program of it as a client of MPS (CUDA error {error}: {control.REFUSALS[error]}): "
        "it runs outside MPS, in time slices of its own"
    ]
    assert [client["device_mode"] for client in site.daemon.control.node()["clients"]] == ["slices"]
    assert f"CUDA_MPS_PIPE_DIRECTORY={site.pipes}/" in Path(f"/proc/{outside.pid}/environ").read_text()


@pytest.mark.parametrize("error", sorted(control.REFUSALS))
def test_a_driver_that_repeats_its_refusal_gives_the_program_the_first_error(site: MpsSite, error: int) -> None:
    site.start()
    job, refused = site.job("beat", 1000, env=refusing(site, error, begins_again=False), speaks=False)
    _, said = refused.communicate(timeout=20)
    assert f"cuInit(0) gave {error}" in said
    assert f"(CUDA error {error}), and did not start outside MPS either (CUDA error {error})" in said
    expected = (
        f"job {job}: the driver refused a program of it as a client of MPS (CUDA error {error}: {control.REFUSALS[error]}): "
        f"CUDA did not start outside MPS either (error {error})"
    )
    eventually(lambda: expected in site.daemon.log.read_text())


@pytest.mark.parametrize("site", [4], indirect=True)
def test_the_place_of_a_program_that_the_driver_refuses_is_free(site: MpsSite) -> None:
    site.start()
    env = refusing(site, 805, begins_again=True)
    outside = [site.beats(env=env)[1] for _ in range(3)]  # as many as a user has places
    inside = [site.beats()[1] for _ in range(3)]
    assert [site.in_mps(program.pid) for program in inside] == [True, True, True]
    assert {program.poll() for program in outside} == {None}


def test_a_server_that_ends_between_fikitds_answer_and_cuinit_costs_a_program_its_place_only(
    site: MpsSite, tmp_path: Path
) -> None:
    """The emulated driver's own reason, 807: the server's file names a process that is gone."""
    site.start()
    site.beats()
    (said,) = site.pipes.glob("*/emulated_server")
    alive = said.read_text()
    said.write_text(f"{os.getpid()} 1 48\n")  # another start time
    model = tmp_path / "again.toml"
    model.write_text((site.native / "emulator/default.toml").read_text() + "\n[mps]\ninit_again = true\n")
    job, outside = site.beats(env={"EMUCUDA_CONFIG": str(model)})
    said.write_text(alive)
    assert not site.in_mps(outside.pid)
    (warning,) = site.report(job)["warnings"]
    assert "CUDA error 807" in warning


def test_of_one_job_a_program_may_be_inside_and_another_outside(site: MpsSite) -> None:
    """Each has its own device mode, by which the dispatcher reckons switches."""
    site.start()
    me = {"uid": os.getuid(), "gid": os.getgid(), "pid": os.getpid(), "pid_start": began(os.getpid())}
    JobRecord(**{"job": "both", **me, "priority": 5}).write(site.daemon.run_dir)  # type: ignore[arg-type]
    told = site.told("both")
    shim = {"LD_PRELOAD": str(site.native / "libfikit_shim.so"), "FIKIT_SOCKET": f"{site.daemon.run_dir}/fikitd.sock"}
    modes = {}
    for more in ({}, refusing(site, 807, begins_again=True)):
        program = Partner(
            [str(site.program), "beat", "1000"], env={**site.device, **told, **shim, **more},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        site.programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        modes[program.pid] = "slices" if more else "mps"
    assert {client["pid"]: client["device_mode"] for client in site.daemon.control.node()["clients"]} == modes
    report = site.report("both")
    assert report["device_mode"] == "mixed"
    assert len(report["warnings"]) == 1
