"""The doctor about control daemons that run: with the stand-in of NVIDIA's, each fault caused."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from daemon_process import eventually
from fikit.checks import mps
from fikit.checks.check import Check
from fikitd.mps import control, notes, programs
from fikitd.mps.notes import State
from mps_site import MpsSite

pytest_plugins = ["mps_fixtures"]
Env = Callable[..., dict[str, str]]
UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


@dataclass
class Served:
    """A control daemon as fikitd notes it."""

    directory: Path
    process: subprocess.Popen[bytes]
    env: dict[str, str]

    def say(self, command: str) -> None:
        subprocess.run([programs.PROGRAM], input=f"{command}\n".encode(), env=self.env, check=True)

    def faults(self, text: str) -> None:
        (self.places.logs / "emulated_faults").write_text(text)

    @property
    def places(self) -> notes.Places:
        return notes.places(self.directory, UUID)

    def check(self) -> Check:
        (note,) = notes.found(self.directory) or ()
        return mps.served(note, self.directory)


@pytest.fixture
def served(native: Path, emulator_env: Env, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    for name, value in emulator_env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{native / 'emulator'}", prepend=os.pathsep)
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as root:  # pytest's own are too long for sockets
        directory = Path(root)
        places = notes.places(directory, UUID)
        env = {**os.environ, control.ENV_PIPES: str(places.pipes), control.ENV_LOGS: str(places.logs)}
        with subprocess.Popen([programs.PROGRAM, "-f"], env=env) as process:
            State(UUID, process.pid, control.began(process.pid), ["12"]).save(places.note)
            eventually((places.pipes / control.SOCKET).exists)
            yield Served(directory, process, env)
            process.kill()
            with suppress(FileNotFoundError):  # its server outlives it
                os.kill(int((places.pipes / "emulated_server").read_text().split()[0]), signal.SIGKILL)


def test_a_server_and_its_clients_are_counted(served: Served) -> None:
    assert (served.check().status, served.check().found) == ("ok", "no program has needed a server")
    served.say(f"start_server -uid {os.getuid()}")
    check = served.check()
    assert (check.status, check.name) == ("ok", f"MPS on {UUID}")
    assert check.found.endswith(", 0 clients")


def test_a_server_that_does_not_become_ready_is_found(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.say(f"start_server -uid {os.getuid()}")

    async def never(self: control.Control, server: int, timeout_s: float = 0) -> str:
        return control.INITIALIZING

    monkeypatch.setattr(control.Control, "status", never)
    check = served.check()
    assert (check.status, "is not ready yet" in check.found) == ("warn", True)


@pytest.mark.parametrize("word", ["*", "get_server_status"])
def test_a_control_daemon_that_hangs_is_found_in_bounded_time(served: Served, word: str) -> None:
    served.say(f"start_server -uid {os.getuid()}")
    served.faults(f"hang {word}\n")
    check = served.check()
    assert (check.status, check.found) == ("fail", "MPS did not answer within 2 s: its control daemon hangs")
    assert check.advice.startswith(f"kill -9 {served.process.pid} as root")
    served.process.kill()


def test_a_control_daemon_that_has_ended_is_found(served: Served) -> None:
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    check = served.check()
    assert check.status == "warn"
    assert f"its control daemon (process {served.process.pid}) has ended" in check.found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_a_server_of_one_user_which_others_wait_for_is_found(served: Served) -> None:
    served.say("start_server -uid 65534")
    check = eventually(lambda: (found := served.check()).status == "fail" and found)
    assert "other users' programs wait until that user's have left" in check.found
    assert "echo quit" in check.advice


def test_one_that_nobody_can_ask_is_told_with_why(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    check = served.check()
    assert (check.status, check.found) == ("fail", f"MPS is not there: no nvidia-cuda-mps-control {programs.PLACES}")


def test_the_doctor_of_a_site_with_mps_finds_a_fault_that_is_not_over(
    site: MpsSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start()
    for name, value in {**site.device, "FIKIT_CONFIG": str(site.daemon.config)}.items():
        monkeypatch.setenv(name, value)
    site.beats()
    (note,) = notes.found(site.pipes) or ()
    found = {check.name: check for check in mps.area(has_gpu=False)}
    assert {check.status for name, check in found.items() if name != "another MPS"} == {"ok"}
    assert found[f"MPS on {note.uuid}"].found == f"server {site.server()}, 1 client"
    _, faulting = site.beats(env={"EMUCUDA_FAULTS": "kernel=fikit_spin nth=20 error=700"})
    assert faulting.stdout is not None
    assert faulting.stdout.readline() == "700\n"
    faulty = {check.name: check for check in mps.area(has_gpu=False)}[f"MPS on {note.uuid}"]
    assert (faulty.status, "fatal fault" in faulty.found) == ("warn", True)
