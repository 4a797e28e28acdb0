"""A site's own job_submit.lua under slurmctld, beside fikit's; and what doctor says of a cluster that runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
LOW = "--fikit-priority=low"
SITE = """
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.comment == "refuse" then slurm.log_user("the site says no") return slurm.ERROR end
  if job_desc.comment == "fail" then error("the site's script has a fault") end
  job_desc.comment = "seen by the site"
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""


@pytest.fixture
def scripts(cluster: Cluster) -> Iterator[Path]:
    """The directory of Slurm's scripts, where the site's come first and `fikit lua` was typed after; as before afterwards."""
    directory = cluster.sandbox.root / "etc"
    script = directory / "job_submit.lua"
    before = script.read_text()
    clock = time.time()

    def touched() -> None:
        nonlocal clock
        clock += 2  # slurmctld reads a script again that is newer than the one it has, by whole seconds
        os.utime(script, (clock, clock))

    script.write_text(f"FIKIT_CONFIG = [[{directory}/fikit.toml]]\n{SITE}")
    for _ in range(2):
        done = cluster.run("fikit", "lua", "--directory", directory)
        assert done.returncode == 0, done.stdout
    touched()
    yield directory
    script.write_text(before)
    touched()


def test_site_and_fikit_both_decide(cluster: Cluster, scripts: Path) -> None:
    probe = cluster.script("probe-site", "echo shards $SLURM_SHARDS_ON_NODE; scontrol show job -o $SLURM_JOB_ID")
    output = cluster.batch(probe, GPU, LOW)
    assert "shards 4" in output
    assert "Comment=seen by the site" in output
    refused = cluster.run("sbatch", GPU, LOW, "--comment=refuse", probe)
    assert refused.returncode != 0
    assert "the site says no" in refused.stdout
    assert "shards 4" in cluster.batch(probe, GPU, LOW, "--comment=fail")
    assert "the site's script has a fault" in (cluster.sandbox.logs / "slurmctld.log").read_text()


def test_doctor_takes_the_word_of_a_slurmctld_that_runs(cluster: Cluster, scripts: Path) -> None:
    done = cluster.run("sh", "-c", "fikit doctor --json 2>/dev/null", FIKIT_CONFIG=str(scripts / "fikit.toml"))
    found = {check["name"]: check for check in json.loads(done.stdout)}
    names = ("GresTypes", "SelectType", "JobSubmitPlugins", "CliFilterPlugins", "PrologFlags", "shards", "gres.conf", "job_submit.lua")  # fmt: skip
    assert {name: found[name]["status"] for name in names} == dict.fromkeys(names, "ok")
