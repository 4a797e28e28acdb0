"""What was measured on GPUs (bench/results) and what is made of it: profile, page and picture say what the file says that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fikitd.simulation import simulator

from bench import record
from bench.gpu import device_profile, measured, shared
from bench.record import ROOT

PAGE = (ROOT / "docs/measured.md").read_text()
BESIDE = re.compile(r"`python -m bench gpu (bench/results/\S+\.json\.gz) --beside (bench/results/\S+\.json\.gz) --page")
COMMAND = re.compile(r"python -m bench gpu (bench/results/\S+\.json\.gz) --profile (\S+)")
MEASURED = {
    path.stem: found[1]
    for path in sorted((ROOT / "emulator/profiles").glob("*.toml"))
    if (found := COMMAND.search(path.read_text()))
}
"""Device -> the file that it is made of."""


def document(path: str) -> dict[str, Any]:
    return record.read(ROOT / path)


def test_there_is_a_measured_device() -> None:
    assert list(MEASURED) == ["h200"]


@pytest.mark.parametrize("device", MEASURED)
def test_the_profile_is_what_its_file_gives(device: str) -> None:
    profile = (ROOT / f"emulator/profiles/{device}.toml").read_text()
    assert profile == device_profile.toml(document(MEASURED[device]), MEASURED[device])


@pytest.mark.parametrize("device", MEASURED)
def test_the_simulator_has_the_device(device: str) -> None:
    found = simulator.named(device)
    full = document(MEASURED[device])["parts"]["slices"]["chains_full"]
    assert (found.slice_ns, found.switch_ns) == pytest.approx(
        (full["slice_ns"]["p50"], full["switch_ns"]["p50"]), abs=10
    )
    assert found.origin == f"Emulated NVIDIA H200 ({device}.toml)"


def test_the_page_and_its_picture_are_what_their_file_gives() -> None:
    (file,) = {name for name, _ in COMMAND.findall(PAGE)}
    assert file == MEASURED["h200"]
    assert measured.table(document(file)) in PAGE
    picture = (ROOT / "docs/pictures/gpu-turns.svg").read_text()
    assert picture == measured.turns(document(file))


def test_the_pairs_of_the_page_and_their_picture_are_what_their_files_give() -> None:
    (files,) = BESIDE.findall(PAGE)
    runs = [(record.stem(Path(file)).rpartition("-")[2], document(file)) for file in files]
    assert shared.table(runs) in PAGE
    assert (ROOT / "docs/pictures/gpu-pairs.svg").read_text() == shared.picture(runs)


def cell(way: str, jct_ratio: float) -> dict[str, Any]:
    high = {"mean_ns": 2e6 * jct_ratio}
    return {"way": way, "pair": ["a", "b"], "kind": "closed", "high": high, "jct_ratio": jct_ratio, "p99_ratio": 1.5, "low_speed": 0.25, "harvest": None}  # fmt: skip


def pairs_run(took_us: list[float], *found: dict[str, Any]) -> dict[str, Any]:
    alone = {"a.closed": {"mean_ns": 2e6, "took_us": took_us}}
    return {"settings": {"device": "a GPU"}, "parts": {"pairs": {"cells": [*found], "alone": alone}}}


def test_of_a_cell_in_two_runs_the_first_counts() -> None:
    steady = [2000.0] * 80
    runs = [
        (
            "x",
            pairs_run(steady, cell("budget", 1.5), {"way": "mps", "pair": ["a", "b"], "kind": "closed", "error": "no"}),
        ),
        ("y", pairs_run(steady, cell("budget", 1.25), cell("mps", 3))),
    ]
    assert shared.table(runs).splitlines()[2:] == [
        "| a + b | closed | mps | y | 2.00 | 6.00 | 3.000 | 1.500 | 0.250 | - |  |",
        "| a + b | closed | budget | x | 2.00 | 3.00 | 1.500 | 1.500 | 0.250 | - |  |",
    ]


@pytest.mark.parametrize(("last_us", "proves"), [(2100.0, True), (4000.0, False)])
def test_the_picture_says_where_the_program_alone_was_not_steady(last_us: float, proves: bool) -> None:
    drawn = shared.picture([("x", pairs_run([2000.0] * 70 + [last_us] * 10, cell("budget", 1.5)))])
    assert ("prove nothing" in drawn, 'fill-opacity="0.35"' in drawn) == (not proves, not proves)
