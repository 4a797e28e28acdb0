"""`pair`: on which GPU a waiting job goes, or for whom it waits, each situation as one literal; and what becomes of it from look to look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fikit.placement import pairing
from fikit.placement.agent import Agent
from fikit.placement.jobs import Job
from fikit.placement.journal import Journal
from fikit.placement.pair import Board, Decision, Gpu, Sharer, decide
from fikit.placement.pairing import PINNED_S, Pairing, Place
from fikit.placement.plan import NOTHING, Mark, Settings
from fikitd.api.outcomes import name_key
from fikitd.gpus.placement import Device, Slowdowns
from fikitd.history import JobHistory
from fikitd.history.pairs import Pair
from test_placement_agent import Fake, Known

ALL = frozenset({"all"})
G0, G1 = Gpu("a", "g0", 16, ALL), Gpu("a", "g1", 16, ALL)
OTHER = Gpu("b", "g0", 16, frozenset({"other"}))


def sharer(job: int, rest_s: float, busy: float = 0.5, shards: int = 4) -> Sharer:
    return Sharer(job, rest_s, busy, shards, ALL)


@dataclass(frozen=True)
class Situation:
    name: str
    waiting: tuple[Sharer, ...]
    there: dict[Gpu, list[Sharer]]
    decisions: tuple[Decision, ...]
    taken: frozenset[Gpu] = frozenset()


SITUATIONS = (
    Situation("an idle GPU before all", (sharer(9, 100),), {G0: [sharer(1, 100)]}, (Decision(9, on=G1),)),
    Situation("two that come at once are apart", (sharer(8, 100), sharer(9, 100)), {}, (Decision(8, on=G0), Decision(9, on=G1))),
    Situation(
        "beside the one that leaves it most", (sharer(9, 2000, 0.9),), {G0: [sharer(1, 1000, 0.9)], G1: [sharer(2, 1000, 0.1)]},
        (Decision(9, on=G1),),
    ),
    Situation(
        "it waits for the GPU that is free in a moment", (sharer(9, 1000, 1.0),), {G0: [sharer(1, 10, 1.0)], G1: [sharer(2, 900, 1.0)]},
        (Decision(9, waits_for=(1,), until_s=10.0),),
    ),
    Situation(
        "an idle GPU, though sharing would save the time of one", (sharer(9, 100, 0.1),), {G0: [sharer(1, 100, 0.1)]}, (Decision(9, on=G1),)
    ),
    Situation(
        "the next one does not wait for the same GPU", (sharer(8, 1000, 1.0), sharer(9, 1000, 0.6)),
        {G0: [sharer(1, 10, 1.0)], G1: [sharer(2, 900, 0.7)]}, (Decision(8, waits_for=(1,), until_s=10.0), Decision(9, on=G1)),
    ),
    Situation("without room Slurm decides", (sharer(9, 100, 0.5, 16),), {G0: [sharer(1, 10)], G1: [sharer(2, 10)]}, (Decision(9),)),
    Situation("a GPU that somebody has alone is none", (sharer(9, 100),), {}, (Decision(9, on=G1),), frozenset({G0})),
    Situation("of jobs of which nothing is known nobody waits", (sharer(9, float("inf"), 1.0),), {G0: [sharer(1, float("inf"), 1.0)], G1: [sharer(2, float("inf"), 1.0)]}, (Decision(9),)),
)  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_situation(situation: Situation) -> None:
    board = Board([G0, G1, OTHER], {gpu: list(jobs) for gpu, jobs in situation.there.items()}, set(situation.taken))
    assert tuple(decide(situation.waiting, board, Slowdowns())) == situation.decisions


def test_another_partitions_gpu_is_none() -> None:
    assert list(decide([sharer(9, 100)], Board([OTHER]), Slowdowns())) == [Decision(9)]


NOW = 1_700_000_000.0
SETTINGS = Settings(max_wait_s=3600.0, span=1000)


class Nodes:
    """Two GPUs, and who is where."""

    def __init__(self, **where: str) -> None:
        self.where = {int(job.removeprefix("job")): place for job, place in where.items()}
        self.asked: list[set[int]] = []

    def gpus(self) -> list[Gpu]:
        return [G0, G1]

    def places(self, numbers: Iterable[int]) -> dict[int, list[Place]]:
        self.asked.append(set(numbers))
        return {job: [Place("a", self.where[job], alone=False)] if job in self.where else [] for job in numbers}


def waiting(number: int, limit_s: float = 600.0, **changed: Any) -> Job:
    job = Job(
        number,
        str(number),
        1000,
        "x",
        "PENDING",
        NOW - 1,
        NOW + 3,
        limit_s,
        4,
        partitions=ALL,
        reason="BeginTime",
        has_gpu=True,
    )
    return replace(job, **changed)


def running(number: int, limit_s: float = 600.0, **changed: Any) -> Job:
    job = Job(
        number, str(number), 1000, "x", "RUNNING", NOW - 100, NOW, limit_s, 4, partitions=ALL, nodes="a", has_gpu=True
    )
    return replace(job, **changed)


@dataclass
class Scene:
    """An agent that pairs, its Slurm, and two clocks."""

    slurm: Fake
    nodes: Nodes
    directory: Path
    elapsed_s: float = 0.0

    def __post_init__(self) -> None:
        # Two that fill a GPU take turns and lose by it: what waits is decided by the times alone.
        pairing = Pairing(self.nodes, Device.SLICES, lambda: self.elapsed_s)
        self.agent = Agent(
            self.slurm, Known(), Journal(self.directory), SETTINGS, pairing=pairing, heartbeat=self.directory / "heartbeat",
            clock=lambda: NOW + self.elapsed_s,
        )  # fmt: skip

    def round(self) -> None:
        assert self.agent.round()

    def become(self, *queue: Job) -> None:
        self.slurm.queue = list(queue)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is known: jobs keep a GPU busy all of the time."""
    monkeypatch.setattr(JobHistory, "usual_busy", lambda self: 1.0)


