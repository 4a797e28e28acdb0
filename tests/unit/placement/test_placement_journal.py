"""The agent's note of what is set: whose it is, who may write it, and who takes back what is set when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fikit.commands import place
from fikit.placement.agent import Agent
from fikit.placement.journal import LOCK, NAME, Journal
from fikit.placement.plan import NOTHING, Mark
from test_placement_agent import SETTINGS, Fake, Known, agent, job

OTHER = 12345
PINNED = Mark(300, "", "a", "g1", 4)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """The Slurm of the commands that `place` runs."""
    slurm = Fake()
    monkeypatch.setattr(place, "Commands", lambda: slurm)
    monkeypatch.setattr(place, "_can_order", lambda stop: not stop.is_set())
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    monkeypatch.setenv("FIKIT_CONFIG", str(tmp_path / "fikit.toml"))
    (tmp_path / "fikit.toml").write_text('[placement]\nmode = "order"\n')
    return slurm


def called(directory: Path, what: str) -> Result:
    return CliRunner().invoke(place.command, [what, "--state", str(directory)])


def test_what_an_agent_that_runs_has_set_is_not_taken_back(tmp_path: Path, asked: Fake) -> None:
    Journal(tmp_path).save({1: PINNED})
    asked.queue = [job(1, wants="a")]
    with Journal(tmp_path).held():
        said = called(tmp_path, "--clear")
        assert (said.exit_code, asked.calls) == (0, [])
        assert "an agent runs" in said.output
    assert "taken back from 1 jobs" in called(tmp_path, "--clear").output
    assert asked.site[1] == NOTHING


def test_a_second_agent_does_not_steer(tmp_path: Path, asked: Fake) -> None:
    with Journal(tmp_path).held():
        said = called(tmp_path, "--daemon")
    assert said.exit_code != 0
    assert "another agent runs" in said.output
    assert asked.calls == []


def test_a_lock_that_cannot_be_had_stops_no_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with Journal(tmp_path).held() as ours:
        assert ours
    assert "nothing keeps a second agent away" in caplog.text
    with Journal(tmp_path / "missing").held() as ours:
        assert ours


def test_a_job_that_is_requeued_when_no_agent_runs_is_let_go(tmp_path: Path) -> None:
    """It runs where it was put when its agent ends; put back into the queue, it asks for that GPU again."""
    slurm = Fake(job(1, state="RUNNING", type="g1"))
    Journal(tmp_path).save({1: PINNED})
    assert Agent(slurm, Known(), Journal(tmp_path), SETTINGS).clear()
    assert slurm.site == {}
    slurm.queue = [job(1, wants="a", type="g1")]
    assert Agent(slurm, Known(), Journal(tmp_path), SETTINGS).clear()
    assert (slurm.site[1], slurm.last[1].before.node, slurm.last[1].before.type) == (NOTHING, "a", "g1")
    assert Journal(tmp_path).load() == {}


def test_a_clear_says_what_still_runs_where_it_was_put(tmp_path: Path, asked: Fake) -> None:
    Journal(tmp_path).save({1: PINNED})
    asked.queue = [job(1, state="RUNNING")]
    assert called(tmp_path, "--clear").output.strip() == "taken back from 0 jobs; 1 run where they were put"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("what", ["another user's", "a link to it"])
def test_a_forged_journal_sets_nothing(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """Or any user could have a job's request changed by whoever may."""
    state, forged = tmp_path / "state", tmp_path / "forged"
    for directory in (state, forged):
        directory.mkdir()
    Journal(forged).save({1: PINNED})
    if what == "another user's":
        (forged / NAME).rename(state / NAME)
        os.chown(state / NAME, OTHER, OTHER)
    else:
        (state / NAME).symlink_to(forged / NAME)
    slurm = Fake(job(1))
    steering = agent(slurm, state)
    assert steering.marks == {}
    assert "is not believed" in caplog.text
    assert steering.clear()
    assert slurm.site == {}
