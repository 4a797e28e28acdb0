"""What programs do to each other on one emulated GPU, told by the device's own record: a busy machine that is late with
its calls changes nothing of it. The same in manual time: test_emulator_compute.py."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import SOURCES, Partner, driver_flags, finish, start, start_together

Env = Callable[..., dict[str, str]]
SLICE_NS = 2_000_000
LONG_NS = 7_000_000
SHORT_NS = 100_000


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.fixture(scope="module")
def waiter(native: Path, cc: Callable[..., Path]) -> Path:
    """Waits for each of its kernels."""
    return cc(SOURCES / "emu_faults.c", *driver_flags(native))


@pytest.fixture
def kernels(native: Path, emulator_env: Env) -> Callable[[Partner], list[dict[str, Any]]]:
    """The kernels of a process that the device has run."""

    def read(process: Partner) -> list[dict[str, Any]]:
        command = [native / "bin/emuctl", "trace", "--json"]
        out = subprocess.run(command, env=emulator_env(), check=True, capture_output=True, text=True).stdout
        events: list[dict[str, Any]] = json.loads(out)["events"]
        return [e for e in events if e["pid"] == process.pid and e["kind"] == "kernel" and e["outcome"] == "done"]

    return read


def device_without_switch(directory: Path, slice_us: int) -> Path:
    """The description of a device on which waiting for another process is waiting for its work, and nothing else."""
    config = directory / "device.toml"
    spin = '[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n'
    config.write_text(f"[device]\nslice_us = {slice_us}\nswitch_us = 0\n{spin}")
    return config


def test_two_saturating_clients_take_twice_as_long(
    client: Path, emulator_env: Env, tmp_path: Path, kernels: Callable[[Partner], list[dict[str, Any]]]
) -> None:
    env = emulator_env(EMUCUDA_CONFIG=str(device_without_switch(tmp_path, SLICE_NS // 1000)), EMUCUDA_TRACE="on")
    partners = start_together(client, "spin", 500, 800, env=env)
    for partner in partners:
        finish(partner)
    ran = [kernels(partner) for partner in partners]
    # From the moment when both had work until one had none.
    begin = max(one[0]["enqueue_ns"] for one in ran)
    end = min(one[-1]["end_ns"] for one in ran)
    assert end - begin > 50 * SLICE_NS
    for one in ran:
        work_ns = sum(e["work_ns"] for e in one if begin < e["end_ns"] <= end)
        assert (end - begin) / work_ns == pytest.approx(2.0, rel=0.05)


@pytest.fixture(params=[(SLICE_NS // 1000, SLICE_NS), (0, LONG_NS)], ids=["slices", "run_to_completion"])
def shared(request: pytest.FixtureRequest, emulator_env: Env, tmp_path: Path) -> tuple[dict[str, str], int]:
    """Environment of a device, and how long a client may have to wait for it."""
    slice_us, longest_ns = request.param
    config = device_without_switch(tmp_path, slice_us)
    return emulator_env(EMUCUDA_CONFIG=str(config), EMUCUDA_TRACE="on"), longest_ns


def test_periodic_client_waits_for_a_slice_or_for_a_kernel(
    client: Path,
    waiter: Path,
    shared: tuple[dict[str, str], int],
    kernels: Callable[[Partner], list[dict[str, Any]]],
) -> None:
    env, longest_ns = shared
    saturating = start(client, "forever", LONG_NS // 1000, env=env)
    periodic = start(waiter, "spin", SHORT_NS // 1000, 60, env=env)
    finish(periodic)
    saturating.kill()
    saturating.communicate()
    ran = kernels(periodic)
    assert len(ran) == 60
    waits = sorted(e["start_ns"] - e["enqueue_ns"] for e in ran)
    # It has the device for as long as it has work; then it waits for the other's slice, or kernel, to end.
    assert waits[-1] <= longest_ns
    assert waits[len(waits) // 2] > longest_ns // 10
    assert all(e["end_ns"] - e["start_ns"] == SHORT_NS for e in ran)
