"""What the pages on scheduling say of the policy's constants and of the pairs that benches play is what the code has."""

from __future__ import annotations

import re

import pytest
from fikitd.simulation.simulator import ARRIVALS, TUNING

from bench.record import ROOT
from bench.scheduling import seeds
from bench.scheduling.pairs import PAIRS

TEXT = (ROOT / "docs" / "scheduling.md").read_text()
RESULTS = (ROOT / "docs" / "results" / "scheduling-results.md").read_text()
RUNS = len(PAIRS) * sum(len(seeds.of(arrivals, seeds.SEEDS)) for arrivals in ARRIVALS)
UNITS = {"": 1.0, "%": 0.01, "us": 1e3, "ms": 1e6, "s": 1e9}


def test_the_page_has_each_constant_with_its_value() -> None:
    table = TEXT.partition("\n### Constants\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) ?(%|us|ms|s|) \| \[", table, re.M)
    assert {name: float(number) * UNITS[unit] for name, number, unit in rows} == pytest.approx(TUNING)


def test_the_page_of_results_has_the_pairs_of_the_benches() -> None:
    table = RESULTS.partition("\n## Pairs and cases\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (P\d+) \| (\S+) \| (\S+) \|$", table, re.M)
    assert {pair: (high, low) for pair, high, low in rows} == PAIRS


def policies(device: str) -> dict[str, list[str]]:
    """Of the results' table under this heading: the cells of each policy."""
    table = RESULTS.partition(f"\n### {device}\n")[2].partition("<!-- end -->")[0]
    return {cells[0]: cells[1:] for line in table.splitlines() if (cells := line.strip("| ").split(" | "))}


def short(ratio: str) -> str:
    """A JCT ratio for the README: near 1 as it is, else with three figures."""
    return ratio if float(ratio) < 1.5 else f"{float(ratio):.3g}"


def shown_as(cell: str) -> str:
    """A harvest of a table as the results in short have it."""
    return cell.removeprefix("0")


IN_SHORT = {
    "slices of 1,024 us, a switch of 20 us": "Slices, a switch of 20 us",
    "50 us": "Slices, a switch of 50 us",
    "100 us": "Slices, a switch of 100 us",
    "200 us": "Slices, a switch of 200 us",
    "MPS": "MPS",
    "MPS, overlapping kernels 1.2 times as long": "MPS, overlapping kernels 1.2 times as long",
    "1.5 times as long": "MPS, overlapping kernels 1.5 times as long",
}


def test_the_results_in_short_are_those_of_the_tables() -> None:
    page = TEXT.partition("\n## Results in short\n")[2].partition("\n## ")[0]
    for name, device in IN_SHORT.items():
        jct, highest, over, _, harvest, _ = policies(device)["budget 5%"]
        assert f"| {name} | {jct}, {highest} | {over} of {RUNS} | {shown_as(harvest)} |" in page


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("time slices (no MPS), switch 20 us", "Slices, a switch of 20 us"),
        ("time slices (no MPS), switch 50 us", "Slices, a switch of 50 us"),
        ("MPS", "MPS"),
    ],
)
def test_the_readme_says_what_the_tables_say(name: str, device: str) -> None:
    without, fikit = (policies(device)[policy] for policy in ("fifo", "budget 5%"))
    jcts = [
        f"{short(cells[0])}; above 1.05 in {cells[2]} of {RUNS}, highest {short(cells[1])}"
        for cells in (without, fikit)
    ]
    harvests = [f"{100 * float(cells[4]):.0f} %" for cells in (without, fikit)]
    assert f"| {name} | {' | '.join(jcts)} | {', '.join(harvests)} |" in (ROOT / "README.md").read_text()


def test_the_administrators_figures_are_those_of_the_results() -> None:
    """docs/admin.md, "Time slices or MPS": of each device the policy `budget` and the device without a gate."""
    page = (ROOT / "docs" / "admin.md").read_text().partition("\n## Time slices or MPS\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| slices,", "| MPS"))]
    assert len(rows) == 6
    for device, *shown in rows:
        cells = policies(device[0].upper() + device[1:])
        expected = [cells[name][column] for name in ("budget 5%", "fifo") for column in (0, 1, 4)]
        assert [float(each) for each in shown] == [float(each) for each in expected], " | ".join((device, *expected))
