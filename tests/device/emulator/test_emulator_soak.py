"""Clients of the emulated GPU that are killed at random, again and again: nothing of them may stay.

`EMUCUDA_SOAK_S=600 pytest -o faulthandler_timeout=0 tests/device/emulator/test_emulator_soak.py` is the long form.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, Partner, driver_flags, start, stats

Env = Callable[..., dict[str, str]]
SOAK_S = float(os.environ.get("EMUCUDA_SOAK_S", "0"))  # at least
KILLS = 100  # at least, by the test
CLIENTS = 8
SEED = 20261121


class Victims:
    """A crowd that is always complete: whoever has died is replaced. Half of them die inside the device's lock."""

    def __init__(self, client: Path, emulator_env: Env) -> None:
        self.client, self.env = client, emulator_env
        self.moments = random.Random(SEED)
        self.crowd: list[Partner] = []
        self.killed_by_test = self.killed_by_fault = 0

    def complete(self) -> None:
        while len(self.crowd) < CLIENTS:
            seed = self.moments.randrange(10**6)
            suicide = f"kernel=fikit_spin chance=0.01 seed={seed} kill" if seed % 2 else ""
            # Its one line about the fault is expected and many.
            self.crowd.append(start(self.client, "forever", 200, env=self.env(EMUCUDA_FAULTS=suicide), quiet=True))

    def strike(self) -> None:
        time.sleep(self.moments.uniform(0.0, 0.05))
        victim = self.moments.choice(self.crowd)
        victim.kill()
        victim.communicate()
        self.killed_by_test += 1
        for other in [v for v in self.crowd if v.poll() is not None]:
            self.crowd.remove(other)
            if other is not victim:
                assert other.returncode == -signal.SIGKILL
                other.communicate()
                self.killed_by_fault += 1

    def end(self) -> None:
        for victim in self.crowd:
            victim.kill()
            victim.communicate()


def resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def segments(env: dict[str, str]) -> list[Path]:
    return sorted(Path("/dev/shm").glob(f"emucuda.*.{env['EMUCUDA_NAME']}.*"))


@pytest.mark.timeout(SOAK_S + 300)
def test_killed_clients_leak_nothing(native: Path, cc: Callable[..., Path], emulator_env: Env) -> None:
    client = cc(SOURCES / "emu_client.c", *driver_flags(native))
    env = emulator_env()
    survivor = start(client, "forever", 50, env=env)
    assert survivor.first_word == "running"
    victims = Victims(client, emulator_env)
    deadline = time.monotonic() + SOAK_S
    resident: list[int] = []
    files = open_files(survivor.pid)
    size = segments(env)[0].stat().st_size
    kernels = 0
    try:
        while victims.killed_by_test < KILLS or victims.killed_by_fault == 0 or time.monotonic() < deadline:
            victims.complete()
            victims.strike()
            if victims.killed_by_test % 20 == 0:
                resident.append(resident_kib(survivor.pid))
                own = next(p for p in stats(native, env)[0]["processes"] if p["pid"] == survivor.pid)
                assert own["kernels"] > kernels  # the device goes on
                kernels = own["kernels"]
        assert open_files(survivor.pid) == files
    finally:
        victims.end()
        survivor.kill()
        survivor.communicate()
    print(
        f"{victims.killed_by_test} killed by the test, {victims.killed_by_fault} inside the lock, "
        f"{kernels} kernels of the survivor, resident {resident[0]} to {resident[-1]} KiB"
    )
    assert resident[-1] <= resident[0] + 4096

    (device,) = stats(native, env)
    assert device["memory_used_bytes"] == 0
    assert not any(p["alive"] for p in device["processes"])
    assert [path.suffix for path in segments(env)] == [".0", ".faults"]
    assert segments(env)[0].stat().st_size == size
    # The lock works, and every stream but the context's own is free again.
    assert subprocess.run([client, "order", "1000"], env=env, check=False, timeout=60).returncode == 0
    assert subprocess.run([client, "streams", "511"], env=env, check=False, timeout=60).returncode == 0
    assert stats(native, env)[0]["memory_used_bytes"] == 0
