"""bench model: the simulator's speed is of its own run, with profiles learned before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.emulator import model
from bench.recordings import recordings


@pytest.mark.takes_seconds
def test_every_policy_has_a_figure_for_each_round(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def play(scenario: object, policy: str) -> int:
        played.append(policy)
        return original(scenario, policy)

    original = model.simulator.play
    monkeypatch.setattr(model, "recordings", lambda _: recordings(traces))
    monkeypatch.setattr(model.simulator, "play", play)
    monkeypatch.setattr(model, "ROUNDS", 2)
    speeds = model._simulated()
    assert list(speeds) == list(model.POLICIES)
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in speeds.values())
    assert [played.count(policy) for policy in model.POLICIES] == [
        2 * 3
    ] * 3  # pairs of two recordings, one round to warm up
