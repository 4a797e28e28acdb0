"""Whatever fails, the program runs as if the shim were not there; one line says so."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import shim_daemon
from fikitd.base import protocol
from shim_daemon import Daemon, refusal, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
LAUNCH_TEN = "context()\nf = function('k')\nfor _ in range(10): check(launch(f))\nsay(calls('cuLaunchKernel'))"


def one_line(err: str) -> str:
    assert err.startswith("fikit: ")
    assert err.count("\n") == 1
    return err


def test_unmanaged_program_is_silent(program: Start) -> None:
    assert program(LAUNCH_TEN).finish() == ("10\n", "")


def test_no_daemon_is_one_line(program: Start, tmp_path: Path) -> None:
    out, err = program(LAUNCH_TEN, FIKIT_SOCKET=str(tmp_path / "nobody.sock")).finish()
    assert out == "10\n"
    assert "No such file" in one_line(err)


def test_refusal_gives_the_daemons_reason(program: Start, daemon: StartDaemon) -> None:
    out, err = program(LAUNCH_TEN, daemon(answer=refusal("no job record for pid 1"))).finish()
    assert out == "10\n"
    assert "no job record for pid 1" in one_line(err)


def test_a_refusal_without_a_reason_says_that_it_has_none(program: Start, daemon: StartDaemon) -> None:
    out, err = program(LAUNCH_TEN, daemon(answer=refusal(""))).finish()
    assert out == "10\n"
    assert "it refuses and does not say why" in one_line(err)


def test_a_daemon_of_version_1_refuses_and_the_program_runs(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(
        answer=refusal("the shim speaks protocol 2 and fikitd 1; install the same fikit for jobs and daemon")
    )
    out, err = program(LAUNCH_TEN, fikitd).finish()
    assert out == "10\n"
    assert "install the same fikit" in one_line(err)
    assert struct.unpack_from("<IHH", fikitd.hellos[0], 8) == (2, shim_daemon.NO_MPS, shim_daemon.VERSION)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"x",
        b"\0" * 2048,
        struct.pack("<IIII", 2, 16, shim_daemon.VERSION, 4096),
        struct.pack("<IIII", 2, 16, 1, 164352),
        struct.pack("<IIII", 2, 16, 99, 172032),
    ],
    ids=["closes", "one byte", "zeros", "welcome without page", "welcome of version 1", "welcome of a later version"],
)
def test_garbage_instead_of_welcome(program: Start, daemon: StartDaemon, answer: bytes) -> None:
    out, err = program(LAUNCH_TEN, daemon(answer=answer)).finish()
    assert out == "10\n"
    one_line(err)


def test_silent_daemon_costs_seconds(program: Start, tmp_path: Path) -> None:
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(1)
        out, err = program(
            "import time\nt = time.monotonic()\n" + LAUNCH_TEN + "\nsay(time.monotonic() - t)", FIKIT_SOCKET=str(path)
        ).finish()
    launched, seconds = out.split()
    assert launched == "10"
    assert protocol.ANSWER_S <= float(seconds) < protocol.ANSWER_S + 3.0
    assert f"no answer within {protocol.ANSWER_S} s" in one_line(err)


def test_death_of_the_daemon_frees_a_waiting_launch(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = program(LAUNCH_TEN, fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    died = time.monotonic()
    fikitd.stop()
    out, err = run.finish()
    assert time.monotonic() - died < 5
    assert out == "10\n"
    assert "fikitd is gone" in one_line(err)


def test_death_of_the_daemon_frees_all_queued_threads(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = program(
        """
import threading
ctx = context()
f = function("k")
def work():
    check(cu.cuCtxSetCurrent(ctx)); check(launch(f)); check(launch(f))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