def test_a_job_at_the_gate_is_given_a_gpu_and_begins(tmp_path: Path) -> None:
    scene = Scene(Fake(waiting(9), running(1)), Nodes(job1="g0"), tmp_path)
    scene.round()
    assert (scene.slurm.site[9].node, scene.slurm.site[9].type, scene.slurm.site[9].shards) == ("a", "g1", 4)
    assert scene.slurm.begun == {9}
    assert (tmp_path / "heartbeat").read_text().strip().isdecimal()


@pytest.mark.parametrize("bad", ["g0", "g1"])
def test_a_job_goes_beside_the_one_that_earlier_runs_were_slowed_by_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """By the closed form the two are the same."""
    good = "g1" if bad == "g0" else "g0"
    own, other, worst = ((1000, name_key(name)) for name in ("x", "good", "bad"))
    pairs = {
        Pair(one, two, standing): slowdown
        for who, slowdown in ((other, 1.0), (worst, 6.0))
        for one, two in ((own, who), (who, own))
        for standing in ("above", "equal", "below")
    }
    monkeypatch.setattr(pairing, "learn", lambda outcomes: pairs)
    there = running(1, name="bad", limit_s=6000.0), running(2, name="good", limit_s=6000.0)
    scene = Scene(Fake(waiting(9, 6000), *there), Nodes(job1=bad, job2=good), tmp_path)
    scene.round()
    assert scene.slurm.site[9].type == good


def test_who_runs_where_is_asked_once(tmp_path: Path) -> None:
    scene = Scene(Fake(running(1)), Nodes(job1="g0"), tmp_path)
    scene.round()
    scene.round()
    assert scene.nodes.asked == [{1}]


