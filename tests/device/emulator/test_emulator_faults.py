"""Faults injected into the emulated GPU, as programs see them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import SOURCES, driver_flags, finish, say_go, start, stats

from fikitd import paths

Env = Callable[..., dict[str, str]]
Emuctl = Callable[..., str]


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_faults.c", *driver_flags(native))


@pytest.fixture(scope="module")
def bystander(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.fixture
def emuctl(native: Path, emulator_env: Env) -> Emuctl:
    def run(*arguments: str) -> str:
        command = [native / "bin/emuctl", *arguments]
        return subprocess.run(command, env=emulator_env(), check=True, capture_output=True, text=True).stdout

    return run


def run(client: Path, env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(client), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def faults(emuctl: Emuctl) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(emuctl("faults", "--json"))["faults"]
    return found


@pytest.mark.parametrize("code", [700, 719, 702, 710, 214])
def test_failing_kernel_kills_its_context_until_reset(client: Path, emulator_env: Env, code: int) -> None:
    rule = f"kernel=emu_increment nth=3 error={code}"
    done = run(client, emulator_env(EMUCUDA_FAULTS=rule), "sticky", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f'emucuda: injected fault "{rule}" strikes emu_increment\n'


@pytest.mark.parametrize("mode", ["event", "callbacks"])
def test_nothing_waits_for_a_dead_context(client: Path, emulator_env: Env, mode: str) -> None:
    done = run(client, emulator_env(EMUCUDA_FAULTS="kernel=emu_increment error=700"), mode, 700)
    assert done.returncode == 0, done.stderr


def test_other_contexts_of_the_process_live_on(client: Path, emulator_env: Env) -> None:
    done = run(client, emulator_env(EMUCUDA_FAULTS="kernel=emu_increment nth=2 error=700"), "many")
    assert done.returncode == 0, done.stderr


def test_other_processes_live_on(client: Path, bystander: Path, emulator_env: Env) -> None:
    other = start(bystander, "spin", 500, 100, env=emulator_env())
    done = run(client, emulator_env(EMUCUDA_FAULTS="kernel=emu_increment error=719"), "launch", 1)
    assert done.stdout == "0 719\n"
    finish(other)


def test_running_program_is_struck_and_counts_are_shared(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    def one_launch(partner: subprocess.Popen[str]) -> str:
        assert partner.stdout is not None
        say_go(partner)
        return partner.stdout.readline().strip()

    first, second = (start(client, "say", env=emulator_env()) for _ in range(2))
    assert one_launch(first) == "0"
    emuctl("inject", "kernel=emu_* nth=3 error=700")
    assert [one_launch(first), one_launch(second), one_launch(second)] == ["0", "0", "700"]
    assert one_launch(first) == "0"
    assert [(f["matches"], f["strikes"]) for f in faults(emuctl)] == [(4, 1)]
    for partner in (first, second):
        partner.communicate("x")


def test_faults_are_listed_and_cleared(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    assert emuctl("faults") == "no injected faults\n"
    emuctl("inject", "kernel=emu_increment", "error=700")
    emuctl("inject", "call=cuMemAlloc* nth=9 error=2")
    assert [f["rule"] for f in faults(emuctl)] == ["kernel=emu_increment error=700", "call=cuMemAlloc* nth=9 error=2"]
    assert "call=cuMemAlloc*" in emuctl("faults")
    emuctl("clear", str(faults(emuctl)[0]["id"]))
    assert [f["rule"] for f in faults(emuctl)] == ["call=cuMemAlloc* nth=9 error=2"]
    assert run(client, emulator_env(), "launch", 2).stdout == "0 0 0\n"
    emuctl("clear")
    assert faults(emuctl) == []


def test_faults_come_from_a_file(client: Path, emulator_env: Env, tmp_path: Path) -> None:
    (tmp_path / "faults").write_text("# a comment; not a rule\ncall=cuMemAlloc* nth=2 times=2 error=2 # oom\n\n")
    done = run(client, emulator_env(EMUCUDA_FAULTS=f"@{tmp_path / 'faults'}"), "alloc", 5)
    assert done.stdout.split() == ["0", "2", "2", "0", "0"]


def test_chance_depends_on_the_seed_only(client: Path, emulator_env: Env) -> None:
    def struck(seed: int) -> str:
        rule = f"call=cuMemAlloc_v2 chance=0.3 seed={seed} times=all error=2"
        return run(client, emulator_env(EMUCUDA_FAULTS=rule), "alloc", 100).stdout

    first = struck(1)
    assert 15 <= first.split().count("2") <= 45
    assert struck(1) == first
    assert struck(2) != first


def test_slow_kernel_takes_longer(client: Path, emulator_env: Env, native: Path) -> None:
    env = emulator_env(EMUCUDA_FAULTS="kernel=fikit_* nth=2 slow=20")
    done = run(client, env, "spin", 1000, 3)
    assert float(done.stdout.split()[1]) >= 20
    (device,) = stats(native, env)
    assert device["busy_ns"] == 22_000_000


def test_hung_kernel_holds_its_own_process_only(client: Path, bystander: Path, emulator_env: Env, native: Path) -> None:
    env = emulator_env(EMUCUDA_FAULTS="kernel=fikit_spin nth=2 hang")
    hung = start(client, "spin", 100, 3, env=env)
    other = start(bystander, "spin", 500, 20, env=emulator_env())
    finish(other)
    (_, alive) = sorted((p["kernels"], p["alive"]) for p in stats(native, env)[0]["processes"])[0]
    assert alive
    assert hung.poll() is None
    hung.kill()
    out, _ = hung.communicate()
    assert out == ""
    assert not any(p["alive"] for p in stats(native, env)[0]["processes"])


@pytest.mark.parametrize("what", ["kill", "signal=SEGV", "signal=ABRT"])
def test_killed_inside_the_device_lock(
    client: Path, bystander: Path, emulator_env: Env, native: Path, what: str
) -> None:
    env = emulator_env(EMUCUDA_FAULTS=f"kernel=emu_increment nth=5 {what}")
    number = signal.Signals["SIG" + (what.partition("=")[2] or "KILL")]
    without_core = ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", client, "launch", "9"]
    done = subprocess.run(without_core, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == -number
    assert subprocess.run([bystander, "order", "2000"], env=emulator_env(), check=False, timeout=60).returncode == 0
    (device,) = stats(native, emulator_env())
    assert device["memory_used_bytes"] == 0


@pytest.mark.parametrize("mode", ["context", "primary", "stream"])
def test_giving_a_hung_context_up_does_not_wait_for_it(
    native: Path, cc: Callable[..., Path], emulator_env: Env, mode: str
) -> None:
    program = cc(SOURCES / "emu_destroy.c", *driver_flags(native))
    env = emulator_env(EMUCUDA_FAULTS="kernel=fikit_spin times=all hang")
    done = run(program, env, mode)
    assert done.returncode == 0, done.stderr
    assert stats(native, env)[0]["memory_used_bytes"] == 0


def test_giving_a_context_up_waits_for_its_running_host_function(
    native: Path, cc: Callable[..., Path], emulator_env: Env
) -> None:
    done = run(cc(SOURCES / "emu_destroy.c", *driver_flags(native)), emulator_env(), "running")
    assert done.returncode == 0, done.stderr


def test_events_of_a_whole_context_go_on_while_another_thread_destroys_streams(
    native: Path, cc: Callable[..., Path], emulator_env: Env
) -> None:
    program = cc(SOURCES / "emu_destroy.c", *driver_flags(native))
    done = run(program, emulator_env(MALLOC_PERTURB_="165"), "streams")  # what was freed is no stream any more
    assert done.returncode == 0, done.stderr


def test_program_with_hung_work_can_leave(native: Path, cc: Callable[..., Path], emulator_env: Env) -> None:
    env = emulator_env(EMUCUDA_FAULTS="kernel=fikit_spin hang")
    done = run(cc(SOURCES / "emu_destroy.c", *driver_flags(native)), env, "exit")
    assert (done.returncode, done.stdout) == (0, "leaving\n")
    assert not any(p["alive"] for p in stats(native, env)[0]["processes"])


def test_delayed_call(client: Path, emulator_env: Env) -> None:
    done = run(client, emulator_env(EMUCUDA_FAULTS="call=cuCtxSynchronize nth=2 delay=50ms"), "spin", 100, 3)
    assert float(done.stdout.split()[1]) >= 50


def test_lost_device_fails_everybody_until_it_is_back(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    programs = [start(client, "survive", env=emulator_env()) for _ in range(2)]
    assert [p.first_word for p in programs] == ["running", "running"]
    emuctl("lose")
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "lost\n"
    emuctl("clear")
    assert [finish(p) for p in programs] == ["back\n", "back\n"]


def test_kernel_that_takes_the_device_along(client: Path, emulator_env: Env) -> None:
    env = emulator_env(EMUCUDA_FAULTS="kernel=emu_increment lost")
    assert run(client, env, "launch", 1).stdout == "0 46\n"
    assert "cuCtxCreate_v2(context, 0, device) gave 46" in run(client, emulator_env(), "launch", 1).stderr


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("error=700", "needs kernel=PATTERN or call=PATTERN"),
        ("kernel=a call=b error=700", "one of them"),
        ("kernel=a error=1", "214, 700, 702, 710 or 719"),
        ("kernel=a hang kill", "one of error=NUMBER, slow=FACTOR, hang"),
        ("kernel=a kill signal=SEGV", "one of error=NUMBER, slow=FACTOR, hang"),
        ("kernel=a signal=HUP", "signal must be one of KILL, SEGV, ABRT, BUS, FPE, ILL, TERM"),
        ("kernel=a", "one of error=NUMBER, slow=FACTOR, hang"),
        ("kernel=a nth=0 hang", "nth must be a whole number from 1"),
        ("kernel=a hang delay=5ms", '"delay=5ms" is not a word'),
        ("call=cuMemAlloc* delay=5", "delay must be a time"),
        ("call=cuMemAlloc*", "error=NUMBER, delay=TIME or both"),
    ],
)
def test_bad_rule_is_one_sentence(client: Path, emulator_env: Env, emuctl: Emuctl, rule: str, complaint: str) -> None:
    command = [paths.emuctl(), "inject", rule]
    done = subprocess.run(command, env=emulator_env(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    in_program = run(client, emulator_env(EMUCUDA_FAULTS=rule), "launch", 1).stderr.splitlines()
    for line in (done.stderr.strip(), in_program[0]):
        assert complaint in line
        assert "\n" not in line
    assert faults(emuctl) == []


TINYGRAD = """
from tinygrad import Tensor
x = Tensor.ones(64, 64).contiguous()
print("before", flush=True)
for _ in range(10):
    (x @ x).relu().sum().item()
