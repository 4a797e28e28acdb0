"""The run on a GPU (bench/gpu): its figures from requests, the order of its cells, its tables and the device profile."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import report
from bench.gpu.earlier import memory, plans
from bench.gpu.pages import device_profile, tables
from bench.gpu.sharing import cells, cores, measures
from bench.record import ROOT, BenchError

MS = 1_000_000


def closed(count: int, each_ms: int, start_ms: int = 0) -> list[list[int]]:
    moments = [(start_ms + i * each_ms) * MS for i in range(count + 1)]
    return [[begin, begin, end] for begin, end in itertools.pairwise(moments)]


def test_a_request_at_the_edge_of_the_window_counts_by_its_part() -> None:
    assert measures.done(closed(10, 10), 5 * MS, 95 * MS) == pytest.approx(9)
    assert measures.done([[0, 0, 100 * MS]], 50 * MS, 60 * MS) == pytest.approx(0.1)


def test_a_program_that_did_nothing_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no request"):
        measures.summary([])


def test_arrivals_are_the_same_for_every_way_of_sharing() -> None:
    first = measures.arrivals("decode", 5 * MS, 4_000 * MS)
    assert first == measures.arrivals("decode", 5 * MS, 4_000 * MS)
    assert first != measures.arrivals("batch", 5 * MS, 4_000 * MS)
    assert len(first) == pytest.approx(800, rel=0.15)
    assert first == sorted(first)


def test_what_the_time_cuts_off_is_worth_least() -> None:
    order = cells.cells(cells.TORCH_PAIRS, tuple(cells.WAYS), cells.KINDS)
    assert len(order) == len(set(order)) == 90
    first = set(cells.TORCH_PAIRS[:2])
    assert {cell.pair for cell in order[:36]} == first == {("decode", "batch"), ("transformer_graph", "convolution")}
    assert {(cell.way, cell.kind, cell.pair) for cell in order[:4]} == {
        ("budget_mps", kind, pair) for kind in cells.KINDS for pair in first
    }


def test_fikitd_gets_another_policy_as_seldom_as_can_be() -> None:
    policies = [cells.WAYS[cell.way].policy for cell in cells.cells(cells.TORCH_PAIRS, tuple(cells.WAYS), cells.KINDS)]
    by_mps = [policy for policy in policies if policy]
    assert sum(before != after for before, after in itertools.pairwise(by_mps)) == 5


def test_programs_get_cores_of_their_own_where_there_are_enough() -> None:
    assert cores.plan(list(range(16))) == {"fikitd": [0, 1], "high": [2, 3], "low": [4, 5]}
    assert cores.plan([0, 1]) == {}


def document(**parts: Any) -> dict[str, Any]:
    gpu = {
        "name": "NVIDIA H100",
        "memory_bytes": 80 << 30,
        "compute_capability": "9.0",
        "driver": "NVRM version: 580.65",
    }
    return {
        "bench": "gpu",
        "date": "today",
        "emulated": False,
        "settings": {"device": "NVIDIA H100", "gpu": gpu},
        "parts": parts,
    }


def spread(middle: float) -> dict[str, float]:
    return {"count": 9, "p10": middle, "p50": middle, "p90": middle, "p99": middle, "middle": middle}


SLICES = {
    "alone": [{"blocks": 1, "kernel_ns": 20_000, "gap_ns": 1_100, "tick_ns": 32}],
    "chains": {"overlap": 0.0, "slowdown": [1, 1], "slice_ns": spread(2_010_000), "switch_ns": spread(31_000)},
    "chains_full": {"overlap": 0.0, "slowdown": [1, 1], "slice_ns": spread(2_020_000), "switch_ns": spread(95_500)},
    "beside_long": {"switch_ns": 99_000.0, "turns": 40, "slice_ns": None},
    "gaps": {
        "took_ns": {"all": spread(90_000), "by_gap_ns": {}},
        "enter_ns": None,
        "leave_ns": None,
        "idle_yields": False,
    },
    "latency_alone": {"took_ns": {"all": spread(30_000), "by_gap_ns": {}}},
}


def test_the_profile_has_what_was_measured_and_says_so() -> None:
    text = device_profile.toml(
        document(
            slices=SLICES,
            mps={
                "chains_half": {"overlap": 0.99, "slowdown": [1.04, 1.07]},
                "chains_full": {"overlap": 0.0, "slowdown": [2, 2], "switch_ns": spread(256)},
            },
            costs={"event_pair_empty_busy_ns": spread(1_040), "event_pair_busy_ns": spread(2_840)},
        ),
        "a.json",
    )
    assert "NVIDIA H100, driver 580.65, today" in text
    device = tomllib.loads(text)["device"]
    assert device["memory"] == "81920MiB"
    assert device["name"] == "Emulated NVIDIA H100"
    assert (device["slice_us"], device["switch_us"], device["idle_yields"]) == (2020.0, 95.5, False)
    assert device["mps_switch_us"] == 0.26
    assert (device["overlap_slowdown"], device["launch_latency_us"], device["kernel_gap_us"]) == (1.07, 5.0, 1.1)
    assert (device["event_gap_us"], device["kernel_event_gap_us"]) == (1.04, 1.42)
    for line in text.splitlines():
        if line.startswith(
            ("slice_us", "switch_us", "idle_yields", "mps_switch_us", "overlap_slowdown", "event_gap_us")
        ):
            assert "measured on NVIDIA H100" in line


MEMORY = {
    "concurrent_managed_access": True, "piece_bytes": 64 * 2**20, "attributes": [[8, 0, 1]],
    "copy_in_ns": {"p10": 1.3e6, "p50": 1.25e6, "p90": 1.4e6, "p99": 1.5e6}, "prefetch_in_ns": {"p10": 1.6e6, "p50": 1.6e6, "p90": 1.7e6, "p99": 1.8e6},
    "fault_each_page_ns": {"p10": 2.5e6, "p50": 2.56e6, "p90": 2.6e6, "p99": 2.7e6}, "copy_out_ns": None, "prefetch_beside_capture": 0,
    "touch_plain_ns": {"p10": 9, "p50": 10, "p90": 11, "p99": 12}, "touch_managed_ns": {"p10": 9, "p50": 12, "p90": 13, "p99": 14},
}  # fmt: skip


def test_what_managed_memory_costs_follows_from_the_series() -> None:
    found = memory.derived(MEMORY)
    assert found == {
        "copy_in_gbps": 53.69, "prefetch_in_gbps": 41.94, "fault_each_page_gbps": 26.21, "fault_ns_per_chunk": 30_000, "managed_over_plain": 1.2,
    }  # fmt: skip
    assert memory.derived({"piece_bytes": 64 * 2**20}) == {}


def test_the_profile_has_the_link_and_the_faults() -> None:
    profile = tomllib.loads(device_profile.toml(document(memory={**MEMORY, **memory.derived(MEMORY)}), "a.json"))
    assert profile["copy"] == {"h2d_gbps": 53.69}
    assert profile["managed"] == {"in_gbps": 41.94, "fault_batch_us": 30.0}
    ways = {"prefetch_in_gbps": 48.8, "prefetch_out_gbps": 4.5}
    for said, out in (
        (ways, {"out_gbps": 4.5}),
        ({**ways, "prefetch_out_again_gbps": 13.9}, {"out_gbps": 13.9, "first_out_gbps": 4.5}),
    ):
        managed = tomllib.loads(device_profile.toml(document(memory=said), "a.json"))["managed"]
        assert managed == {"in_gbps": 48.8} | out
    assert "managed" not in tomllib.loads(device_profile.toml(document(memory={"error": "it broke"}), "a.json"))


@pytest.mark.parametrize(("call_ns", "blocks"), [(13.2e6, True), (40e3, False)])
def test_the_profile_has_whether_a_move_is_made_within_the_call(call_ns: float, blocks: bool) -> None:
    calls = {"piece_bytes": 64 * 2**20, "prefetch_out_ns": {"p50": 13.3e6}, "prefetch_out_call_ns": {"p50": call_ns}}
    managed = tomllib.loads(device_profile.toml(document(memory=calls), "a.json"))["managed"]
    assert managed == {"out_blocks": blocks}
    calls["prefetch_in_call_ns"] = {"p50": 0.8e6}
    managed = tomllib.loads(device_profile.toml(document(memory=calls), "a.json"))["managed"]
    assert managed == {"out_blocks": blocks, "in_call_us": 25.0}


def test_the_tables_show_memory() -> None:
    text = tables.of(document(memory={**MEMORY, **memory.derived(MEMORY)}))
    for words in ("fault_each_page", "26.2", "30000 ns of page faults per 2 MiB", "1.2 times as long"):
        assert words in text
    assert "does not fetch managed memory" in tables.of(document(memory={"concurrent_managed_access": False}))


def test_what_was_not_found_is_no_constant_of_the_profile() -> None:
    text = device_profile.toml(
        document(slices={"chains": {"error": "it broke"}}, mps={"error": "there is no MPS"}), "a.json"
    )
    assert not {"slice_us", "switch_us", "overlap_slowdown", "idle_yields"} & set(tomllib.loads(text)["device"])
    assert "# switch_us: not found" in text


def test_a_file_without_a_gpu_gives_no_profile() -> None:
    with pytest.raises(BenchError, match="no GPU"):
        device_profile.toml({"settings": {}, "parts": {}}, "a.json")


CELL = {"way": "budget", "pair": ["decode", "batch"], "kind": "closed"}


def test_tables_show_what_there_is_and_say_what_failed() -> None:
    cells = [
        {**CELL, "jct_ratio": 1.031, "p99_ratio": 1.2, "low_speed": 0.4, "harvest": None},
        {**CELL, "error": "it hung"},
    ]
    text = tables.of(document(
        costs={"error": "not built"}, slices=SLICES, mps={"error": "there is no MPS here"},
        conformance={"programs": 2, "as_expected": 1, "different": {"events": {"a": {"expected": "0", "said": "1"}}}},
        pairs={"cells": cells, "notes": ["the time was over"], "device_ns": {"decode": {"fikit": 900_000, "launches": 8.0}}},
        timing={"cases": [{"ns": 3000, "busy": True, "true_ns": 3100.0, "measured_ns": 3000.0, "ratio": 0.97, "measured_count": 9}]},
    ))  # fmt: skip
    for words in ("costs: not built", "95.5", "there is no MPS here", "1 of 2 programs", "expected 0, the driver says 1", "1.031",
                  "it hung", "the time was over", "0.970"):  # fmt: skip
        assert words in text


def test_the_command_prints_the_tables_and_writes_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(document(slices=SLICES)))
    assert "95.5" in report.run(emulated=True, file=file).summary
    assert tomllib.loads((tmp_path / "gpu.toml").read_text())["device"]["switch_us"] == 95.5


@pytest.mark.parametrize("text", ["", "[]", '{"bench": "launch"}'])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(BenchError, match="other"):
        report.run(emulated=True, file=file)


def a_pass(ms: float) -> dict[str, float]:
    return plans.spread([int(ms * MS)] * 3)


def test_what_a_plan_costs_is_against_all_of_the_memory_there() -> None:
    plan = {"budget_bytes": 60, "peak_bytes": 100}
    found = {"bare_ns": a_pass(100), "managed_ns": a_pass(101), "planned_ns": a_pass(111.1), "memory": {"plan": plan}}
    assert plans.derived(found) == {"managed_over_bare": 1.01, "eor": 0.1, "msr": 0.4}


def test_a_program_without_a_plan_has_no_share_of_memory_saved() -> None:
    assert plans.derived({"bare_ns": a_pass(100), "planned_ns": a_pass(100), "memory": {"plan": None}}) == {}


def test_the_table_of_plans_shows_what_was_found_and_why_not() -> None:
    layers = {"bare_ns": a_pass(97), "managed_ns": a_pass(98), "planned_ns": a_pass(191), "peak_bytes": 3 * 2**29, "eor": 0.952, "msr": 0.36,
              "in_bytes_per_pass": 2**30, "out_bytes_per_pass": 2**30, "missed_bytes_per_pass": 0.0}  # fmt: skip
    shown = tables.of(document(plans={"layers": layers, "deep": {"error": "BenchError: no memory"}}))
    row = next(line for line in shown.splitlines() if "layers" in line).split()
    assert row == ["layers", "1.50", "0.64", "97.00", "98.00", "191.00", "0.952", "2.00", "0.0"]
    assert "deep: BenchError: no memory" in shown


def run_sh(tmp_path: Path, *words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """The kit's script, with a folder to build in that must stay empty."""
    env = {**os.environ, "BENCH_BUILD": str(tmp_path / "build"), "BENCH_PYTHON": python}
    done = subprocess.run([ROOT / "bench/gpu/run.sh", *words], env=env, capture_output=True, text=True, check=False)
    assert not (tmp_path / "build").exists()
    return done


@pytest.mark.starts_processes
def test_help_of_the_kit_needs_no_build(tmp_path: Path) -> None:
    said = run_sh(tmp_path, "--help")
    assert (said.returncode, said.stderr) == (0, "")
    assert "--call 2" in said.stdout
    assert "set -uo" not in said.stdout


@pytest.mark.starts_processes
def test_a_python_without_the_packages_of_the_build_is_refused_before_it(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    said = run_sh(tmp_path, python=str(bare))
    assert said.returncode == 1
    assert "has no nanobind and no click and no rich" in said.stderr
    assert "BENCH_PYTHON" in said.stderr
