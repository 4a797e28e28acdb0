"""A site's own job_submit.lua: rules that know gpu and no shards, and that route jobs, hold for jobs that share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox

from fikitd import paths

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

LOW = "--fikit-priority=low"
REQUESTS = ["--gres=gpu:1", "--gpus=emulated:1", "--gpus-per-node=1", "--gpus-per-task=1"]
PARTITIONS = [f"PartitionName={name} Nodes=ALL State=UP OverSubscribe=YES" for name in ("gpu", "cpu")]
SITE = """
do local r = dofile("{native}/job_submit.lua") if r then return r end end
local asked = dofile("{native}/fikit_submit.lua").asked

local function asks_for_gpu(job)
  for _, key in ipairs({{ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }}) do
    if (job[key] or ""):match("^gres[:/]gpu") then return true end
  end
  return false
end

function slurm_job_submit(job, parts, uid)
  if asks_for_gpu(job) ~= (asked(job).gpus > 0) then slurm.log_user("they differ") return slurm.ERROR end
  if job.partition == "gpu" and not asks_for_gpu(job) then slurm.log_user("no GPU, no partition gpu") return slurm.ERROR end
  job.partition = asks_for_gpu(job) and "gpu" or "cpu"
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, parts, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""


@pytest.fixture(scope="module")
def routed(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A cluster with such a site; `sandbox` only says whether there can be one."""
    with Sandbox(gpus=1, slurm_lines=PARTITIONS) as own:
        script = Path(own.env["SLURM_CONF"]).parent / "job_submit.lua"
        script.write_text(SITE.format(native=paths.slurm_dir()))
        # slurmctld reads the file again when its time, in seconds, is later than that at which it read it last.
        later = time.time() + 60
        os.utime(script, (later, later))
        cluster = make_cluster(own)
        cluster.until(lambda: cluster.run("srun", "-p", "gpu", "true").returncode != 0, "the site's rules do not hold")
        yield cluster


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
def test_a_sharing_job_is_a_gpu_job_to_a_sites_rules(
    routed: Cluster, parsed: Callable[[str], Probe], command: str
) -> None:
    show = routed.script("where", str(routed.probe))
    for request in REQUESTS:
        options = ("-n1", "-p", "gpu", request, LOW)
        if command == "sbatch":
            output = routed.batch(show, *options)
        else:
            done = routed.run(command, *options, *(["srun"] if command == "salloc" else []), show)
            assert done.returncode == 0, done.stdout
            output = done.stdout
        probe = parsed(output)
        assert (probe.record["priority"], probe.shards) == ("8", 4), request
        assert probe.env["SLURM_JOB_PARTITION"] == "gpu"


def test_other_jobs_are_routed_as_ever(routed: Cluster) -> None:
    where = routed.script("partition", 'echo "in $SLURM_JOB_PARTITION"')
    assert "in cpu" in routed.run("srun", where).stdout
    assert "in gpu" in routed.run("srun", "--gres=gpu:1", where).stdout
    assert "no GPU, no partition gpu" in routed.run("srun", "-p", "gpu", where).stdout
    assert "no GPU, no partition gpu" in routed.run("srun", "-p", "gpu", "--gres=shard:2", where).stdout
