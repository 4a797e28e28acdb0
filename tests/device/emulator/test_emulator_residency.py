"""More managed memory than the emulated GPU has: in the device model in manual time, and between real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import SOURCES, cases_of, driver_flags, finish, model_flags, run_case, start, stats

Env = Callable[..., dict[str, str]]
MIB = 1 << 20
CASES = [
    "what_nobody_used_yet_costs_faults_only",
    "what_is_on_the_host_comes_over_the_link",
    "memory_leaves_more_slowly_than_it_comes_and_most_slowly_at_first",
    "victims_go_by_their_last_migration",
    "plain_memory_takes_its_room_and_keeps_it",
    "a_cycle_of_more_than_the_device_misses_always",
    "misses_stand_in_line_with_copies",
    "both_directions_at_once_are_slower",
    "who_pages_gets_on",
    "freed_memory_is_left_alone",
    "allocations_find_the_room_that_there_is",
    "a_stream_full_of_names_is_full",
    "repair_rebuilds_residency",
]


@pytest.fixture(scope="module")
def model(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_residency.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_model_in_manual_time(model: Path, case: str) -> None:
    run_case(model, case)


def test_every_model_case_is_listed(model: Path) -> None:
    assert cases_of(model) == CASES


@pytest.fixture(scope="module")
def program(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_managed.c", *driver_flags(native))


@pytest.fixture
def small(emulator_env: Env, tmp_path: Path) -> dict[str, str]:
    """A device of 64 MiB, which a context takes nothing of, and a link of 24 GB/s."""
    config = tmp_path / "small.toml"
    config.write_text('[device]\nmemory = "64MiB"\ncontext_memory = 0\n')
    return emulator_env(EMUCUDA_CONFIG=str(config))


def account(native: Path, env: dict[str, str], pid: int) -> dict[str, Any]:
    (device,) = stats(native, env)
    (process,) = [p for p in device["processes"] if p["pid"] == pid]
    assert isinstance(process, dict)
    return process


def run(program: Path, env: dict[str, str], case: str) -> None:
    done = subprocess.run([program, case], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr


@pytest.mark.parametrize("case", ["contents", "info", "prefetch", "graph", "argument"])
def test_one_process(program: Path, small: dict[str, str], case: str) -> None:
    run(program, small, case)


def test_a_driver_may_tell_of_a_page_that_is_out_that_it_is_on_the_host(
    program: Path, small: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "told.toml"
    config.write_text('[device]\nmemory = "64MiB"\ncontext_memory = 0\n[managed]\nout_is_host = true\n')
    run(program, {**small, "EMUCUDA_CONFIG": str(config)}, "type")


def test_a_driver_may_make_a_move_within_the_call_where_its_stream_has_no_work(
    program: Path, small: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "blocks.toml"
    config.write_text(
        '[device]\nmemory = "64MiB"\ncontext_memory = 0\n[managed]\nout_gbps = 0.02\nout_blocks = true\nin_call_us = 1e5\n'
        '[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n'
    )
    run(program, {**small, "EMUCUDA_CONFIG": str(config)}, "blocks")


def test_plain_memory_of_another_process_pushes_managed_memory_out_and_its_contents_stay(
    native: Path, program: Path, small: dict[str, str]
) -> None:
    victim = start(program, "holds_managed", 48, env=small)
    assert account(native, small, victim.pid)["resident_bytes"] == 48 * MIB
    taker = start(program, "holds_plain", 40, env=small)
    assert taker.first_word == "holding"
    seen = account(native, small, victim.pid)
    assert (seen["resident_bytes"], seen["moved_out_bytes"], seen["evicted_chunks"]) == (24 * MIB, 24 * MIB, 12)
    assert account(native, small, taker.pid)["memory_bytes"] == 40 * MIB
    refused = start(program, "holds_plain", 32, env=small)
    assert refused.first_word == "2"
    finish(refused)
    finish(victim)  # it compares every byte, from wherever it is
    finish(taker)
    (device,) = stats(native, small)
    assert device["memory_used_bytes"] == 0


def test_managed_memory_of_a_killed_process_is_gone(native: Path, program: Path, small: dict[str, str]) -> None:
    victim = start(program, "holds_managed", 48, env=small)
    victim.kill()
    victim.communicate()
    (device,) = stats(native, small)
    assert device["memory_used_bytes"] == 0
    run(program, small, "contents")
