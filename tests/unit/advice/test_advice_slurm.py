"""What `fikit advise` reads: batch scripts, squeue's and scontrol's answers, whatever somebody calls a job."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
from fikit.advice import batches, gather, script, slurm, words
from fikit.errors import UserError
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = 'ev il\nJobId=99 JobName=x Nodes=n1 CPU_IDs=0 Mem=0 GRES=shard:h200:99(IDX:1) <>|"\x1b[2J'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("10:30", 630), ("1:00:00", 3600), ("2-12", 216_000), ("2-12:30", 217_800), ("2-12:30:15", 217_815),
        ("UNLIMITED", inf), ("infinite", inf), ("0:00", 0),
    ],
)  # fmt: skip
def test_slurms_times(text: str, seconds: float) -> None:
    assert words.seconds(text) == seconds


@given(st.text(max_size=30))
def test_whatever_a_time_is_it_is_one_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert words.seconds(text) >= 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gres:gpu:1", [("gpu", "", 1, None)]), ("gres/gpu:h200:2", [("gpu", "h200", 2, None)]), ("gres/shard=4", [("shard", "", 4, None)]),
        ("gpu", [("gpu", "", 1, None)]), ("gpu:1g.18gb:1,license:3,shard:h200:282", [("gpu", "1g.18gb", 1, None), ("shard", "h200", 282, None)]),
        ("shard:h200:4(IDX:1)", [("shard", "h200", 4, [1])]), ("gpu:a:2(IDX:0-1,3)", [("gpu", "a", 2, [0, 1, 3])]),
        ("gpu:h200:4(S:0-1)", [("gpu", "h200", 4, [0, 1])]), ("shard:4(0/16,4/16)", [("shard", "", 4, [1])]), ("craynetwork:1", []), ("", []), ("N/A", []),
    ],
)  # fmt: skip
def test_requests_for_gpus(text: str, found: list[Any]) -> None:
    assert words.gres(text) == found


@given(st.text(alphabet="gpushardres:/=(IDX)-,0123456789h.", max_size=60))
def test_whatever_a_request_is_counts_are_numbers(text: str) -> None:
    for kind, _, count, where in words.gres(text):
        assert kind in ("gpu", "shard")
        assert 0 <= count < 10**6
        assert where is None or (len(where) <= 64 and all(0 <= index < 10_064 for index in where))


def test_a_script_is_read_as_sbatch_reads_it(tmp_path: Path) -> None:
    text = """#!/bin/bash
#SBATCH --gres=gpu:1 --fikit-priority=low   # with a remark
#SBATCH -J "my job" -t1:00:00
#SBATCH --fikit-mem 20G --mail-user x@y --unknown=3
#SBATCH --fikit-measure
##SBATCH --time=5
 #SBATCH --time=6
