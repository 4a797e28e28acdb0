"""What was measured on GPUs (bench/results) and what is made of it: the profiles, the page and its picture say what the files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fikitd.simulation import simulator

from bench.gpu import device_profile, measured
from bench.record import ROOT

RESULTS = sorted((ROOT / "bench/results").glob("gpu-*.json"))
PAGE = (ROOT / "docs/measured.md").read_text()


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_there_is_a_gpu() -> None:
    assert [path.stem.split("-")[1] for path in RESULTS] == ["h200"]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_profile_is_what_the_file_gives(path: Path) -> None:
    profile = ROOT / "emulator/profiles" / f"{path.stem.split('-')[1]}.toml"
    assert profile.read_text() == device_profile.toml(document(path), str(path.relative_to(ROOT)))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_simulator_has_the_device(path: Path) -> None:
    device = simulator.named(path.stem.split("-")[1])
    full = document(path)["parts"]["slices"]["chains_full"]
    assert device.slice_ns == pytest.approx(full["slice_ns"]["p50"], abs=10)
    assert device.switch_ns == pytest.approx(full["switch_ns"]["p50"], abs=10)
    assert device.origin == f"Emulated NVIDIA {path.stem.split('-')[1].upper()} ({path.stem.split('-')[1]}.toml)"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_and_its_picture_are_what_the_file_gives(path: Path) -> None:
    assert measured.table(document(path)) in PAGE
    picture = ROOT / "docs/pictures/gpu-turns.svg"
    assert picture.read_text() == measured.turns(document(path))
