"""What goes wrong with MPS, each fault caused on the emulated GPU: jobs run all the same, nothing waits for long, and reports say it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from fikitd.mps.control import began
from fikitd.mps.members import FRESH_S
from mps_site import MpsSite, eventually

pytest_plugins = ["mps_fixtures"]


def warnings(site: MpsSite, job: str, word: str) -> list[str]:
    """Those of its report in which the word is, as soon as there is one."""
    return eventually(lambda: [text for text in site.report(job)["warnings"] if word in text], 15.0)


def test_server_that_dies_ends_its_clients_work_which_their_reports_say_and_the_next_job_gets_another(
    site: MpsSite,
) -> None:
    site.start()
    job, beating = site.beats()
    before = site.server()
    os.kill(before, signal.SIGKILL)
    assert beating.stdout is not None
    assert beating.stdout.readline() == "806\n"  # CUDA_ERROR_MPS_RPC_FAILURE: the driver's own
    (said,) = warnings(site, job, "ended")
    assert f"MPS server of its GPU (process {before}) ended" in said
    another, after = site.beats()
    assert site.in_mps(after.pid), site.report(another)["warnings"]
    assert site.server() != before


@pytest.mark.parametrize("work", ["alone", "together"])
def test_fatal_fault_of_one_client_is_in_the_reports_of_all_with_the_job_it_was(site: MpsSite, work: str) -> None:
    site.start()
    # A victim that computes is as likely; one that waits for its user is not.
    victim = site.job("beat", 50_000)[0] if work == "together" else site.job("say")[0]
    fault = {"EMUCUDA_FAULTS": "kernel=fikit_spin nth=50 error=700"}
    culprit, faulting = site.beats(env=fault)
    assert faulting.stdout is not None
    assert faulting.stdout.readline() == "700\n"
    (said,) = warnings(site, culprit, "fatal fault")
    assert warnings(site, victim, "fatal fault") == [said]
    assert f"job {culprit}" in said if work == "alone" else f"{min(culprit, victim)} and {max(culprit, victim)}" in said
    assert ("most probably" in said) == (work == "alone")
    # Nobody is let in who would fail: it runs in time slices of its own.
    late, outside = site.beats()
    assert not site.in_mps(outside.pid)
    assert any("fatal fault" in text for text in site.report(late)["warnings"])


def test_once_all_clients_of_a_fault_have_left_the_next_one_joins_again(site: MpsSite) -> None:
    site.start()
    site.beats()  # the job keeps the server
    _, faulting = site.beats(env={"EMUCUDA_FAULTS": "kernel=fikit_spin nth=20 error=700"})
    assert faulting.stdout is not None
    assert faulting.stdout.readline() == "700\n"
    for program in site.programs:
        program.kill()
        program.wait()
    eventually(lambda: site.in_mps(site.beats()[1].pid), 20.0)


def test_control_daemon_that_hangs_from_the_beginning_delays_nobody_for_long(site: MpsSite) -> None:
    site.start(EMUCUDA_MPS_FAULTS="hang start")
    job, beating = told_once(site)
    assert not site.in_mps(beating.pid)
    (said,) = site.report(job)["warnings"]
    assert said == "a program of it runs outside MPS, in time slices of its own: MPS was not there in time"


def test_control_daemon_that_comes_to_hang_delays_nobody_for_long_and_its_clients_go_on(site: MpsSite) -> None:
    site.start()
    _, inside = site.beats()
    control = site.control()
    site.faults("hang *\n")
    time.sleep(FRESH_S)  # an answer of just before is good for so long
    job, outside = told_once(site)  # its driver would wait for the daemon's answer
    assert outside.first_word == "running"
    assert not site.in_mps(outside.pid)
    (said,) = site.report(job)["warnings"]
    assert "its control daemon hangs" in said
    assert inside.poll() is None
    assert began(control), "it was killed under a client"
    inside.kill()
    outside.kill()
    for program in (inside, outside):
        program.wait()
    for each in ("1", job):
        site.end_job(each)
    eventually(lambda: site.ended() and not began(control), 20.0)  # by force


@pytest.mark.parametrize("fault", ["refuse start", "die start_server", "refuse get_server_list", "stillborn"])
def test_mps_that_cannot_be_begun_costs_a_sentence(site: MpsSite, fault: str) -> None:
    site.start(EMUCUDA_MPS_FAULTS=fault)
    job, beating = told_once(site)
    assert not site.in_mps(beating.pid)
    assert site.report(job)["device_mode"] == "slices"
    (said,) = site.report(job)["warnings"]
    assert "runs outside MPS, in time slices of its own: MPS " in said


def test_a_server_that_needs_long_is_waited_for_and_one_that_needs_too_long_is_not_joined(site: MpsSite) -> None:
    site.start(EMUCUDA_MPS_FAULTS="late 1.5")
    assert site.in_mps(site.beats()[1].pid)
    os.kill(site.server(), signal.SIGKILL)
    site.faults("late 100")
    eventually(lambda: site.report("1")["warnings"])
    job, outside = site.beats()
    assert not site.in_mps(outside.pid)
    assert any("MPS was not there in time" in text for text in site.report(job)["warnings"])


def test_without_nvidias_programs_on_the_node_jobs_run_and_say_so(site: MpsSite) -> None:
    site.start(PATH="/usr/bin:/bin")
    job, beating = told_once(site)
    assert not site.in_mps(beating.pid)
    (said,) = site.report(job)["warnings"]
    assert "no nvidia-cuda-mps-control in PATH, beside libcuda.so.1 or in /usr/local/nvidia/bin" in said


def test_control_daemon_that_dies_leaves_its_clients_at_work_and_the_next_job_outside_until_they_have_left(
    site: MpsSite,
) -> None:
    site.start()
    _, inside = site.beats()
    control = site.control()
    os.kill(control, signal.SIGKILL)
    eventually(lambda: not began(control))
    job, outside = told_once(site)
    assert outside.first_word == "running"
    assert not site.in_mps(outside.pid)
    assert any("control daemon has ended" in text for text in site.report(job)["warnings"])
    assert inside.poll() is None
    inside.kill()
    inside.wait()
    eventually(lambda: site.in_mps(site.beats()[1].pid), 20.0)


def test_program_that_is_killed_in_the_middle_of_a_kernel_is_taken_off_the_server(site: MpsSite) -> None:
    site.start(EMUCUDA_MPS_FAULTS="linger")
    job, endless = site.job("beat", 100_000_000, speaks=False)  # a kernel of 100 s
    eventually(lambda: (site.daemon.control.node()["clients"] or [{"kernels": 0}])[0]["kernels"] == 1)
    endless.kill()
    (logs,) = site.pipes.glob("*.log")
    eventually(
        lambda: f"Client {endless.pid} of server {site.server()} is terminated" in (logs / "control.out").read_text()
    )
    said = f"job {job}: its process {endless.pid}, which is gone, was still a client"
    eventually(lambda: said in site.daemon.log.read_text())


def test_epilog_takes_what_is_left_of_a_job_off_the_server_and_waits_for_no_daemon_that_hangs(site: MpsSite) -> None:
    site.start()
    job, beating = site.beats()
    beating.kill()
    site.faults("hang *\n")
    begun = time.monotonic()
    site.daemon.control.end(job)
    assert time.monotonic() - begun < 3.5


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_mps_outlives_fikitd_and_the_next_one_goes_on_with_it(site: MpsSite, how: signal.Signals) -> None:
    site.start()
    job, inside = site.beats()
    server, control = site.server(), site.control()
    assert site.daemon.process is not None
    site.daemon.process.send_signal(how)
    site.daemon.process.wait(20)
    assert began(server)
    assert began(control)
    site.start()
    _, second = site.beats()
    assert (site.server(), site.control()) == (server, control)
    assert site.in_mps(second.pid)
    assert inside.poll() is None
    for program in (inside, second):
        program.kill()
        program.wait()
    for each in (job, "2"):
        site.end_job(each)
    eventually(site.ended, 20.0)
    assert not began(server)


@pytest.mark.parametrize("site", [4], indirect=True)
def test_clients_of_an_earlier_fikitd_keep_their_places(site: MpsSite) -> None:
    site.start()
    for _ in range(3):  # a user's whole share
        site.beats(priority=1)
    assert site.daemon.process is not None
    site.daemon.process.kill()
    site.daemon.process.wait()
    site.start()
    eventually(lambda: "goes on" in site.daemon.log.read_text())
    _, outside = site.beats(priority=1)
    assert not site.in_mps(outside.pid)


def test_what_nobody_uses_ends_with_fikitd(site: MpsSite) -> None:
    site.start()
    job, beating = site.beats()
    server = site.server()
    beating.kill()
    beating.wait()
    (site.daemon.run_dir / "jobs" / job).unlink()  # its epilog told nobody
    assert site.daemon.stop() == 0
    assert not began(server)
    assert site.ended()


def told_once(site: MpsSite) -> tuple[str, object]:
    """A job whose prolog asks once, and waits for the answer no longer than prologs do."""
    site.told = lambda job: timed(lambda: site.daemon.control.mps(job))  # type: ignore[method-assign]
    return site.beats()


def timed(ask: Callable[[], dict[str, str]]) -> dict[str, str]:
    begun = time.monotonic()
    said = ask()
    assert time.monotonic() - begun < 6.0
    return said
