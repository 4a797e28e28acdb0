"""Several processes on one emulated GPU."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, driver_flags, finish, start, start_together, stats

Env = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


def test_two_saturating_processes_take_twice_as_long(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    partners = start_together(client, "spin", 500, 400, env=env)
    for partner in partners:
        wall_ms = float(finish(partner).split()[0])
        # The machine may be busy: the device is never faster than the model, so only the lower bound is sharp.
        assert 370 <= wall_ms <= 800
    (device,) = stats(native, env)
    assert sorted(p["busy_ns"] for p in device["processes"]) == [200_000_000, 200_000_000]
    assert [p["kernels"] for p in device["processes"]] == [400, 400]
    assert device["busy_ns"] == 400_000_000


@pytest.mark.parametrize(("slice_us", "wall_ms"), [(2000, range(100)), (0, range(250, 2000))])
def test_a_long_kernel_delays_another_process_unless_sliced(
    client: Path, emulator_env: Env, tmp_path: Path, slice_us: int, wall_ms: range
) -> None:
    config = tmp_path / "slice.toml"
    config.write_text(f'[device]\nslice_us = {slice_us}\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
    env = emulator_env(EMUCUDA_CONFIG=str(config))
    long = start(client, "forever", 150_000, env=env)
    short = start(client, "spin", 100, 3, env=env)
    measured = float(finish(short).split()[0])
    long.kill()
    long.communicate()
    assert int(measured) in wall_ms


def test_memory_is_shared_and_comes_back_after_a_kill(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holder = start(client, "hold", 15_000, env=env)
    assert holder.first_word == "holding"
    refused = start(client, "hold", 2_000, env=env)
    assert refused.first_word == "2"
    finish(refused)
    (device,) = stats(native, env)
    assert device["memory_used_bytes"] == (15_000 + 64) << 20
    holder.kill()
    holder.communicate()
    second = start(client, "hold", 15_000, env=env)
    assert second.first_word == "holding"
    finish(second)


def test_killed_clients_leave_the_device_usable(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    moments = random.Random(20261121)
    for _ in range(10):
        victim = start(client, "forever", 3, env=env)
        order = subprocess.Popen([client, "order", "2000"], env=env)
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(moments.uniform(0.001, 0.03))
        victim.kill()
        victim.communicate()
        assert order.wait(30) == 0
    (device,) = stats(native, env)
    assert not any(p["alive"] for p in device["processes"])
    assert device["memory_used_bytes"] == 0
    assert len(device["processes"]) == 20


def test_reset_forgets_the_devices(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    subprocess.run([client, "order", "10"], env=env, check=True)
    assert len(stats(native, env)) == 1
    subprocess.run([native / "bin/emuctl", "reset"], env=env, check=True)
    assert stats(native, env) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of other users")
def test_every_user_may_share_when_access_is_all(native: Path, client: Path, emulator_env: Env, tmp_path: Path) -> None:
    config = tmp_path / "all.toml"
    config.write_text('[device]\naccess = "all"\n')
    env = emulator_env(EMUCUDA_CONFIG=str(config))
    # Other users may not read this test's folders: change user once the files are read.
    for user in (0, 1234, 1235):
        code = (
            "import ctypes, os; cuda = ctypes.CDLL('libcuda.so.1'); assert cuda.cuInit(0) == 0; "
            f"os.setuid({user}); c = ctypes.c_void_p(); assert cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0) == 0"
        )
        subprocess.run([sys.executable, "-c", code], env=env, check=True)
    (device,) = stats(native, env)
    assert len(device["processes"]) == 3
