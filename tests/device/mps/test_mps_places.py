"""MPS where a job is not one program on one GPU: MIG instances, several GPUs, containers; and who asks to join and means no good."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikitd.base import protocol
from fikitd.mps import control, notes
from fikitd.store.records import JobRecord
from mps_site import MpsSite, eventually, mps_site

pytest_plugins = ["mps_fixtures"]
Env = Callable[..., dict[str, str]]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes mount namespaces")


@pytest.fixture
def site(
    request: pytest.FixtureRequest, native: Path, mps_program: Path, emulator_env: Env, tmp_path: Path
) -> Iterator[MpsSite]:
    """Of the devices that the parameter describes: lines of `[device]`; one usual GPU without."""
    model = tmp_path / "devices.toml"
    model.write_text(f"[device]\n{getattr(request, 'param', '')}")
    with mps_site(native, mps_program, emulator_env(EMUCUDA_CONFIG=str(model)), clients=4) as made:
        yield made


def gpus(site: MpsSite) -> list[str]:
    """The UUIDs of GPUs, or of their instances."""
    script = "import pynvml; from fikitd import gpu_processes as g; pynvml.nvmlInit(); print(*[d['uuid'] for d in g.devices()])"
    done = subprocess.run(
        [sys.executable, "-c", script], env=site.device, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("site", ['memory = "141GiB"\nmig = ["3g.71gb", "1g.18gb"]\n'], indirect=True)
def test_each_mig_instance_has_a_server_of_its_own(site: MpsSite) -> None:
    site.start()
    large, small = gpus(site)
    assert large.startswith("MIG-")
    jobs = [site.beats(gpus=uuid) for uuid in (large, small)]
    assert [site.report(job)["device_mode"] for job, _ in jobs] == ["mps", "mps"]
    assert [site.report(job)["device"]["uuid"] for job, _ in jobs] == [large, small]
    assert sorted(state.uuid for state in notes.found(site.pipes) or ()) == sorted([large, small])
    assert len({state.pid for state in notes.found(site.pipes) or ()}) == 2


@pytest.mark.parametrize("site", ["count = 2\n"], indirect=True)
def test_a_job_on_several_gpus_runs_in_time_slices_and_its_report_says_why(site: MpsSite) -> None:
    site.start()
    site.told = site.daemon.control.mps  # type: ignore[method-assign] # once: there is nothing to wait for
    job, process = site.beats(gpus=",".join(gpus(site)))
    assert process.first_word == "running"
    report = site.report(job)
    assert report["device_mode"] == "slices"
    (said,) = report["warnings"]
    assert said == (
        "it runs outside MPS, in time slices of its own: a program has one pipe directory, and the job has 2 GPUs"
    )


@pytest.mark.parametrize("site", ["count = 2\n"], indirect=True)
def test_jobs_on_two_gpus_have_servers_apart_and_a_fault_stays_on_its_gpu(site: MpsSite) -> None:
    site.start()
    first, second = gpus(site)
    job, beating = site.beats(gpus=first)
    _, faulting = site.beats(gpus=second, env={"EMUCUDA_FAULTS": "kernel=fikit_spin nth=20 error=700"})
    assert faulting.stdout is not None
    assert faulting.stdout.readline() == "700\n"
    assert beating.poll() is None
    before = site.report(job)["kernels"]
    eventually(lambda: site.report(job)["kernels"] > before + 20)
    assert site.report(job)["warnings"] == []


# What a container shows of the node: its own root stays, and run_dir is hidden, or there again as docs/admin.md mounts it.
HIDDEN = "mount --make-rprivate / && mount -t tmpfs none {run_dir}"
MOUNTED = (
    "mount --make-rprivate / && mkdir {outside} && mount --bind {run_dir} {outside} && mount -t tmpfs none {run_dir}"
    " && mount --bind {outside} {run_dir} && mount -o remount,bind,ro,nosuid,nodev {run_dir}"
    " && mount --bind {outside}/mps {run_dir}/mps && mount -o remount,bind,rw,nosuid,nodev {run_dir}/mps"
)


def in_container(site: MpsSite, command: str) -> None:
    """From now on the site's programs run in a mount namespace of their own."""
    run_dir = site.daemon.run_dir
    script = site.daemon.run_dir.parent / "container"
    command = command.format(run_dir=run_dir, outside=run_dir.parent / "outside")
    script.write_text(f'#!/bin/sh -e\n{command}\nexec {site.program} "$@"\n')
    script.chmod(0o755)
    inner = script.with_name("container_of_its_own")
    inner.write_text(f'#!/bin/sh\nexec env -u LD_PRELOAD unshare --mount env LD_PRELOAD="$LD_PRELOAD" {script} "$@"\n')
    inner.chmod(0o755)
    site.program = inner


@needs_root
def test_a_container_that_has_run_dir_joins(site: MpsSite) -> None:
    site.start()
    in_container(site, MOUNTED)
    job, process = site.beats()
    assert site.in_mps(process.pid)
    assert site.report(job)["device_mode"] == "mps"


