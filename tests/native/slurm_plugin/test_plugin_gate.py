"""job_submit.lua lets a sharing job wait a moment for the placement agent, while there is one that decides where jobs run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fikit.placement.jobs import GATE_S
from lua_module import submitted

pytestmark = pytest.mark.starts_processes

SHARES = {"fikit-priority": "high"}
GPU = {"tres_per_node": "gres:gpu:1"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "fikit.toml"
    file.write_text(f'[placement]\nmode = "pair"\nrun_dir = "{tmp_path}"\n')
    return file


def begins_in(config: Path, options: dict[str, str], job: dict[str, object], beat: str | None) -> float | None:
    """Seconds until its begin time as Lua set it; None: it did not."""
    if beat is not None:
        (config.parent / "heartbeat").write_text(beat)
    changed = submitted(options, {"begin_time": 0, **job}, TEST_CONFIG=str(config))
    return float(changed["begin_time"]) - time.time() if "begin_time" in changed else None


def now(seconds: float = 0.0) -> str:
    return f"{time.time() + seconds:.0f}\n"


@pytest.mark.parametrize(("options", "job"), [(SHARES, GPU), ({}, {"tres_per_node": "gres:shard:4"})])
def test_a_sharing_job_waits_for_four_seconds_at_most(
    config: Path, options: dict[str, str], job: dict[str, object]
) -> None:
    """As long as the agent takes it for one that waits for it."""
    waits_s = begins_in(config, options, job, now())
    assert waits_s is not None
    assert GATE_S - 2 < waits_s <= GATE_S + 0.5


@pytest.mark.parametrize("beat", [None, -10.0, 86_400.0, "", "x\n", "1e300\n", "9" * 40, "\0\n"])
def test_without_an_agent_that_answers_no_job_waits(config: Path, beat: str | float | None) -> None:
    """A time is so many seconds from now."""
    assert begins_in(config, SHARES, GPU, now(beat) if isinstance(beat, float) else beat) is None


@pytest.mark.parametrize("options", [{}, {"fikit-measure": "(null)"}])
def test_a_job_that_shares_nothing_does_not_wait(config: Path, options: dict[str, str]) -> None:
    assert begins_in(config, options, GPU, now()) is None


@pytest.mark.parametrize(
    "wish",
    [
        {"begin_time": 4_000_000_000}, {"dependency": "afterany:3"}, {"reservation": "course"}, {"req_nodes": "gpu1"}, {"exc_nodes": "gpu1"},
        {"array_inx": "1-4"}, {"priority": 0}, {"het_job_offset": 1},
    ],
)  # fmt: skip
def test_a_job_whose_user_has_said_when_or_where_does_not_wait(config: Path, wish: dict[str, object]) -> None:
    assert begins_in(config, SHARES, {**GPU, **wish}, now()) is None


def test_a_directory_in_its_place_is_no_heartbeat(config: Path) -> None:
    (config.parent / "heartbeat").mkdir()
    assert begins_in(config, SHARES, GPU, None) is None