"""


def test_tinygrad_reports_an_illegal_address(emulator_env: Env, tmp_path: Path) -> None:
    pytest.importorskip("tinygrad")
    env = emulator_env(DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"), EMUCUDA_FAULTS="kernel=r_* nth=3 error=700")
    done = subprocess.run(
        [sys.executable, "-c", TINYGRAD], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "before\n"
    assert done.returncode == 1
    assert "an illegal memory access was encountered" in done.stderr


def test_context_memory_comes_back_with_the_last_context(native: Path, emulator_env: Env) -> None:
    code = (
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); a, b = ctypes.c_void_p(), ctypes.c_void_p()\n"
        "free, total = ctypes.c_size_t(), ctypes.c_size_t()\n"
        "def used():\n"
        "    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0\n"
        "    return total.value - free.value >> 20\n"
        "assert cuda.cuInit(0) == 0\n"
        "assert cuda.cuCtxCreate_v2(ctypes.byref(a), 0, 0) == cuda.cuCtxCreate_v2(ctypes.byref(b), 0, 0) == 0\n"
        "assert used() == 64\n"
        "assert cuda.cuCtxDestroy_v2(a) == 0 and used() == 64\n"
        "assert cuda.cuCtxDestroy_v2(b) == 0\n"
        "print('destroyed', flush=True); input()\n"
        "assert cuda.cuCtxCreate_v2(ctypes.byref(a), 0, 0) == 0 and used() == 64\n"
    )
    env = emulator_env()
    program = start(Path(sys.executable), "-c", code, env=env)
    assert program.first_word == "destroyed"
    assert stats(native, env)[0]["memory_used_bytes"] == 0
    finish(program)