@needs_root
def test_a_container_that_has_no_run_dir_runs_outside_mps_and_outside_fikit(site: MpsSite) -> None:
    site.start()
    in_container(site, HIDDEN)
    _, process = site.beats()
    assert not site.in_mps(process.pid)
    process.kill()
    said = process.communicate()[1]
    assert "runs outside MPS" in said
    assert "runs without priorities" in said


@needs_root
def test_a_program_that_fikitd_lets_join_and_whose_driver_finds_no_server_has_time_slices(site: MpsSite) -> None:
    """A container may show fikitd's socket and hide MPS's directories: the driver then runs as without MPS, and says so."""
    site.start()
    in_container(site, "mount --make-rprivate / && mount -t tmpfs none {run_dir}/mps")
    job, process = site.beats()
    assert not site.in_mps(process.pid)
    report = site.report(job)
    assert report["device_mode"] == "slices"
    assert report["warnings"] == [control.driver_refused(0, 0)]
    process.kill()
    (said,) = [line for line in process.communicate()[1].splitlines() if "MPS" in line]
    assert "the driver found no MPS server in " in said


@pytest.fixture
def servers_file(site: MpsSite) -> Iterator[Path]:
    """What some drivers' servers make in /dev/shm, of the site's server."""
    site.start()
    site.beats()
    file = Path(f"/dev/shm/cuda.shm.{os.geteuid()}.{site.server():x}.1")
    file.touch()
    yield file
    file.unlink(missing_ok=True)


@needs_root
def test_a_job_with_a_dev_shm_of_its_own_stays_outside_where_the_server_has_a_file_there(
    site: MpsSite, servers_file: Path
) -> None:
    """As Slurm's job_container/tmpfs makes it. The driver would refuse the program."""
    inside, _ = site.beats()
    in_container(site, "mount --make-rprivate / && mount -t tmpfs none /dev/shm")
    job, process = site.beats()
    assert site.report(inside)["device_mode"] == "mps", "it has the node's"
    report = site.report(job)
    assert report["device_mode"] == "slices"
    assert report["warnings"] == [
        "a program of it runs outside MPS, in time slices of its own: its /dev/shm is not the node's, where the MPS server has its file; "
        "remedy: Dirs=/tmp in Slurm's job_container.conf"
    ]
    process.kill()
    assert "its /dev/shm is not the node's" in process.communicate()[1]
    servers_file.unlink()  # a driver with an anonymous region
    assert site.report(site.beats()[0])["device_mode"] == "mps"


def ask_to_join(site: MpsSite) -> socket.socket:
    """As a shim of this process would."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.settimeout(10)
    asking.connect(str(site.daemon.run_dir / protocol.SOCKET_NAME))
    head = protocol.HeadLayout(protocol.HELLO, ctypes.sizeof(protocol.HelloLayout))
    asking.send(bytes(protocol.HelloLayout(head, protocol.OLDEST, protocol.PURPOSE_JOIN, protocol.VERSION)))
    return asking


@pytest.fixture
def mine(site: MpsSite) -> None:
    """A job of which this process is."""
    site.start()
    JobRecord(job="mine", uid=os.getuid(), gid=os.getgid(), priority=8, pid=os.getpid()).write(site.daemon.run_dir)
    eventually(lambda: site.daemon.control.mps("mine"), 15.0)


def outside(refusal: int, again: int) -> bytes:
    size = ctypes.sizeof(protocol.OutsideLayout)
    return bytes(protocol.OutsideLayout(protocol.HeadLayout(protocol.OUTSIDE, size), refusal, again))


def heard(asking: socket.socket) -> bytes:
    return asking.recv(4096)


@pytest.mark.usefixtures("mine")
def test_who_joins_and_goes_on_talking_loses_its_place(site: MpsSite) -> None:
    for _ in range(5):  # more than there are places
        asking = ask_to_join(site)
        assert heard(asking) == protocol.join()
        asking.send(b"\xff" * 100)
        assert heard(asking) == b""


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(("refusal", "again"), [(805, 0), (809, 100), (0, 0)])
def test_who_says_that_the_driver_refused_it_gives_its_place_back(site: MpsSite, refusal: int, again: int) -> None:
    for _ in range(5):  # more than there are places
        asking = ask_to_join(site)
        assert heard(asking) == protocol.join()
        asking.send(outside(refusal, again))
        assert heard(asking) == b""
    assert control.driver_refused(refusal, again) in site.daemon.log.read_text()
    assert "no valid message" not in site.daemon.log.read_text()


@pytest.mark.usefixtures("mine")
def test_one_job_that_asks_without_end_leaves_places_for_others(site: MpsSite) -> None:
    asking = [ask_to_join(site) for _ in range(6)]
    answers = [heard(each) for each in asking]
    assert answers.count(protocol.join()) == 3, "three quarters of four, and a quarter of those for priority 0 and 1"
    assert all(b"MPS clients on this GPU" in answer for answer in answers if answer != protocol.join())
    for each in asking:
        each.close()
    eventually(lambda: heard(ask_to_join(site)) == protocol.join())


@pytest.mark.usefixtures("mine")
def test_a_place_is_given_back_by_who_dies_while_it_asks(site: MpsSite) -> None:
    for _ in range(20):
        ask_to_join(site).close()
    eventually(lambda: heard(ask_to_join(site)) == protocol.join())
