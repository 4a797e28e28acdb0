"""The memory limit of a job with a real fikitd: over its processes, after their death, in its report and its profile."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, eventually, heard, tell, usual_daemon
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore
from oversubscribed import python_runner

MIB = 2**20
IMPORTS = "from memory_child import *\n"


daemon = pytest.fixture(usual_daemon)


@pytest.fixture
def runner(daemon: Fikitd, emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return python_runner(daemon, emulator_env)


def test_processes_of_a_job_share_its_limit_and_a_killed_one_leaves_its_part(runner: Runner, daemon: Fikitd) -> None:
    code = """
import os, signal, subprocess, sys, time
context()
child = subprocess.Popen([sys.executable, "-c", "from memory_child import *; context(); made(alloc(6 * MIB)); say(); pause()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
say(alloc(6 * MIB)[0], info()[0] // MIB)
child.send_signal(signal.SIGKILL)
child.wait()
deadline = time.monotonic() + 10
while info()[0] < 10 * MIB and time.monotonic() < deadline: time.sleep(0.01)
say(alloc(6 * MIB)[0], info()[0] // MIB)
"""
    job, process = runner.start("-c", IMPORTS + code, mem_bytes=10 * MIB)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "2 4\n0 4\n"), err
    assert err.count("\n") == 1
    assert "this job's limit is 10 MiB (--fikit-mem), its processes hold 6.0 MiB" in err
    runner.end(job)
    assert daemon.report(job)["memory"] == {"limit_bytes": 10 * MIB, "peak_bytes": 6 * MIB, "refused": 1}


def test_jobs_do_not_share_a_limit(runner: Runner, daemon: Fikitd) -> None:
    code = IMPORTS + "context()\nsay(alloc(6 * MIB)[0])\npause()"
    jobs = [runner.start("-c", code, mem_bytes=10 * MIB) for _ in range(2)]
    assert [heard(process) for _, process in jobs] == ["0", "0"]
    for job, process in jobs:
        tell(process)
        assert process.wait(20) == 0
        runner.end(job)
        assert daemon.report(job)["memory"]["peak_bytes"] == 6 * MIB


def test_a_program_that_damages_the_page_hurts_its_own_job_only(runner: Runner, daemon: Fikitd) -> None:
    code = """
import mmap, os
context()
made(alloc(MIB))
where = [l.split()[0].split("-") for l in open("/proc/self/maps") if "memfd:fikit-memory" in l]
assert len(where) == 1
begin, end = (int(x, 16) for x in where[0])
ctypes.memset(begin, 0xff, end - begin)
say()
pause()
"""
    vandal, process = runner.start("-c", IMPORTS + code, mem_bytes=10 * MIB)
    heard(process)
    other, *_ = runner.run("-c", IMPORTS + "context()\nmade(alloc(6 * MIB))\nprint('done')", mem_bytes=10 * MIB)
    assert daemon.report(other)["memory"] == {"limit_bytes": 10 * MIB, "peak_bytes": 6 * MIB, "refused": 0}
    assert daemon.control.job(vandal)["memory"]["peak_bytes"] == 2**53
    tell(process)
    assert process.wait(20) == 0
    runner.end(vandal)


def test_a_measured_run_writes_its_peak_into_the_profile(runner: Runner, daemon: Fikitd) -> None:
    code = """
context()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuModuleLoadData(ctypes.byref(module), b".version 8.0\\n.target sm_90\\n.visible .entry k() { ret; }\\n"))
check(cu.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
check(free(made(alloc(5 * MIB))))
check(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
check(cu.cuCtxSynchronize())
print("done")
"""
    runner.run("-c", IMPORTS + code, measure=True, profile="mine")
    store = ProfileStore(daemon.profiles)
    profile = eventually(lambda: store.load(os.getuid(), "mine"))
    assert profile["peak_bytes"] == 5 * MIB


@pytest.mark.parametrize(("facts", "name"), [({"name": "train"}, "train"), ({"name": "x", "profile": "mine"}, "mine")])
def test_what_a_job_needed_is_remembered_under_its_name(
    facts: dict[str, str], name: str, runner: Runner, daemon: Fikitd
) -> None:
    code = IMPORTS + "context()\np = made(alloc(5 * MIB))\ncheck(free(p))\nmade(alloc(MIB))\nprint('done')"
    job, *_ = runner.run("-c", code, **facts)
    peaks = MemoryHistory(ProfileStore(daemon.profiles))
    assert eventually(lambda: peaks.of(os.getuid(), name)) == {job: 5 * MIB}


def test_a_peak_that_cannot_be_stored_costs_a_warning(runner: Runner, daemon: Fikitd) -> None:
    daemon.profiles.write_text("in the way")
    runner.run("-c", IMPORTS + "context()\nmade(alloc(MIB))\nprint('done')", name="train")
    eventually(lambda: "how much GPU memory it needed could not be stored: Not a directory" in daemon.log.read_text())


def test_memory_pages_end_with_their_jobs(runner: Runner, daemon: Fikitd) -> None:
    assert daemon.process is not None
    descriptors = Path(f"/proc/{daemon.process.pid}/fd")

    def pages() -> int:
        count = 0
        for link in descriptors.iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                count += "fikit-memory" in str(link.readlink())
        return count

    for _ in range(3):
        runner.run("-c", IMPORTS + "context()\nprint('done')")
    eventually(lambda: pages() <= 1)


def test_a_program_has_more_memory_than_the_gpu(runner: Runner, daemon: Fikitd, tmp_path: Path) -> None:
    """The whole way: the site's rule, the job's record, the page, the shim."""
    config = tmp_path / "small.toml"
    config.write_text('[device]\nmemory = "64MiB"\ncontext_memory = 0\n')
    code = """
context()
buffers = [made(alloc(8 * MIB)) for _ in range(12)]
for i, p in enumerate(buffers): check(cu.cuMemsetD8_v2(ctypes.c_uint64(p), i, ctypes.c_size_t(8 * MIB)))
def read(p):
    out = ctypes.create_string_buffer(8 * MIB)
    check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(8 * MIB)))
    return out.raw
say(all(read(p) == bytes([i]) * 8 * MIB for i, p in enumerate(buffers)), *(n // MIB for n in info()), alloc(MIB)[0])
"""
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text() + '\n[oversubscribe]\nallow = "lower"\n')
    daemon.start()
    runner.env["EMUCUDA_CONFIG"] = str(config)
    job, process = runner.start("-c", IMPORTS + code, mem_bytes=48 * MIB, mem_host_bytes=48 * MIB, priority=8)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "True 0 96 2\n"), err
    runner.end(job)
    memory = daemon.report(job)["memory"]
    assert (memory["limit_bytes"], memory["peak_bytes"], memory["refused"]) == (96 * MIB, 96 * MIB, 1)
    assert memory["moved"]["host_limit_bytes"] == 48 * MIB
