"""bench switches: the picture of what a switch costs, from files of the frontier."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench import record
from bench.scheduling import switches


def row(policy: str, ratio: float, harvest: float, arrivals: str = "closed", seed: int = 1) -> dict[str, Any]:
    label = switches.BUDGET if policy == "budget" else policy
    return {
        "policy": policy, "label": label, "pair": "A", "arrivals": arrivals, "seed": seed,
        "high_jct_ratio": ratio, "harvest": harvest,
    }  # fmt: skip


def written(path: Path, switch_us: float, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"bench": "frontier", "settings": {"switch_us": switch_us}, "runs": rows}))
    return path


def others(*named: str) -> list[dict[str, Any]]:
    return [row(policy, 1.5, 0.5) for policy in switches.POLICIES if policy not in named]


def test_a_case_counts_once_however_many_seeds_it_has(tmp_path: Path) -> None:
    open_rows = [row("prio", 2.0, 0.9, "open30", seed) for seed in (1, 2, 3)]
    file = written(tmp_path / "a.json", 50, [*others("prio"), row("prio", 1.125, 0.1), *open_rows])
    ((_, ratio, harvest),) = switches.run(emulated=True, files=[file]).details["points"]["prio"]
    assert ratio == pytest.approx(1.5)
    assert harvest == pytest.approx(0.5)


def test_only_the_default_budget_is_drawn(tmp_path: Path) -> None:
    larger = row("budget", 9.0, 0.9) | {"label": "budget 20%"}
    file = written(tmp_path / "a.json", 50, [*others("budget"), larger, row("budget", 1.04, 0.6)])
    assert switches.run(emulated=True, files=[file]).details["points"]["budget"] == [(50, pytest.approx(1.04), 0.6)]


def test_a_file_that_calls_the_papers_policy_by_its_former_name_is_read(tmp_path: Path) -> None:
    dear = written(tmp_path / "old.json", 200, [*others("paper"), row("fikit", 1.4, 0.3)])
    cheap = written(tmp_path / "new.json", 20, [*others("paper"), row("paper", 1.1, 0.4)])
    picture = tmp_path / "out" / "switches.svg"
    result = switches.run(emulated=True, files=[dear, cheap], svg=picture)
    assert result.details["points"]["paper"] == [(20, pytest.approx(1.1), 0.4), (200, pytest.approx(1.4), 0.3)]
    assert "paper" in "".join(ET.parse(picture).getroot().itertext())


def test_another_benchs_file_is_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "launch.json"
    other.write_text('{"bench": "launch"}')
    with pytest.raises(record.BenchError, match=r"launch\.json is no file of `bench frontier --device slices`"):
        switches.run(emulated=True, files=[other])
