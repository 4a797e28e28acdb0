"""What was measured on GPUs (bench/results) and what is made of it: profile, page and picture say what the file says that they name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fikitd.simulation import simulator

from bench.gpu import device_profile, measured
from bench.record import ROOT

PAGE = (ROOT / "docs/measured.md").read_text()
COMMAND = re.compile(r"python -m bench gpu (bench/results/\S+\.json) --profile (\S+)")
MEASURED = {
    path.stem: found[1]
    for path in sorted((ROOT / "emulator/profiles").glob("*.toml"))
    if (found := COMMAND.search(path.read_text()))
}
"""Device -> the file that it is made of."""


def document(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / path).read_text())
    return found


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
