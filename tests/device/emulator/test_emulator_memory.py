"""Memory of the emulated GPU beyond one process and one device: who holds it, who may use it, what deaths leave."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, driver_flags, finish, start, stats

Env = Callable[..., dict[str, str]]
MIB = 1 << 20


@pytest.fixture(scope="module")
def program(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_memory.c", *driver_flags(native))


@pytest.fixture
def two_small_devices(emulator_env: Env, tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "small.toml"
    config.write_text(
        '[device]\ncount = 2\nmemory = "256MiB"\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n'
    )
    return emulator_env(EMUCUDA_CONFIG=str(config))


@pytest.mark.parametrize(
    "case",
    [
        "access_rights",
        "foreign_handles",
        "event_in_two_streams",
        "pools_make_room",
        "two_devices",
        "touches_closed",
        "touches_unmapped_in_a_graph",
        "managed_pool",
    ],
)
def test_memory(program: Path, two_small_devices: dict[str, str], case: str) -> None:
    done = subprocess.run(
        [program, case], env=two_small_devices, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr


@pytest.mark.parametrize("dilation", [1, 3])
def test_virtual_memory_takes_its_time_for_each_piece(
    program: Path, emulator_env: Env, tmp_path: Path, dilation: int
) -> None:
    config = tmp_path / "slow.toml"
    us = {"create_us": 4000, "map_us": 1000.5, "set_access_us": 3000, "unmap_us": 2000}
    lines = "".join(f"{key} = {value}\n" for key, value in us.items())
    config.write_text(f"[device]\ndilation = {dilation}\n[virtual_memory]\n{lines}")
    done = subprocess.run(
        [program, "costs"], env=emulator_env(EMUCUDA_CONFIG=str(config)), capture_output=True, text=True, check=True
    )
    for took_us, each_us in zip(map(int, done.stdout.split()), us.values(), strict=True):
        assert took_us >= int(3 * each_us * dilation)


def used(native: Path, env: dict[str, str]) -> int:
    (device,) = stats(native, env)
    total: int = device["memory_used_bytes"]
    return total


def test_memory_by_handle_counts_until_its_process_dies(native: Path, program: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holder = start(program, "holds", env=env)
    assert holder.first_word == "holding"
    assert used(native, env) >= 64 * MIB
    finish(holder)
    assert used(native, env) == 0


def test_waiting_for_an_event_ends_with_the_process_that_recorded_it(program: Path, emulator_env: Env) -> None:
    env = emulator_env()
    maker = start(program, "offers", env=env)
    taker = subprocess.Popen(
        [program, "accepts"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert taker.stdin is not None
    assert taker.stdout is not None
    taker.stdin.write(maker.first_word + "\n")
    taker.stdin.flush()
    assert taker.stdout.readline() == "waiting\n"
    maker.kill()
    maker.communicate()
    out, err = taker.communicate(timeout=60)
    assert (out, taker.returncode) == ("released\n", 0), err
    late = subprocess.run(
        [program, "accepts_too_late"],
        env=env,
        input=maker.first_word,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert late.returncode == 0, late.stderr
