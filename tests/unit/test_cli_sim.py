"""`fikit sim`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit.commands.sim import command

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    high, low = tmp_path / "high.csv", tmp_path / "low.csv"
    high.write_bytes(recordings.inference(1).text())
    low.write_bytes(recordings.training(1).text())
    return ["--high", str(high), "--low", str(low), "--requests", "5"]


def test_json_has_the_promised_keys_and_says_that_it_is_emulated(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "prio", "--arrivals", "open30", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    keys = [
        "policy",
        "high_jct_ratio",
        "high_p99_ratio",
        "low_share",
        "harvest",
        "kernels",
        "grants",
        "mispredicted_us_p99",
    ]
    assert set(keys) <= set(result)
    assert result["policy"] == "prio"
    assert result["emulated"] is True
    again = CliRunner().invoke(command, [*traces, "--policy", "prio", "--arrivals", "open30", "--json"])
    assert again.stdout == done.stdout


def test_people_get_a_table(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "fifo"])
    assert done.exit_code == 0, done.output
    assert "harvest" in done.stdout
    assert "emulated" in done.stdout


def test_two_low_jobs(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--low", traces[3], "--policy", "prio", "--json"])
    assert done.exit_code == 0, done.output


def test_unknown_policy_names_the_nearest(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "proi"])
    assert done.exit_code == 1
    assert 'there is no policy "proi"; did you mean "prio"' in done.output


def test_bad_recording_is_one_sentence(traces: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("hello\n")
    done = CliRunner().invoke(command, ["--high", str(bad), "--low", traces[3], "--policy", "prio"])
    assert done.exit_code == 1
    assert f"{bad}: couldn't use line 1" in done.output
