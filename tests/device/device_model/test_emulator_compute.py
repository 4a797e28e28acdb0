"""How kernels share the emulated compute engine, in manual time: side by side, in slices, to completion, merged."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import ROOT, SOURCES, cases_of, model_flags, run_case

CASES = [
    "kernels_of_one_process_run_side_by_side",
    "streams_stay_in_order_beside_each_other",
    "processes_take_turns_even_if_there_is_room",
    "a_slice_preempts_all_kernels_of_its_process",
    "nobody_joins_running_kernels_while_another_process_waits_for_their_end",
    "merged_processes_run_side_by_side",
    "only_a_change_of_process_costs_a_switch",
    "launch_latency_shows_only_on_an_idle_device",
    "markers_take_as_long_to_reach_the_device",
    "gap_follows_each_kernel_that_another_waits_for",
    "the_gap_between_kernels_in_line_gives_nothing_away",
    "two_saturating_clients_take_twice_as_long",
    "periodic_client_waits_up_to_a_slice_per_kernel",
    "run_to_completion_blocks_for_the_length_of_a_kernel",
    "bounds_hold_and_looking_changes_nothing",
]


@pytest.fixture(scope="module")
def compute(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_compute.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_compute_engine_in_manual_time(compute: Path, case: str) -> None:
    run_case(compute, case)


def test_every_compute_case_is_listed(compute: Path) -> None:
    assert cases_of(compute) == CASES


@pytest.mark.parametrize("profile", sorted((ROOT / "emulator/profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_every_constant_of_a_profile_says_where_it_is_from(profile: Path) -> None:
    constants = [line for line in profile.read_text().splitlines() if re.match(r"\w+ *=", line)]
    assert constants
    assert [line for line in constants if not re.search(r"# (assumed|measured on \S+|published: \S+)", line)] == []


@pytest.mark.parametrize("profile", ["default", "h200"])
def test_profile_makes_an_emulated_device(
    native: Path, emulator_env: Callable[..., dict[str, str]], profile: str
) -> None:
    env = emulator_env(EMUCUDA_CONFIG=str(native / "emulator" / f"{profile}.toml"))
    recording = b"#N 0 gemm\nK,0,5,8,10,7,1,1,1,64,1,1,0,0,,0,0\n"
    command = [native / "bin/fikit-replay", "driver"]
    done = subprocess.run(command, input=recording, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b'"device": "Emulated' in done.stdout
