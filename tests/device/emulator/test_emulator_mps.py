"""The emulated driver as a client of MPS: who is one, under which limits, and what ends it. The server is a process of
the test's and its file; what the device then does with the kernels: test_emulator_overlap.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import SOURCES, Partner, driver_flags, finish, start, stats

Env = Callable[..., dict[str, str]]
OUT_OF_MEMORY, ILLEGAL_ADDRESS = "2", "700"
CONNECTION_FAILED, RPC_FAILURE, SERVER_NOT_READY, MAX_CLIENTS_REACHED, CLIENT_TERMINATED = [
    "805",
    "806",
    "807",
    "808",
    "810",
]


def start_time(pid: int) -> str:
    """Field 22 of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


class Server:
    """A live process, and the file by which it says that it is an MPS server."""

    def __init__(self, directory: Path, most: int = 48) -> None:
        self.directory = directory
        self.process = subprocess.Popen(["sleep", "1000"])
        self.write(f"{self.process.pid} {start_time(self.process.pid)} {most}\n")

    def write(self, line: str) -> None:
        (self.directory / "emulated_server").write_text(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def clients(self) -> dict[int, list[str]]:
        """What each client's file says, by its pid."""
        return {
            int(p.name.split(".")[1]): p.read_text().split() for p in self.directory.glob("emulated_clients/client.*")
        }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    directory = tmp_path / "pipe"
    (directory / "emulated_clients").mkdir(parents=True)
    made = Server(directory)
    yield made
    made.kill()


@pytest.fixture
def env(emulator_env: Env, server: Server) -> Env:
    return lambda **more: emulator_env(**{"CUDA_MPS_PIPE_DIRECTORY": str(server.directory), **more})


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.fixture(scope="module")
def faults(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_faults.c", *driver_flags(native))


@pytest.fixture
def holding(client: Path) -> Iterator[Callable[..., Partner]]:
    """Starts programs that hold memory, and lets them go at the end."""
    held: list[Partner] = []

    def hold(env: dict[str, str], mib: int = 1) -> Partner:
        held.append(start(client, "hold", mib, env=env))
        return held[-1]

    yield hold
    for partner in held:
        partner.kill()
        partner.communicate()


def process(native: Path, env: dict[str, str], pid: int) -> dict[str, Any]:
    (found,) = [p for device in stats(native, env) for p in device["processes"] if p["pid"] == pid]
    return dict(found)


def of_this_process(env: dict[str, str], script: str) -> str:
    """What a Python program prints that calls the driver as `cuda`, after cuInit, whose result is `begun`."""
    begin = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); begun = cuda.cuInit(0); out = ctypes.c_int(-1)\n"
    done = subprocess.run([sys.executable, "-c", begin + script], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


MPS_ENABLED = "cuda.cuDeviceGetAttribute(ctypes.byref(out), 133, 0); print(begun, out.value)"


def test_client_stands_in_its_servers_directory_while_it_lives(
    native: Path, env: Env, server: Server, holding: Callable[..., Partner]
) -> None:
    one = holding(env(CUDA_MPS_CLIENT_PRIORITY="1"))
    two = holding(env())
    assert [one.first_word, two.first_word] == ["holding"] * 2
    assert server.clients() == {
        p.pid: [str(p.pid), start_time(p.pid), str(os.getuid()), priority] for p, priority in ((one, "1"), (two, "0"))
    }
    seen = process(native, env(), one.pid)
    assert (seen["mps"], seen["mps_server"], seen["mps_priority"]) == (True, server.process.pid, 1)
    finish(one)
    assert list(server.clients()) == [two.pid]


def test_without_a_server_a_program_runs_as_without_mps(native: Path, emulator_env: Env, tmp_path: Path) -> None:
    env = emulator_env(CUDA_MPS_PIPE_DIRECTORY=str(tmp_path / "none"))
    assert of_this_process(env, MPS_ENABLED) == "0 0"


def test_device_tells_a_client_that_it_is_one(env: Env) -> None:
    assert of_this_process(env(), MPS_ENABLED) == "0 1"


def test_on_a_device_shared_by_mps_every_process_is_a_client(
    native: Path, emulator_env: Env, tmp_path: Path, holding: Callable[..., Partner]
) -> None:
    config = tmp_path / "mps.toml"
    config.write_text('[device]\nsharing = "mps"\n')
    env = emulator_env(EMUCUDA_CONFIG=str(config), CUDA_MPS_CLIENT_PRIORITY="1")
    assert of_this_process(env, MPS_ENABLED) == "0 1"
    seen = process(native, env, holding(env).pid)
    assert (seen["mps"], seen["mps_server"], seen["mps_priority"]) == (True, 0, 1)


def test_one_client_too_many_is_refused_and_the_dead_do_not_count(
    env: Env, server: Server, holding: Callable[..., Partner]
) -> None:
    server.write(f"{server.process.pid} {start_time(server.process.pid)} 2\n")
    first, second = holding(env()), holding(env())
    assert [first.first_word, second.first_word] == ["holding"] * 2
    assert of_this_process(env(), "print(begun)") == MAX_CLIENTS_REACHED
    second.kill()  # leaves its file behind
    second.communicate()
    assert len(server.clients()) == 2
    assert holding(env()).first_word == "holding"


def test_dead_server_is_not_ready(env: Env, server: Server) -> None:
    server.kill()
    assert of_this_process(env(), "print(begun)") == SERVER_NOT_READY


def test_server_of_a_reused_pid_is_not_ready(env: Env, server: Server) -> None:
    server.write(f"{server.process.pid} {int(start_time(server.process.pid)) - 1} 48\n")
    assert of_this_process(env(), "print(begun)") == SERVER_NOT_READY


@pytest.mark.parametrize("line", ["", "nonsense\n", "-1 5 5\n", "0 0 0\n", "12\n", "x" * 100_000])
def test_odd_file_is_one_sentence_and_no_driver(env: Env, server: Server, line: str) -> None:
    server.write(line)
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"],
        env=env(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == CONNECTION_FAILED
    assert done.stderr.count("\n") == 1
    assert "couldn't join the MPS server" in done.stderr


def test_neither_links_nor_pipes_are_followed(env: Env, server: Server, tmp_path: Path) -> None:
    """Others may write into the directory: what they put there makes nobody wait or write elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    script = f"import os; os.symlink({str(victim)!r}, f'{server.directory}/emulated_clients/client.{{os.getpid()}}'); import ctypes; "
    script += "print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    os.mkfifo(server.directory / "emulated_clients" / "client.77")
    done = subprocess.run(
        [sys.executable, "-c", script], env=env(), capture_output=True, text=True, check=True, timeout=20
    )
    assert (done.stdout.strip(), victim.read_text()) == ("0", "precious")
    (server.directory / "emulated_server").unlink()
    os.mkfifo(server.directory / "emulated_server")
    done = subprocess.run(
        [sys.executable, "-c", script], env=env(), capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == CONNECTION_FAILED


def test_clients_die_with_their_server(env: Env, faults: Path, server: Server) -> None:
    beating = start(faults, "beat", 1000, env=env())
    assert beating.first_word == "running"
    server.kill()
    assert beating.stdout is not None
    assert beating.stdout.readline().strip() == RPC_FAILURE
    finish(beating)


def test_fatal_fault_of_one_client_kills_all_and_nobody_joins_until_they_have_left(
    native: Path, env: Env, faults: Path, holding: Callable[..., Partner]
) -> None:
    outside = start(faults, "beat", 1000, env=env(CUDA_MPS_PIPE_DIRECTORY="/nonexistent"))
    victim = start(faults, "beat", 1000, env=env())
    culprit = start(faults, "beat", 1000, env=env(EMUCUDA_FAULTS=f"kernel=* nth=5 error={ILLEGAL_ADDRESS}"), quiet=True)
    for partner in (culprit, victim):
        assert partner.stdout is not None
        assert partner.stdout.readline().strip() == ILLEGAL_ADDRESS
    assert of_this_process(env(), "print(begun)") == SERVER_NOT_READY
    assert stats(native, env())[0]["mps_fault"] == int(ILLEGAL_ADDRESS)
    finish(culprit)
    assert of_this_process(env(), "print(begun)") == SERVER_NOT_READY  # one is still there
    finish(victim)
    assert of_this_process(env(), "print(begun)") == "0"
    assert holding(env()).first_word == "holding"
    assert outside.poll() is None
    outside.kill()
    outside.communicate()


def test_terminated_client_alone_loses_its_context(native: Path, env: Env, faults: Path) -> None:
    one, other = (start(faults, "beat", 1000, env=env()) for _ in range(2))
    subprocess.run([native / "bin/emuctl", "terminate", str(one.pid)], env=env(), check=True)
    assert one.stdout is not None
    assert one.stdout.readline().strip() == CLIENT_TERMINATED
    finish(one)
    assert stats(native, env())[0]["mps_fault"] == 0
    assert other.poll() is None
    other.send_signal(signal.SIGKILL)
    other.communicate()


@pytest.mark.parametrize("operand", ["1", "nobody", "-3"])
def test_what_is_no_client_is_not_terminated(native: Path, env: Env, operand: str) -> None:
    command = [native / "bin/emuctl", "terminate", operand]
    done = subprocess.run(command, env=env(), capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert done.stderr


@pytest.mark.parametrize(
    ("limit", "mib", "word"),
    [
        ("0=128M", 63, "holding"),  # the context has 64 MiB of it
        ("0=128M", 65, OUT_OF_MEMORY),
        ("0=1G", 959, "holding"),
        ("0=1G,1=16M", 961, OUT_OF_MEMORY),
        ("1=16M", 961, "holding"),
        ("0=32M", 1, OUT_OF_MEMORY),  # not even a context
        ("0=2Q", 4000, "holding"),  # ignored, and told
    ],
)
def test_memory_limit_of_a_client(env: Env, holding: Callable[..., Partner], limit: str, mib: int, word: str) -> None:
    assert holding(env(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=limit), mib).first_word == word


def test_memory_limit_means_nothing_outside_mps(emulator_env: Env, holding: Callable[..., Partner]) -> None:
    assert holding(emulator_env(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=128M"), 1000).first_word == "holding"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CUDA_MPS_CLIENT_PRIORITY", "2"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "x"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0="),
    ],
)
def test_what_a_client_cannot_use_is_told_and_ignored(env: Env, variable: str, value: str) -> None:
    script = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=env(**{variable: value}), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
    assert done.stderr.count("\n") == 1
    assert variable in done.stderr


MONITOR = """
import pynvml as nvml
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
for name in "ComputeRunningProcesses", "MPSComputeRunningProcesses":
    print(*sorted(p.pid for p in getattr(nvml, "nvmlDeviceGet" + name)(device)))
"""


def test_nvml_lists_clients_apart_and_their_server_with_the_others(
    env: Env, server: Server, holding: Callable[..., Partner]
) -> None:
    clients = [holding(env()) for _ in range(2)]
    outside = holding(env(CUDA_MPS_PIPE_DIRECTORY="/nonexistent"))
    out = subprocess.run([sys.executable, "-c", MONITOR], env=env(), capture_output=True, text=True, check=True)
    listed = [[int(pid) for pid in line.split()] for line in out.stdout.splitlines()]
    assert listed == [sorted([server.process.pid, outside.pid]), sorted(c.pid for c in clients)]


@pytest.mark.parametrize(("percentage", "times"), [("100", 1), ("50", 2), ("25", 4)])
def test_a_share_of_the_threads_makes_a_full_kernel_longer(
    native: Path, env: Env, tmp_path: Path, percentage: str, times: int
) -> None:
    script = """
import json, subprocess
context, module, function = (ctypes.c_void_p() for _ in range(3))
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
cuda.cuModuleLoadData(ctypes.byref(module), b".version 8.0\\n.target sm_80\\n.visible .entry busy() { ret; }\\n\\0")
cuda.cuModuleGetFunction(ctypes.byref(function), module, b"busy")
print(cuda.cuLaunchKernel(function, 264, 1, 1, 1024, 1, 1, 0, None, None, None), cuda.cuCtxSynchronize())
"""
    config = tmp_path / "device.toml"
    config.write_text('[device]\n[[kernel]]\nmatch = "busy"\nus = 1000.0\n')
    ours = env(EMUCUDA_CONFIG=str(config), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=percentage)
    assert of_this_process(ours, script) == "0 0"
    (ended,) = stats(native, ours)[0]["processes"]
    assert ended["busy_ns"] == times * 1_000_000
    assert ended["work_ns"] == pytest.approx(1_000_000, abs=2)  # the same work in the end
