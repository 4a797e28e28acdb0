"""What the placement agent reads of Slurm: rows of squeue, which users can write into, and AdminComments."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from fikit.placement import commands, jobs
from fikit.placement.commands import Commands, SlurmError
from fikit.placement.jobs import Job
from fikit.placement.pair import Gpu
from fikit.placement.pairing import Place
from fikit.placement.plan import NOTHING, Change, Mark

MARK = "0123abcd"


def row(number: int = 7, name: str = "train", **changed: str) -> str:
    """As squeue prints it under 22.05."""
    fields = {
        "A": str(number), "F": str(number), "i": str(number), "U": "1000", "T": "PENDING", "V": "1700000000", "S": "N/A", "l": "30:00", "E": "(null)",
        "n": "", "x": "", "b": "gres:shard:4", "D": "1", "Q": "12", "v": "(null)", "P": "all", "N": "", "r": "Priority", "j": name, **changed,
    }  # fmt: skip
    return f"{MARK}|{'|'.join(fields[key] for key in jobs.FIELDS)}\n"


def only(text: str) -> Job:
    (job,) = jobs.parse(text, MARK)
    return job


def test_a_row_is_a_job() -> None:
    assert only(row()) == Job(
        number=7, shown="7", uid=1000, name="train", state="PENDING", submit_s=1.7e9, limit_s=1800.0, shards=4, priority=12, reason="Priority", partitions=frozenset({"all"}), has_gpu=True
    )  # fmt: skip
    assert jobs.squeue_format(MARK).count("%") == len(jobs.FIELDS)


@pytest.mark.parametrize(
    ("gres", "shards"),
    [("gres:shard:4", 4), ("gres/shard:4", 4), ("gres/shard:h200:16", 16), ("gres:gpu:1", 0), ("gres/shard=4", 4), ("gres/shard:4,gres/gpu:1", 0), ("N/A", 0)],
)  # fmt: skip
def test_shards_as_every_release_writes_them(gres: str, shards: int) -> None:
    assert only(row(b=gres)).shards == shards


@pytest.mark.parametrize(
    ("text", "seconds"), [("30:00", 1800), ("1:00:00", 3600), ("2-01:00:05", 176_405), ("UNLIMITED", inf), ("INVALID", inf), ("", inf)]
)  # fmt: skip
def test_time_limits(text: str, seconds: float) -> None:
    assert jobs.limit_s(text) == seconds


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"E": "afterany:3(unfulfilled)"}, "it has a dependency of its own"),
        ({"v": "course"}, "it is for a reservation"),
        ({"n": "gpu1"}, "it names nodes"),
        ({"x": "gpu1"}, "it names nodes"),
        ({"D": "2"}, "it is for several nodes"),
        ({"i": "7_[1-9%2]"}, "its array has a limit of its own"),
        ({"i": "7+0"}, "it is a component of a heterogeneous job"),
        ({"r": "JobHeldUser", "D": "0", "Q": "0"}, "it is held"),
    ],
)
def test_jobs_that_are_left_alone(changed: dict[str, str], why: str) -> None:
    job = only(row(**changed))
    assert job.left_alone() == why
    assert only(row()).left_alone() == ""


def test_waiting_tasks_of_an_array_are_the_array_and_a_running_one_is_itself() -> None:
    assert only(row(9, F="7", i="7_[2-9]")).number == 7
    assert only(row(9, F="7", i="7_1", T="RUNNING")).number == 9


def test_a_name_cannot_make_a_row() -> None:
    """A line break, the separator, a whole row of another job: all of it is the name."""
    name = "x\n" + row(8, "forged").removeprefix(f"{MARK}|") + "|y"
    found = jobs.parse(row(7, name) + row(8, "honest"), MARK)
    assert [(job.number, job.name) for job in found] == [(7, name), (8, "honest")]


@pytest.mark.parametrize("changed", [{"A": "x"}, {"U": "-1"}, {"V": "Unknown"}, {"D": ""}])
def test_a_row_that_is_none_is_left_out(changed: dict[str, str]) -> None:
    assert [job.number for job in jobs.parse(row(7, **changed) + row(8), MARK)] == [8]


class Told:
    """In place of Slurm's programs: what they were told, and what they answer: to `show job N` `shown[N]`, and `errors`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shown: dict[int, str] | None = None, errors: str = "") -> None:
        self.shown, self.errors = shown or {}, errors
        self.lines: list[str] = []
        monkeypatch.setattr(commands, "_run", self._run)

    def _run(self, command: Sequence[str], told: str) -> tuple[str, str]:
        self.lines += told.splitlines()
        return "".join(map(self._answer, told.splitlines())), self.errors

    def _answer(self, line: str) -> str:
        """With what scontrol writes before it."""
        *what, which = line.split()
        out = f"{which}\n" if what == ["show", "hostnames"] else ""
        if what == ["show", "job"]:
            out = self.shown.get(int(which), "")
        return f"scontrol: {line}\n{out}"


def change(job: int, factor: int, comment: str = "", before: Mark = NOTHING) -> Change:
    return Change(job, before, Mark(factor, comment), "")


def test_only_what_changes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch)
    both, factor, comment = change(3, 10, "fikit:order"), change(4, -5), change(5, 7, "", Mark(7, "fikit:order"))
    assert Commands().update([both, factor, comment]) == set()
    assert told.lines == [
        "update JobId=3 SiteFactor=10 AdminComment=fikit:order", "update JobId=4 SiteFactor=-5", "update JobId=5 AdminComment=", "quit",
    ]  # fmt: skip