say(calls("cuLaunchKernel"))
""",
        fikitd,
    )
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    fikitd.stop()
    out, err = run.finish()
    assert out == "8\n"
    one_line(err)


def test_damaged_page_is_not_used(program: Start, daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherLayout(shim_daemon.Page):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            self.set_u32("magic", 0)

    monkeypatch.setattr(shim_daemon, "Page", OtherLayout)
    out, err = program(LAUNCH_TEN, daemon()).finish()
    assert out == "10\n"
    assert "another version" in one_line(err)


def test_program_that_reuses_our_descriptors_keeps_its_files(
    program: Start, daemon: StartDaemon, tmp_path: Path
) -> None:
    """A program that closes everything (to become a daemon, say) and opens files under the same numbers."""
    fikitd = daemon()
    run = program(
        f"""
context()
f = function("k")
mine = os.open({str(tmp_path / "file")!r}, os.O_RDWR | os.O_CREAT)
for fd in range(3, 256): os.dup2(mine, fd) if fd != mine else None
say("reused"); pause()
for i in range(1, 11): check(launch(f, grid=i))
if os.fork() == 0: os._exit(0 if os.fstat(100).st_size == 0 else 1)
say(os.wait()[1])
""",
        fikitd,
    )
    assert run.line() == "reused"
    fikitd.page().close_gate(lease_s=0.2)
    run.go()
    assert run.finish()[0] == "0\n"
    assert (tmp_path / "file").read_bytes() == b""
    assert fikitd.page().launches() == 10


def test_descriptors_are_high_and_closed_on_exec(program: Start, daemon: StartDaemon) -> None:
    out, _ = program(
        """
before = set(os.listdir("/proc/self/fd"))
for fd in (0, 1): os.dup2(fd, fd + 50)
os.close(0)
context()
mine = [int(fd) for fd in set(os.listdir("/proc/self/fd")) - before if fd not in ("50", "51")]
targets = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in mine if os.path.exists(f"/proc/self/fd/{fd}")
           or os.path.islink(f"/proc/self/fd/{fd}")}
ours = [fd for fd, target in targets.items() if "socket" in target or "eventfd" in target]
say(sorted(fd > 2 and not os.get_inheritable(fd) for fd in ours))
""",
        daemon(),
    ).finish()
    assert out == "[True, True]\n"


def test_child_of_a_fork_attaches_on_its_own(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    out, _ = program(
        """
context()
f = function("k")
for _ in range(3): check(launch(f))
pid = os.fork()
if pid == 0:
    for _ in range(5): check(launch(f))
    os._exit(0)
os.waitpid(pid, 0)
for _ in range(2): check(launch(f))
say(pid)
""",
        fikitd,
    ).finish()
    assert len(fikitd.pages) == 2
    assert fikitd.pids[1] == int(out)
    assert [page.launches() for page in fikitd.pages] == [5, 5]


def test_child_of_a_fork_that_never_launches_says_nothing(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program("context()\nif os.fork() == 0: os._exit(0)\nos.wait()\ncheck(launch(function('k')))", fikitd).finish()
    assert [page.launches() for page in fikitd.pages] == [1]


def test_exec_after_cuda_starts_anew(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program("context()\ncheck(launch(function('k')))\nos.execvp('true', ['true'])", fikitd).finish()
    assert fikitd.page().launches() == 1


def test_stopped_client_does_not_disturb_the_daemon(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program("context()\nsay('ready')\npause()\ncheck(launch(function('k')))", fikitd)
    run.line()
    os.kill(run.process.pid, signal.SIGSTOP)
    fikitd.page().close_gate(lease_s=0.1)
    os.kill(run.process.pid, signal.SIGCONT)
    run.go()
    run.finish()
    assert fikitd.page().launches() == 1


def test_an_image_that_the_driver_refuses_is_not_read(program: Start) -> None:
    """An ELF header that promises more than there is, at the end of the memory that there is."""
    code = """
import mmap, struct
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
memory[page - 64 : page] = b"\\x7fELF".ljust(40, b"\\0") + struct.pack("<Q", 1 << 30) + bytes(16)
context()
fake.fake_fail(b"cuModuleLoadData", 200)
module = ctypes.c_void_p()
say(cu.cuModuleLoadData(ctypes.byref(module), ctypes.c_void_p(start + page - 64)))
os._exit(0)
"""
    assert program(code).finish()[0] == "200\n"
