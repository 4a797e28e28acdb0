"""What was measured on GPUs (bench/results) and what is made of it: profile, page and pictures say what the files say."""

from __future__ import annotations

import re

import pytest
from fikitd.simulation import simulator

from bench import record
from bench.gpu.pages import blocks, device_profile, runs
from bench.record import ROOT

PAGE = ROOT / "docs/measured.md"
COMMAND = re.compile(r"python -m bench gpu (bench/results/\S+\.json\.gz) --profile (\S+)")
MEASURED = {
    path.stem: found[1]
    for path in sorted((ROOT / "emulator/profiles").glob("*.toml"))
    if (found := COMMAND.search(path.read_text()))
}
"""Device -> the file that it is made of."""


@pytest.fixture(scope="module")
def kept() -> list[runs.Run]:
    return runs.kept()


def test_there_is_a_measured_device() -> None:
    assert list(MEASURED) == ["h200"]
    assert COMMAND.findall(PAGE.read_text()) == [(MEASURED["h200"], "emulator/profiles/h200.toml`.")]


@pytest.mark.parametrize("device", MEASURED)
def test_the_profile_is_what_its_file_gives(device: str) -> None:
    profile = (ROOT / f"emulator/profiles/{device}.toml").read_text()
    assert profile == device_profile.toml(record.read(ROOT / MEASURED[device]), MEASURED[device])


@pytest.mark.parametrize("device", MEASURED)
def test_the_simulator_has_the_device(device: str) -> None:
    found = simulator.named(device)
    full = record.read(ROOT / MEASURED[device])["parts"]["slices"]["chains_full"]
    assert (found.slice_ns, found.switch_ns) == pytest.approx(
        (full["slice_ns"]["p50"], full["switch_ns"]["p50"]), abs=10
    )
    assert found.origin == f"Emulated NVIDIA H200 ({device}.toml)"


def test_files_are_measured_and_compressed(kept: list[runs.Run]) -> None:
    assert {run.file.name.endswith(".json.gz") for run in kept} == {True}
    assert [run.file.name for run in kept if run.document.get("emulated")] == []
    assert len({run.name for run in kept}) == len(kept)


def test_the_page_is_what_all_files_give(kept: list[runs.Run]) -> None:
    """Write it anew with `python -m bench gpu --page docs/measured.md`."""
    assert PAGE.read_text() == blocks.text(PAGE.read_text(), kept, PAGE)


@pytest.mark.parametrize("picture", blocks.PICTURES)
def test_a_picture_is_what_all_files_give(kept: list[runs.Run], picture: str) -> None:
    file = PAGE.parent / "pictures" / picture
    assert (file.read_text() if file.exists() else "") == blocks.PICTURES[picture](kept)
