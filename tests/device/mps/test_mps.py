"""Sharing jobs under the MPS that fikitd runs, on the emulated GPU: who joins, with what, and what a report says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fikitd.store.records import JobRecord
from mps_site import MpsSite, eventually

pytest_plugins = ["mps_fixtures"]
GIB = 2**30


def test_first_sharing_job_begins_a_server_and_the_last_ends_it(site: MpsSite) -> None:
    site.start()
    assert site.ended()
    one, first = site.beats(priority=1)
    two, second = site.beats(priority=8)
    assert site.in_mps(first.pid)
    assert site.in_mps(second.pid)
    assert [site.report(job)["device_mode"] for job in (one, two)] == ["mps", "mps"]
    assert [client["device_mode"] for client in site.daemon.control.node()["clients"]] == ["mps", "mps"]
    server = site.server()
    first.kill()
    first.wait()
    site.end_job(one)
    assert site.server() == server  # the other one's
    second.kill()
    second.wait()
    site.end_job(two)
    eventually(site.ended)
    report = site.daemon.report(two)
    assert (report["device_mode"], report["warnings"]) == ("mps", [])


def test_programs_are_told_their_server_their_priority_and_their_limit(site: MpsSite) -> None:
    site.start()
    for job, facts in (
        ("high", {"priority": 1, "mem_bytes": 4 * GIB}),
        ("normal", {"priority": 5}),
        ("low", {"priority": 8}),
    ):
        write_record(site, job, **facts)
    high, normal, low = map(site.told, ("high", "normal", "low"))
    assert [said["CUDA_MPS_CLIENT_PRIORITY"] for said in (high, normal, low)] == ["0", "1", "1"]
    assert high["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=5120M"  # and a GiB for the driver's own
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in low
    (state,) = site.states()
    assert {said["CUDA_MPS_PIPE_DIRECTORY"] for said in (high, normal, low)} == {str(state.with_suffix(""))}
    assert {said["CUDA_VISIBLE_DEVICES"] for said in (high, normal, low)} == {visible_uuid(site)}
    # What MPS itself needs is the users', what it logs is not.
    assert state.with_suffix(".log").stat().st_mode & 0o077 == 0
    assert state.stat().st_mode & 0o077 == 0


def test_jobs_that_are_measured_or_have_several_gpus_do_not_join(site: MpsSite) -> None:
    site.start()
    write_record(site, "measured", measure=True)
    write_record(site, "wide", gpus="0,1")
    assert site.daemon.control.mps("measured") == {}
    assert site.daemon.control.mps("wide") == {}
    assert site.ended()
    assert "one pipe directory, and the job has 2 GPUs" in site.daemon.log.read_text()
    _, measured = site.beats(measure=True)
    assert not site.in_mps(measured.pid)


def test_without_mps_in_fikit_toml_nobody_joins_and_no_one_is_asked(site: MpsSite) -> None:
    site.daemon.config.write_text(site.daemon.config.read_text().replace("multi-user", "off"))
    site.start()
    job, beating = site.beats()
    assert not site.in_mps(beating.pid)
    assert site.report(job)["device_mode"] == "slices"
    assert not site.pipes.exists()  # by which the plugin knows


def test_who_cannot_ask_is_not_told(site: MpsSite) -> None:
    site.start()
    assert site.daemon.control.mps("12") == {}  # no such job


@pytest.mark.parametrize("site", [4], indirect=True)
def test_one_program_more_than_the_server_takes_runs_in_time_slices_of_its_own(site: MpsSite) -> None:
    site.start()
    inside = [site.beats(priority=1)[1] for _ in range(3)]  # a user's share
    job, outside = site.job("beat", 1000)
    assert outside.first_word == "running"
    assert [site.in_mps(p.pid) for p in (*inside, outside)] == [True, True, True, False]
    report = site.report(job)
    assert report["device_mode"] == "slices"
    (warning,) = report["warnings"]
    assert "outside MPS" in warning
    assert "MPS clients on this GPU" in warning
    inside[0].kill()  # one that leaves makes room
    inside[0].wait()
    eventually(lambda: site.in_mps(site.beats(priority=1)[1].pid))
    outside.kill()
    assert "runs outside MPS" in outside.communicate()[1]


def test_a_program_that_unsets_the_variables_has_time_slices_of_its_own_and_the_report_says_so(site: MpsSite) -> None:
    site.start()
    job, inside = site.beats()
    env = {
        **site.device,
        "LD_PRELOAD": str(site.native / "libfikit_shim.so"),
        "FIKIT_SOCKET": f"{site.daemon.run_dir}/fikitd.sock",
    }
    record = (site.daemon.run_dir / "jobs" / job).read_text()
    # Another program of the same job, without the three variables.
    outside = subprocess.Popen(
        [site.program, "beat", "1000"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    site.programs.append(outside)
    inside.kill()
    inside.wait()
    (site.daemon.run_dir / "jobs" / job).write_text(
        record.replace(f"pid={inside.pid}\n", f"pid={os.getpid()}\n").replace("pid_start=", "ignored=")
    )
    eventually(lambda: site.report(job)["device_mode"] == "mixed")
    assert not site.in_mps(outside.pid)


def test_a_users_own_mps_is_left_alone_and_said(site: MpsSite, tmp_path: Path) -> None:
    own = tmp_path / "own"
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(own), "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "own_log")}
    control = site.native / "emulator" / "nvidia-cuda-mps-control"
    subprocess.run([control, "-d"], env={**site.device, **env}, check=True)

    def say(command: str) -> str:
        said = subprocess.run(
            [control], input=f"{command}\n", env={**site.device, **env}, capture_output=True, text=True, check=False
        )
        return said.stdout if said.returncode == 0 else "Cannot find"

    eventually(lambda: "Cannot find" not in say("get_server_list"))
    say(f"start_server -uid {os.getuid()}")
    try:
        site.start()
        job, beating = site.job("beat", 1000, env=env)
        assert beating.first_word == "running"
        assert site.in_mps(beating.pid)
        assert site.report(job)["device_mode"] == "other-mps"
        assert say(f"get_client_list {say('get_server_list').strip()}").split() == [str(beating.pid)]
    finally:
        say("quit -t 0")  # with a client, `quit` alone waits for it


def test_its_processes_are_no_programs_around_fikit(site: MpsSite) -> None:
    site.daemon.config.write_text(site.daemon.config.read_text().replace("[scheduler]", "unmanaged_s = 1\n[scheduler]"))
    site.start()
    job, _ = site.beats()
    around = site.beats(env={"LD_PRELOAD": ""})[1]  # one that goes around it is still found
    eventually(lambda: str(around.pid) in site.daemon.log.read_text())
    assert f"process {site.server()} " not in site.daemon.log.read_text()
    assert site.report(job)["unmanaged"] == 0


def test_fikit_run_tells_its_program_to_join_unless_it_measures(site: MpsSite) -> None:
    site.start()
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")

    def run(*options: str, **env: str) -> dict[str, str]:
        command = [sys.executable, "-m", "fikit", "run", *options, "--", "env"]
        env = {**site.device, "FIKIT_CONFIG": str(site.daemon.config), **env}
        said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        return {name: found[name] for name in names if name in found}

    joins = run("--priority", "low", "--mem", "4G")
    assert Path(joins["CUDA_MPS_PIPE_DIRECTORY"]).parent == site.pipes
    assert (joins["CUDA_MPS_CLIENT_PRIORITY"], joins["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]) == ("1", "0=5120M")
    assert run("--measure", **joins) == {}, "inherited from another job"


def test_program_of_fikit_run_is_a_client(site: MpsSite) -> None:
    site.start()
    command = [sys.executable, "-m", "fikit", "run", "--", site.program, "beat", "1000"]
    env = {**site.device, "FIKIT_CONFIG": str(site.daemon.config)}
    run = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    site.programs.append(run)
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    (client,) = site.daemon.control.node()["clients"]
    assert client["device_mode"] == "mps"
    assert site.in_mps(client["pid"])
    run.terminate()  # and with it the program
    run.communicate()
    eventually(site.ended)


def write_record(site: MpsSite, job: str, **facts: object) -> None:
    base = {"job": job, "uid": os.getuid(), "gid": os.getgid(), "priority": 5, "gpus": "0"}
    JobRecord(**{**base, **facts}).write(site.daemon.run_dir)  # type: ignore[arg-type]


def visible_uuid(site: MpsSite) -> str:
    script = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(0)))"
    return subprocess.run(
        [sys.executable, "-c", script], env=site.device, capture_output=True, text=True, check=True
    ).stdout.strip()
