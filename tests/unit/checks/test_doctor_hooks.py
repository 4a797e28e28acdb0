"""`fikit doctor` on scripts of the site's that take a neighbour on a shared GPU for what a job has left behind."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from fikit.checks import hooks
from fikit.slurm.config import SlurmConfig

ROOT = Path(__file__).resolve().parents[3]
SECTION = "## Prologs, epilogs and health checks"


def warned(tmp_path: Path, text: str, setting: str = "epilog", value: str | None = None) -> list[str]:
    script = tmp_path / "50-gpu"
    script.write_text(text)
    settings = {setting: str(script) if value is None else value.format(tmp_path)}
    return [check.found for check in hooks.area(SlurmConfig(settings, [], [], "", {}))]


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-smi --query-compute-apps=pid --format=csv,noheader | xargs kill",
        "used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits)",
        "nvidia-smi pmon -c 1", "nvidia-smi --gpu-reset -i 0", "nvidia-smi -i 0 -r", "nvidia-smi -r",
        "fuser -s /dev/nvidia0 && exit 1", "lsof /dev/nvidia*", "dcgmi diag -r 1", "import x; x.memory_used()",
    ],
)  # fmt: skip
def test_a_script_that_asks_for_memory_or_programs_is_named(tmp_path: Path, line: str) -> None:
    [found] = warned(tmp_path, f"#!/bin/sh\n{line}\n")
    assert str(tmp_path / "50-gpu") in found


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-smi -L\n", "nvidia-smi -pm 1\n", "nvidia-smi --query-gpu=temperature.gpu\n", "# nvidia-smi pmon\n", "fuser -k /scratch\n",
        "nvidia-smi pmon -c 1 # fikit shares no GPU of this partition\n", "grep -r . /run/fikit/jobs || nvidia-smi pmon\n",
    ],
)  # fmt: skip
def test_others_are_not(tmp_path: Path, text: str) -> None:
    assert warned(tmp_path, f"#!/bin/sh\n{text}") == []


@pytest.mark.parametrize(
    ("setting", "value", "number"),
    [
        ("prolog", "{}/*", 1), ("prolog[0]", None, 1), ("epilog[12]", "{}/none,{}/50-gpu", 1), ("healthcheckprogram", None, 1),
        ("epilog", "(null)", 0), ("epilog", "{}/none", 0), ("epilogslurmctld", None, 0), ("taskprolog", None, 0), ("prolog", "/dev/zero", 0),
    ],
)  # fmt: skip
def test_every_way_to_name_a_script_of_the_nodes(tmp_path: Path, setting: str, value: str | None, number: int) -> None:
    value = value and value.replace("{}", str(tmp_path))
    assert len(warned(tmp_path, "nvidia-smi pmon\n", setting, value)) == number


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("used", "number"),
    [
        ("gpu:h200:0(IDX:N/A),shard:h200:4(4/141,0/141)", "1"), ("gpu:a:1(IDX:0),shard:a:0(0/9),shard:b:30(10/16,20/24)", "2"),
        ("gpu:h200:2(IDX:0-1),shard:h200:0(0/141,0/141)", "0"),
    ],
)  # fmt: skip
def test_the_manuals_query_counts_the_gpus_that_jobs_share(tmp_path: Path, used: str, number: str) -> None:
    section = (ROOT / "docs/admin.md").read_text().split(SECTION)[1]
    query = re.search(r"```sh\n(scontrol .*?)```", section, re.DOTALL)
    assert query is not None
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho '   GresUsed={used}'\necho '   Gres=shard:9(1/2)'\n")
    (tmp_path / "scontrol").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "node": "a"}
    done = subprocess.run(["sh", "-c", query[1]], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"{number}\n"


@pytest.mark.starts_processes
def test_the_manuals_script_leaves_out_gpus_that_another_job_has(tmp_path: Path) -> None:
    section = (ROOT / "docs/admin.md").read_text().split(SECTION)[1]
    script = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert script is not None
    assert warned(tmp_path, script[1]) == []
    for directory, job, gpus in (("jobs", 12, "0,1,10"), ("jobs", 13, "1"), ("candidates", 14, "10,11")):
        (tmp_path / directory).mkdir(exist_ok=True)
        (tmp_path / directory / str(job)).write_text(f"version=1\njob={job}\ngpus={gpus}\nname=gpus=0\n")
    (tmp_path / "nvidia-smi").write_text('#!/bin/sh\necho "asked $2"\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "12", "SLURM_JOB_GPUS": "0,1,10"}
    text = "set -u\n" + script[1].replace("/run/fikit", str(tmp_path))
    done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("asked 0\n", "")