def test_a_job_waits_for_one_that_ends_soon_and_its_owner_sees_for_which(tmp_path: Path, busy: None) -> None:
    scene = Scene(Fake(waiting(9, 1000), running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path)
    scene.round()
    mark = scene.slurm.site[9]
    assert (mark.waits_for, mark.comment) == ((1,), f"fikit:waits,for=1,until~{NOW + 10:.0f}")
    held = waiting(9, 1000, reason="Dependency", start_s=0.0, dependency="afterany:1(unfulfilled)")
    scene.become(held, running(1, 10), running(2, 900))
    scene.slurm.calls.clear()
    scene.round()
    assert "update" not in scene.slurm.calls, "said once"
    scene.become(replace(held, dependency="", reason="None"), running(2, 900))
    scene.round()
    assert (scene.slurm.site[9].type, scene.slurm.site[9].waits_for, scene.slurm.site[9].comment) == ("g0", (), "")


def test_a_partner_that_ends_in_the_middle_of_a_decision_is_waited_for_by_nobody(tmp_path: Path, busy: None) -> None:
    """It was there when the queue was read; Slurm refuses the dependency, and the job begins at its moment."""
    scene = Scene(Fake(waiting(9, 1000), running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path)
    scene.slurm.refuses = {9}
    scene.round()
    assert 9 not in scene.agent.marks
    scene.become(waiting(9, 1000, reason="None", start_s=0.0), running(2, 900))
    scene.round()
    assert 9 not in scene.slurm.site


def test_an_owner_who_clears_the_dependency_is_obeyed(tmp_path: Path, busy: None) -> None:
    scene = Scene(Fake(waiting(9, 1000), running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path)
    scene.round()
    scene.become(waiting(9, 1000, reason="None", start_s=0.0), running(1, 10), running(2, 900))
    for _ in range(3):
        scene.round()
    assert scene.slurm.site[9].waits_for == ()
    assert scene.slurm.site[9].node == ""


def test_a_job_that_does_not_begin_on_its_gpu_may_have_any(tmp_path: Path) -> None:
    """Its node went down, or has no CPU left."""
    scene = Scene(Fake(waiting(9)), Nodes(), tmp_path)
    scene.round()
    assert scene.slurm.site[9].node == "a"
    scene.become(waiting(9, reason="ReqNodeNotAvail", start_s=0.0, wants="a", type="g0"))
    scene.elapsed_s = PINNED_S - 1
    scene.round()
    assert scene.slurm.site[9].node == "a"
    scene.elapsed_s = PINNED_S + 1
    scene.round()
    assert (scene.slurm.site[9].node, scene.slurm.site[9].type) == ("", "")
    scene.become(waiting(9, reason="Resources", start_s=0.0))
    scene.round()
    assert scene.slurm.site[9].node == "", "it is Slurm's from then on"


def test_a_gpu_that_was_given_is_taken_for_those_behind(tmp_path: Path) -> None:
    scene = Scene(Fake(waiting(8)), Nodes(), tmp_path)
    scene.round()
    assert scene.slurm.site[8].type == "g0"
    scene.become(waiting(8, reason="None", start_s=0.0, wants="a", type="g0"), waiting(9))
    scene.round()
    assert scene.slurm.site[9].type == "g1"


def test_a_job_that_names_a_type_itself_only_begins(tmp_path: Path) -> None:
    scene = Scene(Fake(waiting(9, type="g1")), Nodes(), tmp_path)
    scene.round()
    assert scene.slurm.begun == {9}
    assert scene.slurm.site[9].node == ""


def test_nobody_who_has_waited_long_is_made_to_wait(tmp_path: Path, busy: None) -> None:
    old = waiting(9, 1000, submit_s=NOW - 7200, start_s=NOW - 7196)
    scene = Scene(Fake(old, running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path)
    scene.round()
    assert scene.slurm.site[9].waits_for == ()


def test_a_killed_agent_leaves_no_wait_behind(tmp_path: Path, busy: None) -> None:
    scene = Scene(
        Fake(waiting(9, 1000), waiting(8, 500), running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path
    )
    scene.round()
    waits = [number for number, mark in scene.slurm.site.items() if mark.waits_for]
    assert waits
    scene.become(
        *(waiting(number, reason="Dependency", start_s=0.0, dependency="afterany:1(unfulfilled)") for number in waits),
        running(1, 10),
    )
    after = Agent(scene.slurm, Known(), Journal(tmp_path), SETTINGS)
    assert after.clear()
    assert all(scene.slurm.site[number] == NOTHING for number in waits)


def test_a_dependency_that_its_owner_has_put_there_instead_is_not_taken_back(tmp_path: Path, busy: None) -> None:
    scene = Scene(Fake(waiting(9, 1000), running(1, 10), running(2, 900)), Nodes(job1="g0", job2="g1"), tmp_path)
    scene.round()
    scene.become(
        waiting(9, 1000, reason="Dependency", start_s=0.0, dependency="afterok:77(unfulfilled)"),
        running(1, 10),
        running(2, 900),
    )
    scene.round()
    assert scene.slurm.last[9].before.waits_for == (), "no Dependency= is told"
    assert scene.slurm.site[9] == NOTHING


def test_a_job_that_runs_keeps_its_gpu_and_is_known_if_it_starts_again(tmp_path: Path) -> None:
    scene = Scene(Fake(waiting(9)), Nodes(job9="g0"), tmp_path)
    scene.round()
    scene.become(running(9, type="g0"))
    scene.round()
    assert scene.slurm.last[9].after.type == scene.slurm.last[9].before.type, (
        "Slurm refuses to change the GPU of a job that runs"
    )
    assert scene.agent.clear()
    assert Journal(tmp_path).load()[9].node == "a"
    assert not (tmp_path / "heartbeat").exists()


def test_without_a_place_for_its_heartbeat_it_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(Fake(), Nodes(), tmp_path)
    scene.agent._heartbeat = tmp_path / "missing" / "heartbeat"
    scene.round()
    assert "jobs start before it is decided where" in caplog.text


def test_marks_are_kept_whole(tmp_path: Path) -> None:
    marks = {7: Mark(-5, "fikit:waits,for=1,until~2", "a", "g1", 4, (1, 2))}
    Journal(tmp_path).save(marks)
    assert Journal(tmp_path).load() == marks