def test_a_job_that_slurm_refuses_is_named_and_another_complaint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, errors="Invalid job id specified for job 4\n")
    assert Commands().update([change(3, 1), change(4, 1)]) == {4}
    told.errors += "slurm_update error: Unable to contact slurm controller (connect failure)\n"
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        Commands().update([change(3, 1), change(4, 1)])


def shown(job: int, comment: str | None, name: str = "x", array: str = "") -> str:
    said = "" if comment is None else f" AdminComment={comment}"
    return f"JobId={job} {array}JobName={name} UserId=a(1000) Priority=1 Command=/x WorkDir=/tmp{said} StdErr=/dev/null \n\n"


def test_somebody_elses_comment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {1: None, 2: "", 3: "fikit:order,expected_s=5", 4: "JS1:abc", 5: "fikit:gpu_s=1.2"}
    Told(monkeypatch, {job: shown(job, comment) for job, comment in said.items()})
    assert Commands().commented([1, 2, 3, 4, 5, 6]) == {4, 5, 6}, "of 6 Slurm knows nothing"
    assert Commands().notes([1, 2, 3, 4]) == {3: "fikit:order,expected_s=5"}


@pytest.mark.parametrize(
    "name", ["a AdminComment=fikit:order", "a\nb", f"a\n{shown(1, 'fikit:order')}", "a\nscontrol: show job 1\nx"]
)
def test_a_name_does_not_hide_a_comment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    Told(monkeypatch, {1: shown(1, "the site's"), 2: shown(2, "the site's", name), 3: shown(3, None)})
    assert Commands().commented([1, 2, 3]) == {1, 2}


def test_the_tasks_of_an_array_are_asked_about_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(7, "fikit:order", array="ArrayJobId=7 ") + shown(8, "mine", array="ArrayJobId=7 ArrayTaskId=1 ")
    Told(monkeypatch, {7: out})
    assert Commands().commented([7]) == {7}


def test_what_the_agent_has_set_itself_is_no_wish_of_the_owners() -> None:
    ours = only(row(E="afterany:3(unfulfilled)?afterany:4(unfulfilled)", n="gpu1"))
    assert ours.left_alone((3, 4, 5), "gpu1") == ""
    assert ours.left_alone((3,), "gpu1") == "it has a dependency of its own"
    assert ours.left_alone((3, 4), "gpu2") == "it names nodes"


def test_a_job_waits_at_the_gate_when_its_moment_is_the_gates() -> None:
    gate = {"r": "BeginTime", "V": "1700000000"}
    assert only(row(**gate, S="1700000004")).gated
    assert not only(row(**gate, S="1700000100")).gated, "its owner's --begin"
    assert not only(row(V="1700000000", S="1700000004")).gated


NODES = (
    "NodeName=a Arch=x86_64 Gres=gpu:g0:1,gpu:g1:1,shard:g0:16,shard:g1:24(S:0) State=MIXED+PLANNED Partitions=all,short \n"
    "NodeName=b Gres=gpu:h200:2,shard:h200:282 State=IDLE Partitions=all \n"
    "NodeName=c Gres=gpu:g0:1,shard:g0:16 State=IDLE+DRAIN Partitions=all \n"
    "NodeName=d Gres=(null) State=IDLE Partitions=all \n"
)


def test_gpus_with_a_type_of_their_own_of_nodes_that_take_jobs() -> None:
    both = frozenset({"all", "short"})
    assert list(commands._gpus(NODES)) == [Gpu("a", "g0", 16, both), Gpu("a", "g1", 24, both)]


@pytest.mark.parametrize(
    ("gres", "places"),
    [
        ("shard:g0:6(6/16,0/16),shard:g1:0(0/16,0/16)", [Place("vm", "g0", False)]),  # 24.11
        ("shard:g0:0(IDX:),shard:g1:6(IDX:1)", [Place("vm", "g1", False)]),  # 22.05
        ("gpu:g1:1(IDX:1)", [Place("vm", "g1", True)]),
        ("", []),
    ],
)
def test_on_which_gpu_a_job_runs(monkeypatch: pytest.MonkeyPatch, gres: str, places: list[Place]) -> None:
    text = f"JobId=5 JobName=x JOB_GRES=shard:g0:6 Nodes=vm CPU_IDs=0 Mem=0 GRES={gres} MinCPUsNode=1 \n"
    Told(monkeypatch, {5: text})
    assert Commands().places([5]) == {5: places}
    forged = text.replace("JobName=x", "JobName=x Nodes=vm CPU_IDs=0 Mem=0 GRES=shard:g1:1(0/1)")
    Told(monkeypatch, {5: forged})
    assert Commands().places([5]) == {5: []}, "a name that says so is believed"


def test_a_job_is_given_a_gpu_or_told_to_wait_and_both_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch)
    put, waits = Mark(node="a", type="g1", shards=4), Mark(waits_for=(3, 4))
    for before, after, begins in (
        (NOTHING, put, True),
        (put, NOTHING, False),
        (NOTHING, waits, True),
        (waits, NOTHING, False),
    ):
        Commands().update([Change(7, before, after, "", begins)])
    assert [line for line in told.lines if line != "quit"] == [
        "update JobId=7 Gres=shard:g1:4 ReqNodeList=a StartTime=now", "update JobId=7 Gres=shard:4 ReqNodeList=",
        "update JobId=7 Dependency=afterany:3?afterany:4 StartTime=now", "update JobId=7 Dependency=",
    ]  # fmt: skip
