"""The blocks of docs/measured.md, of made runs: each row of the newest run that has it, and nothing without data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gpu_run_samples import a_cell, a_run, summary

from bench.gpu import report
from bench.gpu.pages import blocks, pairs, runs, second, tables
from bench.gpu.pages.block import Picture, Table
from bench.gpu.sharing import cells
from bench.record import BenchError


def page(tmp_path: Path) -> Path:
    """With a place for each block, and a sentence that stays."""
    path = tmp_path / "measured.md"
    places = [f"<!-- python -m bench {blocks.place(name)} -->\n\n<!-- end -->\n" for name in blocks.BLOCKS]
    path.write_text("A sentence.\n" + "".join(places))
    return path


def rows(made: str) -> list[list[str]]:
    """The cells of the only table, without its head."""
    return [line[2:-2].split(" | ") for line in made.splitlines() if line.startswith("|")][2:]


def text(name: str, *found: runs.Run) -> str:
    return blocks.BLOCKS[name].make(sorted(found, key=lambda run: run.document["date"], reverse=True)).text


def test_each_cell_is_of_the_newest_run_that_has_it() -> None:
    old = a_run("x", "2026-11-27", pairs={"cells": [a_cell("mps", 7.4, 0.95), a_cell("budget", 1.04, 0.02)]})
    new = a_run("y", "2026-11-28", pairs={"cells": [a_cell("budget", 1.03, 0.12), {**a_cell("mps", 1, 1), "error": "no"}]})  # fmt: skip
    assert rows(text("pairs", old, new)) == [
        ["decode + batch", "closed", "budget", "slices", "in turns", "2.00", "2.06", "1.030", "1.500", "1.010", "0.120", "-", "20 (18 to 24)", "y"],
        ["decode + batch", "closed", "mps", "MPS", "in turns", "2.00", "14.80", "7.400", "1.500", "1.010", "0.950", "-", "20 (18 to 24)", "x"],
    ]  # fmt: skip
    assert "runs y, x: " in text("pairs", old, new)


def test_a_cell_without_its_own_alone_says_that_alone_is_of_another_minute() -> None:
    cell = {key: value for key, value in a_cell("budget", 1.5, 0.25).items() if not key.endswith("_alone")}
    old = a_run("x", pairs={"cells": [cell], "alone": {"decode.closed": summary(2e6)}})
    (row,) = rows(text("pairs", old))
    assert row[4:7] == ["apart", "2.00", "3.00"]


def test_ways_by_mps_say_so_and_pairs_keep_their_order() -> None:
    cells = [
        a_cell("budget_mps", 1.1, 0.5, pair=("transformer", "convolution")),
        a_cell("a_new_way", 1.1, 0.5),
        a_cell("mps_half", 1.1, 0.5, kind="arrivals"),
        a_cell("slices", 2, 0.5, pair=("short", "long")),
    ]
    found = [row[:4] for row in rows(text("pairs", a_run("x", pairs={"cells": cells})))]
    assert found == [
        ["decode + batch", "closed", "a_new_way", "slices"],
        ["decode + batch", "arrivals", "mps_half", "MPS"],
        ["transformer + convolution", "closed", "budget_mps", "MPS"],
        ["short + long", "closed", "slices", "slices"],
    ]


def test_conditions_are_shown_where_a_file_has_them() -> None:
    known = a_cell("budget", 1.03, 0.12, switch={"ns": 225_000, "count": 41}, sm_clock_mhz={"mean": 1980, "min": 1975, "max": 1980},
                   power_w={"mean": 512.3, "min": 498, "max": 540})  # fmt: skip
    bare = a_cell("slices", 2.1, 0.5, switch={"ns": None, "count": 0}, sm_clock_mhz=None, power_w=None)
    old = a_cell("mps", 7.4, 0.95)
    assert rows(text("conditions", a_run("x", pairs={"cells": [old, bare, known]}))) == [
        ["decode + batch", "closed", "slices", "", "0", "", "", "x"],
        ["decode + batch", "closed", "budget", "225.0", "41", "1980 (1975 to 1980)", "512 (498 to 540)", "x"],
    ]
    assert not text("conditions", a_run("x", pairs={"cells": [old]}))


def test_answers_are_shown_flat_and_refusals_with_their_cause() -> None:
    found = {
        "server begins": {"answer": {"knows_multiuser": False, "with_flag": {"server": 0, "states": []}, "s": 0.25, "tail": ["a|b", "c"]}, "took_s": 0.4},
        "GPU by UUID": {"error": "client-3 hung", "took_s": 4.0},
        "another user": {"answer": {"0755": {"pid": 7, "cuInit": 805, "cuInit_ms": 2.5}, "1777": {"cuInit": 0, "mps": 1, "open": 0, "sync": 0, "p50_us": 55.76}}},
        "late": {"answer": {"pid": 7, "cuInit": 0, "mps": 0, "open": 0, "sync": 0, "cuInit_again": 0}},
        "faulty": {"answer": {"cuInit": 0, "mps": 1, "open": 719}},
        "machine": {"answer": {"cores": 16}, "took_s": 0.1},
        "nvidia-smi": {"answer": {"uuid": None, "long": "x" * 1000}, "took_s": 0.1},
    }  # fmt: skip
    made = text("questions", a_run("x", questions=found))
    assert "| server begins | knows_multiuser: no, with_flag.server: 0, with_flag.states: none, s: 0.25, tail: a\\|b c | x |" in made  # fmt: skip
    assert "| GPU by UUID | no answer: client-3 hung | x |" in made
    assert re.search(r"\| nvidia-smi \| uuid: -, long: x{500,600} \.\.\. \| x \|", made)
    assert "| another user | 0755: cuInit says 805, 1777: under MPS, 1777.p50_us: 55.76 | x |" in made
    assert "| late | outside MPS, cuInit_again: 0 | x |" in made
    assert "| faulty | open says 719 | x |" in made
    assert "machine" not in made
    assert "trap" in text("dangers", a_run("x", dangers={"trap": {"answer": {"others_die": True}}}))


def test_a_queue_that_was_not_worked_off_is_told() -> None:
    cells = [a_cell("mps", 346.55, 0.94, kind="arrivals", unfinished=117), a_cell("budget", 1.03, 0.12, unfinished=0)]
    assert [row[7] for row in rows(text("pairs", a_run("x", pairs={"cells": cells})))] == ["1.030", "346.550 (117 requests not begun)"]  # fmt: skip


def test_long_cells_have_a_table_of_their_own() -> None:
    run = a_run("x", pairs={"cells": [a_cell("budget", 1.03, 0.12)]}, long_cells={"cells": [a_cell("budget", 1.04, 0.2)]})  # fmt: skip
    assert [row[7] for row in rows(text("pairs", run))] == ["1.030"]
    assert [row[7] for row in rows(text("long", run))] == ["1.040"]


def test_a_program_whose_results_differ_stands_out() -> None:
    found = {"bare": {"equal": True, "digest": "a"}, "managed": {"error": "hung"}, "mps": {"equal": False, "digest": "b"}, "managed_mps": {"equal": True}}  # fmt: skip
    assert rows(text("correctness", a_run("x", pairs={"cells": [], "correctness": {"decode": found}}))) == [
        ["decode", "again without: equal; fikit: not compared (hung); MPS: **different**; fikit and MPS: equal", "x"]
    ]


def spread(p50: float) -> dict[str, float]:
    return {"count": 9, "p10": p50 / 2, "p50": p50, "p90": p50 * 2, "p99": p50 * 3, "middle": p50}


def test_shaping_shows_each_size_beside_the_high_program_alone() -> None:
    cells = [
        {"shared_kib": 100, "high": spread(30_000), "slowdown": 1.5, "low_speed": 0.875},
        {"shared_kib": 0, "high": spread(40_000), "slowdown": 2.0, "low_speed": 0.9},
        {"shared_kib": 200, "error": "no memory | left"},
    ]
    assert rows(text("shaping", a_run("x", shaping={"high_alone": spread(20_000), "cells": cells}))) == [
        ["no low program", "20.0 (10.0 to 40.0)", "1", "-", "x"],
        ["0", "40.0 (20.0 to 80.0)", "2.000", "0.900", "x"],
        ["100", "30.0 (15.0 to 60.0)", "1.500", "0.875", "x"],
        ["200", "no figure: no memory \\| left", "-", "-", "x"],
    ]


def test_slurm_shows_each_job_and_what_its_report_blames() -> None:
    jobs = {
        "high": {"job": "2", "state": "FAILED", "exit_code": "1:0", "alone": {"mean_ns": 1.64e6}, "beside": {"mean_ns": 1.7e6}, "after_trap": {"requests": 0},
                 "report": {"device_mode": "mps", "slowdown": 1.0371}},
        "cancelled": {"job": "4", "state": "CANCELLED", "exit_code": "0:9"},
        "trap": {"job": "5"},
    }  # fmt: skip
    part = {"jobs": jobs, "cancel_s": 0.41, "blamed": {"high": ["trap", "trap"]}}
    assert rows(text("slurm", a_run("x", slurm=part))) == [
        ["high", "FAILED, exit code 1:0", "mps", "1.64", "1.70", "-", "1.037", "trap", "x"],
        ["cancelled", "CANCELLED, exit code 0:9, 0.41 s after scancel", "-", "-", "-", "-", "-", "no job", "x"],
        ["trap", "unknown, exit code unknown", "-", "-", "-", "-", "-", "no job", "x"],
    ]


def test_time_slices_show_turns_waits_calls_and_refusals() -> None:
    fine, refused = {"errno": 0, "status": "0x0"}, {"errno": 0, "status": "0x1b"}
    part = {
        "slices": {"default": {"turns_ns": [spread(2.06e6), None], "switch_ns": spread(225_000), "controls": [[], []]}, "500": {"error": "it hung"}},
        "waits": {"high 1 s, low 1 us": {"took_ns": spread(2_208_000), "controls": [[fine], [refused]]}},
        "calls": {"preempt": {"took_ns": spread(12_000), "longest_pauses_ns": [40_000_000, 5], "controls": [{"errno": 1, "status": "0x0"}, fine]}},
    }  # fmt: skip
    kernels, lone, one = second.EXPERIMENTS.values()
    assert rows(text("time_slices", a_run("x", time_slices=part))) == [
        [kernels, "default", "turns of 2.06 ms (1.03 to 4.12) and unknown length, a switch of 225.0 (112.5 to 450.0) us", "x"],
        [kernels, "500 us each", "no figure: it hung", "x"],
        [lone, "high 1 s, low 1 us", "takes 2,208.0 (1,104.0 to 4,416.0) us; refused with status 0x1b", "x"],
        [one, "preempt", "the call takes 12.0 (6.0 to 24.0) us, the longest pause is 40.00 ms; refused with errno 1", "x"],
    ]  # fmt: skip


def test_figures_of_two_gpus_share_no_table() -> None:
    ours = a_run("x", pairs={"cells": [a_cell("budget", 1.03, 0.12)]})
    other = a_run("y", "2026-11-30", device="NVIDIA H100", pairs={"cells": [a_cell("budget", 1.2, 0.3)]})
    made = text("pairs", ours, other)
    assert made.index("NVIDIA H100:") < made.index("1.200") < made.index("NVIDIA H200:") < made.index("1.030")
    drawn = blocks.PICTURES["gpu-pairs.svg"]([other, ours])
    assert ("1.200" in drawn, "1.030" in drawn, "NVIDIA H100" in drawn) == (True, False, True)


@pytest.mark.parametrize("name", [name for name in blocks.BLOCKS if name != "runs"])
def test_a_block_without_data_is_absent(name: str) -> None:
    assert not text(name, a_run("x"))
    failed = {
        part: {"error": "no"}
        for part in (
            "costs",
            "slices",
            "questions",
            "dangers",
            "long_cells",
            "slurm",
            "shaping",
            "time_slices",
            "pairs",
        )
    }
    assert not text(name, a_run("x", **failed))


def test_the_legend_names_each_run_with_its_file() -> None:
    found = [a_run("x", "2026-11-27", costs={"launch_ns": 1}, mps={"error": "no"}), a_run("y", "2026-11-28")]
    assert rows(text("runs", *found)) == [
        ["[x](../bench/results/gpu-x.json.gz)", "2026-11-27", "NVIDIA H200", "580.1.2", "0.1.0", "costs"],
        ["[y](../bench/results/gpu-y.json.gz)", "2026-11-28", "NVIDIA H200", "580.1.2", "0.1.0", ""],
    ]


@pytest.mark.parametrize(("last_us", "in_turns", "proves"), [(2100.0, False, True), (4000.0, False, False), (4000.0, True, True)])  # fmt: skip
def test_the_picture_says_where_the_program_alone_was_not_steady(last_us: float, in_turns: bool, proves: bool) -> None:
    alone = summary(2e6, [2000.0] * 70 + [last_us] * 10)
    cell = {**a_cell("budget", 1.5, 0.25), "high_alone": alone}
    if not in_turns:
        del cell["high_alone"]
    drawn = blocks.PICTURES["gpu-pairs.svg"]([a_run("x", pairs={"cells": [cell], "alone": {"decode.closed": alone}})])
    assert ("prove nothing" in drawn, 'fill-opacity="0.35"' in drawn) == (not proves, not proves)


def test_a_bar_that_would_leave_the_picture_is_cut_and_keeps_its_figure() -> None:
    drawn = blocks.PICTURES["gpu-pairs.svg"]([a_run("x", pairs={"cells": [a_cell("mps", 346.55, 0.94)]})])
    assert "347 (cut); low at 94 % (run x)" in drawn
    assert max(float(width) for width in re.findall(r'width="([\d.]+)"', drawn)) <= 960


def test_the_picture_of_modes_needs_both() -> None:
    slices, mps = (a_cell(way, 1.04, 0.12, kind="arrivals") for way in ("budget", "budget_mps"))
    assert not blocks.PICTURES["gpu-modes.svg"]([a_run("x", pairs={"cells": [slices]})])
    runs_of_both = [a_run("x", pairs={"cells": [slices, mps]})]
    assert "fikit: budget, MPS" in blocks.PICTURES["gpu-modes.svg"](runs_of_both)
    assert "![MPS against time slices](pictures/gpu-modes.svg)" in text("modes", *runs_of_both)


def write(file: Path, run: runs.Run, **more: Any) -> Path:
    file.write_text(json.dumps({**run.document, **more}))
    return file


def test_one_command_writes_page_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(runs, "RESULTS", results)
    write(results / "gpu-2026-11-29-1210-call1.json", a_run("x", pairs={"cells": [a_cell("budget", 1.03, 0.031)]}))
    path = page(tmp_path)
    said = report.run(emulated=True, blocks_of=path).summary.splitlines()
    written = path.read_text()
    assert "pairs: 1 rows of 2026-11-29-1210-call1" in said
    assert "questions: no run has it" in said
    assert any(line.startswith("README.md: ") and line.endswith("gpu-2026-11-29-1210-call1.json has 3.1 %") for line in said)  # fmt: skip
    assert written.startswith("A sentence.\n")
    assert "| 1.030 |" in written
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["gpu-pairs.svg"]
    report.run(emulated=True, blocks_of=path)
    assert path.read_text() == written


def test_figures_of_the_emulated_gpu_never_reach_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    write(tmp_path / "gpu-x.json", a_run("x"), emulated=True)
    path = page(tmp_path)
    before = path.read_text()
    with pytest.raises(BenchError, match=r"gpu-x\.json for .*measured\.md: its figures are of the emulated GPU"):
        report.run(emulated=False, blocks_of=path)
    assert path.read_text() == before


def test_a_page_without_a_place_and_results_without_a_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    with pytest.raises(BenchError, match="couldn't find a run"):
        report.run(emulated=False, blocks_of=page(tmp_path))
    write(tmp_path / "gpu-x.json", a_run("x"))
    (tmp_path / "other.md").write_text("nothing")
    with pytest.raises(BenchError, match="has no place for this table"):
        report.run(emulated=False, blocks_of=tmp_path / "other.md")


def test_the_terminal_shows_what_the_page_shows() -> None:
    found = a_run(
        "x",
        pairs={
            "cells": [a_cell("budget", 1.03, 0.12, switch={"ns": 225_000, "count": 41})],
            "correctness": {"decode": {"mps": {"equal": True}}},
        },
        questions={"GPU by UUID": {"answer": {"0": {"cuInit": 0}}}},
        dangers={"[trap]": {"error": "the GPU hung"}},
        slurm={"jobs": {"trap": {"state": "FAILED"}}},
    )
    shown = tables.of(found.document)
    for words in (
        "225.0",
        "GPU by UUID",
        "0: outside MPS",
        "[trap]",
        "no answer: the GPU hung",
        "MPS: equal",
        "FAILED",
    ):
        assert words in shown


def test_every_pair_and_way_of_the_kit_has_its_place() -> None:
    assert set(cells.TORCH_PAIRS) <= set(pairs.PAIRS)
    assert set(cells.WAYS) <= set(pairs.NAMES)
    assert {way for way in cells.WAYS if pairs.mode(way) == "MPS"} == {name for name, way in cells.WAYS.items() if way.by_mps}  # fmt: skip


def test_every_block_is_tried_here() -> None:
    """A new block needs a test of its own."""
    tried = Path(__file__).read_text()
    for name, block in blocks.BLOCKS.items():
        if isinstance(block, Table) and block.rows is not pairs.rows and name != "facts":
            assert f'text("{name}"' in tried
        if isinstance(block, Picture):
            assert block.file in tried
