"""`fikit advise`: from a script or a job in the queue to a table, with a Slurm that is made up."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT
from click.testing import CliRunner, Result
from fikit.advice import slurm
from fikit.commands.advise import command
from fikit.errors import UserError
from fikit.slurm import config as slurm_config
from fikit.slurm.config import SlurmConfig
from fikitd.api import outcomes
from fikitd.api.outcomes import HEAD, Outcome, name_key
from fikitd.store import own_directory

SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1 --fikit-priority=low --fikit-mem=4G --time=4:00:00 --job-name=serve
python serve.py --batch-size 64
"""
NODE = {"nodename": "n1", "gres": "gpu:h200:2,shard:h200:32", "state": "MIXED", "partitions": "all"}
HOSTILE = "x\n\x1b[2J<[red]> 99 (root) now"


class MadeUp:
    """A Slurm: jobs by number, each with the fields of squeue and its device."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, str]] = {}
        self.asked: list[tuple[str, ...]] = []

    def runs(self, job: str, device: str, **fields: str) -> None:
        usual = {"uid": "1001", "state": "RUNNING", "partition": "all", "elapsed": "10:00", "limit": "1:00:00", "start": "1790000000", "nodes": "n1",
                 "gres": "gres:shard:4", "reason": "None", "priority": "0.5", "name": "other"}  # fmt: skip
        self.jobs[job] = {**usual, **fields, "device": device}

    def answer(self, *command: str) -> str:
        self.asked.append(command)
        if "--json" in command:
            return json.dumps(
                {"jobs": [{"job_id": int(job), "gres_detail": [fields["device"]]} for job, fields in self.jobs.items()]}
            )
        separator = command[-1].removeprefix("--format=%A").partition("%U")[0]
        rows = (
            [job, *(value for key, value in fields.items() if key != "device")] for job, fields in self.jobs.items()
        )
        return "".join("".join(f"{field}{separator}" for field in row) + "\n" for row in rows)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUp:
    made = MadeUp()
    partitions = [{"partitionname": "all", "default": "YES"}]
    monkeypatch.setattr(slurm, "answer", made.answer)
    monkeypatch.setattr(slurm_config, "ask", lambda _: SlurmConfig({}, [NODE], partitions, "slurmctld", {}))
    toml = tmp_path / "fikit.toml"
    directories = "".join(f'{each}_dir = "{tmp_path}/{each}"\n' for each in ("run", "report", "profile"))
    toml.write_text(f'[daemon]\n{directories}outcomes_dir = "{tmp_path}/spool"\n')
    (tmp_path / "spool").mkdir(mode=0o700)
    monkeypatch.setenv("FIKIT_CONFIG", str(toml))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "j.sh").write_text(SCRIPT)
    return made


def advise(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def document(*words: str) -> dict[str, Any]:
    done = advise("--json", *words)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def spooled(tmp_path: Path, *runs: tuple[int, str, float, float], slowdown: float = 1.0) -> None:
    """(uid, name, elapsed_s, busy)"""
    lines = [
        Outcome(n, uid, name_key(name), 1_790_000_000, s, busy, 3000, slowdown, 0.0, 0).text()
        for n, (uid, name, s, busy) in enumerate(runs)
    ]
    path = tmp_path / "spool" / "n1.runs"
    path.write_text("\n".join([HEAD, *lines, ""]))
    path.chmod(0o400)


def test_a_script_beside_a_job_of_which_runs_are_known(cluster: MadeUp, tmp_path: Path) -> None:
    spooled(tmp_path, *[(os.getuid(), "serve", 1800.0, 0.25)] * 3, *[(1001, "other", 7200.0, 0.5)] * 3)
    cluster.runs("7", "shard:h200:4(IDX:1)")
    found = document("j.sh")
    assert found["expected"]["rest_s"] == 1800
    assert (found["expected"]["source"], found["expected"]["runs"], found["expected"]["busy"]) == ("name", 3, 0.25)
    idle, shared = found["gpus"]
    assert (idle["gpu"], idle["verdict"], shared["gpu"], shared["verdict"]) == ("n1:0", "idle", "n1:1", "shares")
    (other,) = shared["beside"]
    assert (other["job"], other["rest_s"], other["busy"], other["busy_source"], other["priority"]) == (
        "7",
        3000,
        0.5,
        "name",
        None,
    )
    assert found["notes"][1] == "runs known from the spool of all nodes"
    assert all(word not in ("submit", "update") for command in cluster.asked for word in command), "it only reads"


def test_own_reports_are_enough_without_spool(cluster: MadeUp, tmp_path: Path) -> None:
    own = own_directory.make(tmp_path / "report", os.getuid())
    (own / "12.json").write_text(json.dumps(REPORT))
    expected = document("j.sh")["expected"]
    assert expected["rest_s"] == pytest.approx(REPORT["elapsed_s"] / REPORT["slowdown"])
    assert (expected["source"], expected["peak_bytes"] >> 20) == ("name", REPORT["memory"]["peak_bytes"] >> 20)


def test_memory_on_the_host_is_part_of_what_a_job_has(
    cluster: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spooled(tmp_path, (os.getuid(), "serve", 1800.0, 0.25))
    monkeypatch.setenv("FIKIT_MEM_HOST", "3G")
    assert "needs 2.93 GiB at most; has 4 GiB (asked for), and 3 GiB on the host" in advise("j.sh").output
    (tmp_path / "j.sh").write_text(SCRIPT.replace("--fikit-mem=4G", "--fikit-mem=4G --fikit-mem-host 4500M"))
    found = document("j.sh")
    assert (found["job"]["shards"], found["job"]["host_gib"]) == (4, 5)
    assert "(of its last 1 run)" in advise("j.sh").output


def test_of_a_time_with_what_runs_met_it_does_not_say_alone(cluster: MadeUp, tmp_path: Path) -> None:
    spooled(tmp_path, *[(os.getuid(), "serve", 1800.0, outcomes.UNKNOWN)] * 2, slowdown=outcomes.UNKNOWN)
    assert "runs 30 min (of its last 2 runs, not compared with the time alone)" in advise("j.sh").output
    assert document("j.sh")["expected"]["compared"] == 0


def test_where_nothing_is_known_it_says_so(cluster: MadeUp) -> None:
    cluster.runs("7", "shard:h200:4(IDX:0)", gres="gres:shard:4", limit="UNLIMITED")
    found = document("j.sh")
    assert (found["expected"]["source"], found["expected"]["rest_s"]) == ("limit", 14_400)
    assert found["gpus"][1]["beside"][0]["rest_s"] is None
    assert [each for each in found["notes"] if each[0] in "~?"], "what is assumed is marked"


def test_a_job_that_waits_and_one_that_runs(cluster: MadeUp) -> None:
    cluster.runs("7", "shard:h200:4(IDX:1)")
    cluster.runs(
        "8", "", state="PENDING", nodes="", reason="Resources", elapsed="0:00", gres="gres:shard:14", priority="0.4"
    )
    cluster.runs(
        "9", "", state="PENDING", nodes="", reason="Resources", elapsed="0:00", gres="gres:gpu:1", priority="0.9"
    )
    cluster.runs(
        "10", "", state="PENDING", nodes="", reason="Dependency", elapsed="0:00", gres="gres:gpu:1", priority="0.9"
    )
    waits = document("--job", "8")
    assert (waits["job"]["running"], waits["waiting"]["whole"], waits["waiting"]["shared"]) == (False, 1, 0)
    assert [each["verdict"] for each in waits["gpus"]] == ["idle", "later"]
    runs = document("--job", "7")
    assert (runs["job"]["running"], runs["job"]["elapsed_s"]) == (True, 600)
    assert [each["gpu"] for each in runs["gpus"]] == ["n1:1"]
    assert runs["gpus"][0]["beside"] == []


def test_whatever_a_job_is_called_the_screen_shows_text(cluster: MadeUp, tmp_path: Path) -> None:
    cluster.runs("7", "shard:h200:4(IDX:0)", name=HOSTILE)
    cluster.runs("8", "", state="PENDING", nodes="", reason="Resources", name=HOSTILE)
    for done in (advise("j.sh"), advise("--job", "8")):
        assert done.exit_code == 0
        assert "\x1b" not in done.output
    assert sum(line.startswith("Job ") for line in advise("--job", "8").output.splitlines()) == 1


def test_the_table_says_for_each_gpu_beside_whom_and_what_that_costs(cluster: MadeUp, tmp_path: Path) -> None:
    spooled(tmp_path, *[(os.getuid(), "serve", 1800.0, 0.5)] * 3, *[(1001, "other", 7200.0, 0.5)] * 3)
    cluster.runs("7", "shard:h200:4(IDX:1)")
    cluster.runs("9", "gpu:h200:1(IDX:0)", gres="gres:gpu:1")
    lines = advise("j.sh").output.splitlines()
    assert "runs 30 min alone (of its last 3 runs)" in lines
    assert [line.split()[:5] for line in lines if re.match(r" *n1:\d +\d", line)] == [
        ["n1:1", "12", "of", "16", "GiB"], ["n1:0", "0", "of", "16", "GiB"],
    ]  # fmt: skip
    rows = [line.split() for line in lines]
    assert any(row[-4:] == ["30", "min", "1.01x", "2.37x"] for row in rows), "with priority high"
    assert "n1:0: job 9 has it alone" in lines
    assert any(line.startswith(" n1:0") and " in 50 min " in line for line in lines), "when it is free"
    assert any(line.strip() == "sbatch --fikit-priority=high j.sh" for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name either a batch script or, with --job, a job"), (("j.sh", "--job", "7"), "name either"), (("absent.sh",), "absent.sh cannot be read"),
        (("--job", "99"), "job 99 neither waits nor runs"), (("--deadline", "soon", "j.sh"), "is not a time"), (("two.sh",), "only jobs of one GPU share it"),
        (("none.sh",), "asks for no GPU"),
    ],
)  # fmt: skip
def test_what_cannot_be_advised_is_one_sentence(
    words: tuple[str, ...], said: str, cluster: MadeUp, tmp_path: Path
) -> None:
    (tmp_path / "two.sh").write_text("#SBATCH --gres=gpu:2\n")
    (tmp_path / "none.sh").write_text("#!/bin/sh\n")
    done = advise(*words)
    assert done.exit_code in (1, 2)
    assert said in done.output
    assert "Traceback" not in done.output


def test_without_slurm_it_is_one_sentence(cluster: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_config, "ask", lambda _: None)
    assert "scontrol does not answer" in advise("j.sh").output

    def fails(*_: str) -> str:
        raise UserError("what runs on the cluster is not known: squeue: it failed")

    monkeypatch.setattr(slurm, "answer", fails)
    assert "squeue: it failed" in advise("--job", "7").output


def test_a_script_that_shares_nothing_is_told_what_sharing_would_be(cluster: MadeUp, tmp_path: Path) -> None:
    (tmp_path / "whole.sh").write_text("#SBATCH --gres=gpu:1 --time=1:00:00 -J whole\n")
    cluster.runs("7", "shard:h200:4(IDX:0)")
    cluster.runs("8", "gpu:h200:1(IDX:1)", gres="gres:gpu:1", limit="2:00:00")
    lines = advise("whole.sh").output.splitlines()
    assert "asks for a whole GPU; what is said of sharing holds if it had a priority of fikit's" in lines
    assert any(line.strip().startswith("sbatch --gres=gpu:1 --fikit-priority=") for line in lines)