#SBATCH "unfinished
python train.py --batch-size 64
#SBATCH --time=7
"""
    path = tmp_path / "j.sh"
    path.write_text(text)
    assert script.options(script.read(path)) == {
        "gres": "gpu:1", "fikit-priority": "low", "job-name": "my job", "time": "1:00:00", "fikit-mem": "20G", "fikit-measure": "",
    }  # fmt: skip
    assert batches.in_script(text) == 64


def test_options_beat_the_environment() -> None:
    asked = script.with_environment(
        {"fikit-priority": "low"}, {"FIKIT_PRIORITY": "high", "FIKIT_MEM": "2G", "FIKIT_OTHER": "x"}
    )
    assert asked == {"fikit-priority": "low", "fikit-mem": "2G"}


@given(st.text(max_size=200))
def test_whatever_stands_in_a_script_it_can_be_read(text: str) -> None:
    for name, value in script.options("#SBATCH " + text).items():
        assert name in script.WITH_VALUE | script.FLAGS
        assert isinstance(value, str)


@pytest.mark.parametrize("fault", ["absent", "directory", "large", "endless"])
def test_a_script_that_is_none_is_one_sentence(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "j.sh"
    if fault == "directory":
        path.mkdir()
    elif fault == "large":
        path.write_bytes(b"#" * (script.MOST_BYTES + 1))
    elif fault == "endless":
        path.symlink_to(path)
    with pytest.raises(UserError, match="cannot be read as a batch script"):
        script.read(path)


def row(**fields: str) -> str:
    usual = {
        "job": "1", "uid": "1000", "state": "RUNNING", "partition": "all", "elapsed": "10:00", "limit": "1:00:00", "start": "1790000000",
        "nodes": "n1", "gres": "gres:shard:4", "reason": "None", "priority": "0.5", "name": "train",
    }  # fmt: skip
    return "".join(f"{value}<s>" for value in {**usual, **fields}.values()) + "\n"


def test_a_row_of_squeue() -> None:
    (job,) = slurm.parsed(row(nodes="n[1-2]", limit="UNLIMITED"), "<s>")
    assert (job.job, job.uid, job.elapsed_s, job.limit_s, job.nodes, job.shards, job.gpus) == (
        "1",
        1000,
        600,
        inf,
        ("n1", "n2"),
        4,
        0,
    )
    assert job.runs


@given(st.text(max_size=60))
def test_a_name_makes_no_rows_and_hides_none(name: str) -> None:
    text = row(name=name + HOSTILE + row(job="99", uid="0").replace("<s>", "<guess>")) + row(job="2")
    assert [(job.job, job.uid) for job in slurm.parsed(text, "<s>")] == [("1", 1000), ("2", 1000)]


def test_rows_that_are_none_are_left_out_and_an_uneven_answer_is_none() -> None:
    text = (
        row(job="x")
        + row(limit="soon")
        + row(priority="high")
        + row(job="7", state="COMPLETED")
        + row(job="8", start="N/A", nodes="")
    )
    assert [(job.job, job.start, job.nodes) for job in slurm.parsed(text, "<s>")] == [("8", None, ())]
    with pytest.raises(UserError, match="number of fields"):
        slurm.parsed(row() + "1<s>", "<s>")


@given(st.lists(st.text(max_size=20), min_size=len(slurm.FIELDS), max_size=len(slurm.FIELDS)))
def test_whatever_the_fields_hold_numbers_are_within_bounds(fields: list[str]) -> None:
    for job in slurm.parsed(
        "".join(f"{field}<s1>" for field in fields if "<s1>" not in field)
        + "<s1>" * sum("<s1>" in field for field in fields),
        "<s1>",
    ):
        assert job.elapsed_s >= 0
        assert job.limit_s >= 0


def test_devices_are_taken_only_where_they_are_said_for_each_node() -> None:
    (job,) = slurm.parsed(row(nodes="n[1-2]", gres="gres:gpu:2"), "<s>")
    assert slurm.devices(job, ["gpu:h200:2(IDX:0-1)", "gpu:h200:1(IDX:3)"]) == [
        ("n1", 0, "gpu", 0),
        ("n1", 1, "gpu", 0),
        ("n2", 3, "gpu", 0),
    ]
    (shared,) = slurm.parsed(row(), "<s>")
    assert slurm.devices(shared, ["shard:h200:4(4/141,0/141)"]) == [("n1", 0, "shard", 4)]
    assert slurm.devices(shared, ["shard:h200:4(2/141,2/141)"]) == [("n1", 0, "shard", 2), ("n1", 1, "shard", 2)]
    for wrong in (["gpu:h200:2(IDX:0-1)"], None, "gpu", [1, 2], ["gpu:h200:2", "gpu:h200:2"]):
        assert slurm.devices(job, wrong) == []


def test_scontrol_is_believed_only_where_it_says_one_thing() -> None:
    line = "Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=shard:h200:4(IDX:0)"
    assert slurm.of_scontrol(f"JobId=1 JobName=a\n   JOB_GRES=shard:h200:4\n     {line}\n") == ["shard:h200:4(IDX:0)"]
    assert slurm.of_scontrol(f"JobId=1 JobName={HOSTILE}\n     {line}\n") == []
    assert slurm.of_scontrol("JobId=1") == []


def test_json_is_asked_first_and_scontrol_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = slurm.parsed(row() + row(job="2", name=HOSTILE) + row(job="3", state="PENDING", nodes=""), "<s>")
    asked = []

    def answer(*command: str) -> str:
        asked.append(command[0])
        if command[0] == "squeue" and json_there:
            return '{"jobs": [{"job_id": 1, "gres_detail": ["shard:h200:4(IDX:1)"]}, {"job_id": 2, "gres_detail": ["gpu:h200:1(IDX:0)"]}]}'
        if command[0] == "squeue":
            raise UserError("squeue: unrecognized option '--json'")
        return f"JobId=1 JobName={HOSTILE if command[-1] == '2' else 'a'}\n Nodes=n1 CPU_IDs=0 Mem=0 GRES=shard:h200:4(IDX:1)\n"

    monkeypatch.setattr(slurm, "answer", answer)
    json_there = True
    assert slurm.held(jobs) == {"1": [("n1", 1, "shard", 4)], "2": [("n1", 0, "gpu", 0)]}
    assert asked == ["squeue"]
    json_there = False
    assert slurm.held(jobs) == {"1": [("n1", 1, "shard", 4)]}, (
        "whose answer says two things has no device that is known"
    )


NODE = {"nodename": "n1", "gres": "gpu:h200:2,shard:h200:282", "state": "MIXED", "partitions": "all,debug"}


def test_nodes_of_a_partition_that_work() -> None:
    partitions = [{"partitionname": "all", "default": "YES"}, {"partitionname": "other", "default": "NO"}]
    bad = [{**NODE, "state": state} for state in ("DOWN", "IDLE+DRAIN", "IDLE*", "MAINT+IDLE", "DOWN*")]
    assert slurm.nodes_of(partitions, [NODE, *bad, {**NODE, "partitions": "other"}], "") == ("all", [NODE])
    assert slurm.nodes_of(partitions, [NODE], "other") == ("other", [])
    with pytest.raises(UserError, match='no partition "gpu": name one of all, other'):
        slurm.nodes_of(partitions, [NODE], "gpu")


def test_the_gpus_of_a_node_with_their_shards() -> None:
    assert slurm.gpus_of(NODE) == [("h200", 141), ("h200", 141)]
    assert slurm.gpus_of({"gres": "gpu:a:1,gpu:b:2,shard:a:10,shard:b:40"}) == [("a", 10), ("b", 20), ("b", 20)]
    assert slurm.gpus_of({"gres": "gpu:2,shard:32"}) == [("", 16), ("", 16)]
    assert slurm.gpus_of({"gres": "gpu:h200:1"}) == [("h200", 0)], "without shards nobody shares it"
    assert slurm.gpus_of({"gres": "(null)"}) == []


@pytest.mark.parametrize(
    ("options", "wrong"),
    [({"time": "soon"}, "not a time"), ({"fikit-priority": "urgent"}, "not known"), ({"fikit-mem": "much"}, "not a size"), ({}, "asks for no GPU")],
)  # fmt: skip
def test_a_request_that_is_none_is_one_sentence(options: dict[str, str], wrong: str) -> None:
    with pytest.raises(UserError, match=wrong):
        gather.request_of(options, Path("j.sh"), "all")


def test_what_a_script_asks_for() -> None:
    request = gather.request_of(
        {"gres": "gpu:h200:1", "fikit-priority": "low", "fikit-mem": "1500M"}, Path("/x/j.sh"), "all"
    )
    assert (request.name, request.type, request.shards, request.shards_source, request.shares, request.priority) == (
        "j.sh",
        "h200",
        2,
        "asked",
        True,
        8,
    )
    assert request.options == ("--fikit-priority", "--fikit-mem")
    for text, highest in (("auto", 5), ("auto:low-high", 1)):
        assert gather.request_of({"gres": "gpu:1", "fikit-priority": text}, Path("j.sh"), "all").priority == highest
    alone = gather.request_of({"gpus": "1", "fikit-measure": ""}, Path("j.sh"), "all")
    assert (alone.shares, alone.gpus) == (False, 1)
    assert gather.request_of({"gres": "shard:7"}, Path("j.sh"), "all").shards == 7


def test_batches_of_commands() -> None:
    assert batches.of_command(["python", "train.py", "--batch-size", "64"]) == 64
    assert batches.of_command(["train", "--batch_size=32"]) == 32
    assert batches.of_command(["train", "--per_device_train_batch_size", "8"]) == 8
    for none in (
        ["train"],
        ["train", "--batch-size", "big"],
        ["train", "--batch-size"],
        ["train", "-b", "0"],
        ["x", "--beta", "3"],
    ):
        assert batches.of_command(none) is None


@pytest.mark.starts_processes
def test_why_a_command_of_slurms_failed_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 'squeue: fatal: no configuration' >&2\nexit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(squeue))
    with pytest.raises(UserError, match=r"not known: squeue: no configuration\Z"):
        slurm.answer("squeue")
