"""Memory that leaves the GPU stays its user's: nobody else meets a byte of it, and none is left on the machine.

What the emulated GPU can show is what fikit and the emulator do with the bytes: they lie in the job's own pages, never in a file or in
memory that is shared. That a GPU's memory is zeroed before another process has it is the driver's work (open-gpu-kernel-modules 595.45.04
does it for managed memory), which only a GPU can show.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner
from other_user import UID, OtherUser, other_user

MIB = 2**20
STRANGER = 33  # www-data
SUPPORT = Path(__file__).resolve().parents[1] / "support"
GPU, ON_GPU, ON_HOST = 64, 48, 48  # MiB: the device, and what the job may have there and on the host

# The secret is in no argument, variable or file: both sides reckon it from a number that says nothing by itself.
COMMON = """
import hashlib, mmap, os, sys
from memory_child import *
SECRET = hashlib.sha512(b"secret" + sys.argv[1].encode()).digest()
PIECE = SECRET * (MIB // len(SECRET))
"""
VICTIM = f"""{COMMON}
if "file" in sys.argv: open("/dev/shm/fikit-test-" + sys.argv[1], "wb").write(PIECE)  # what the search has to find
context()
buffers = [made(alloc(8 * MIB)) for _ in range(12)]
def copy(call, p): [check(call(p + i * MIB)) for i in range(8)]
for p in buffers: copy(lambda at: cu.cuMemcpyHtoD_v2(ctypes.c_uint64(at), PIECE, ctypes.c_size_t(MIB)), p)
del PIECE
back = ctypes.create_string_buffer(len(SECRET))
check(cu.cuMemcpyDtoH_v2(back, ctypes.c_uint64(buffers[0]), ctypes.c_size_t(len(SECRET))))
say(back.raw == SECRET)
pause()
"""
STRANGERS = f"""{COMMON}
found, looked = [], 0
def look(where, data):
    global looked
    looked += len(data)
    if data.find(SECRET[:32]) >= 0: found.append(where)
def device(where, p, n):
    out = bytearray(n)
    check(cu.cuMemcpyDtoH_v2((ctypes.c_ubyte * n).from_buffer(out), ctypes.c_uint64(p), ctypes.c_size_t(n)))
    look(where, out)
context()
for i in range(5): device("memory that stays on the GPU", made(alloc(8 * MIB)), 8 * MIB)  # pushes the other one's out
device("memory in stream order", made(stream_ordered(8 * MIB)), 8 * MIB)
for i in range(4): device("managed memory", made(managed(8 * MIB)), 8 * MIB)
host = made(call("cuMemHostAlloc", ctypes.c_size_t(16 * MIB), 0))
look("pinned host memory", ctypes.string_at(host, 16 * MIB))
look("fresh host memory", mmap.mmap(-1, 256 * MIB)[:])
for top in ("/dev/shm", "/tmp", "/var/tmp"):
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            try:
                if os.path.isfile(path) and not os.path.islink(path) and os.path.getmtime(path) >= float(sys.argv[3]):
                    with open(path, "rb") as file: look(path, file.read(256 * MIB))
            except OSError: pass
for what in ("mem", "fd", "map_files"):
    path = f"/proc/{{sys.argv[2]}}/{{what}}"
    try:
        os.listdir(path) if what != "mem" else open(path, "rb")
        found.append(path)
    except OSError: pass
say(*sorted(set(found)) or ["nothing"])
say(looked // MIB)
"""


@pytest.fixture
def user(emulator_env: Callable[..., dict[str, str]]) -> Iterator[OtherUser]:
    with other_user(emulator_env()) as user:
        yield user


@pytest.fixture
def daemon(user: OtherUser) -> Iterator[Fikitd]:
    daemon = Fikitd(user.directory)
    daemon.config.write_text(daemon.config.read_text() + '[oversubscribe]\nallow = "lower"\n')
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def runner(user: OtherUser, daemon: Fikitd) -> Runner:
    config = user.directory / "small.toml"
    config.write_text(f'[device]\nmemory = "{GPU}MiB"\ncontext_memory = 0\naccess = "all"\n')
    (user.directory / "memory_child.py").write_bytes((SUPPORT / "memory_child.py").read_bytes())
    for path in (config, user.directory / "memory_child.py"):
        path.chmod(0o644)
    env = {**user.env, "EMUCUDA_CONFIG": str(config), "PYTHONPATH": str(user.directory), "PYTHONDONTWRITEBYTECODE": "1"}
    return Runner(daemon, user.bin / "python", user.shim, env)


class Victim:
    """A job of one user whose memory holds a secret, more of it than the GPU has."""

    def __init__(self, runner: Runner, *more: str) -> None:
        self.number = uuid.uuid4().hex
        self.began_s = time.time() - 1
        given = {"mem_bytes": ON_GPU * MIB, "mem_host_bytes": ON_HOST * MIB, "priority": 8, "uid": UID}
        self._runner = runner
        self.job, self.process = runner.start("-c", VICTIM, self.number, *more, **given)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "True\n", self.process.communicate()[1]

    def seen_by_a_stranger(self) -> list[str]:
        """Where another user's job met the secret, and that it looked through all that it could have."""
        given = {"mem_bytes": 96 * MIB, "uid": STRANGER}
        job, process = self._runner.start("-c", STRANGERS, self.number, self.process.pid, self.began_s, **given)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        self._runner.end(job)
        *found, looked = out.splitlines()
        assert int(looked) >= 48 + 32 + 16 + 256
        return found


def left_on_the_machine(number: str, began_s: float) -> list[str]:
    """Files of this machine, written since, in which root meets the secret."""
    code = (
        STRANGERS[: STRANGERS.index("context()")]
        + STRANGERS[STRANGERS.index("for top in") : STRANGERS.index("for what in")]
    )
    code = code.replace("from memory_child import *", "MIB = 2**20") + "\nprint(*sorted(set(found)))"
    done = subprocess.run(
        ["python3", "-c", code, number, "", str(began_s)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_no_byte_of_a_users_memory_is_met_by_another_or_left_behind(runner: Runner, daemon: Fikitd) -> None:
    victim = Victim(runner)
    assert victim.seen_by_a_stranger() == ["nothing"], "while the job is there and its memory is out"
    out, err = victim.process.communicate("\n", timeout=60)
    assert (out, victim.process.returncode) == ("", 0), err
    runner.end(victim.job)
    assert daemon.report(victim.job)["memory"]["peak_bytes"] == 96 * MIB
    assert victim.seen_by_a_stranger() == ["nothing"], "after its end"
    assert left_on_the_machine(victim.number, victim.began_s) == []


def test_nor_is_it_where_the_job_is_killed(runner: Runner) -> None:
    victim = Victim(runner)
    victim.process.kill()
    victim.process.communicate()
    assert victim.seen_by_a_stranger() == ["nothing"]
    assert left_on_the_machine(victim.number, victim.began_s) == []
    runner.end(victim.job)


def test_the_search_finds_what_is_left_behind(runner: Runner) -> None:
    victim = Victim(runner, "file")
    left = Path("/dev/shm") / f"fikit-test-{victim.number}"
    try:
        left.chmod(0o644)
        assert victim.seen_by_a_stranger() == [str(left)]
        assert left_on_the_machine(victim.number, victim.began_s) == [str(left)]
    finally:
        left.unlink()
        victim.process.communicate("\n", timeout=60)
