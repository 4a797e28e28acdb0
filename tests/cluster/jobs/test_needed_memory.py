"""The memory of a job under Slurm: what one run needed is what the next one of its name is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GPU = "--gres=gpu:1"
LOW = "--fikit-priority=low"
NEEDS = """
import ctypes
cu, out = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(out), 0, 0) == 0
print("result", cu.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t({mib} * 2**20)))
"""


def test_the_next_job_of_a_name_gets_what_the_last_one_needed(
    cluster: Cluster, probed: Callable[..., Probe], batch_probed: Callable[..., Probe]
) -> None:
    name = "--job-name=learner"
    first = cluster.run("srun", GPU, LOW, name, sys.executable, "-c", NEEDS.format(mib=5000))
    assert "result 0" in first.stdout
    peaks = MemoryHistory(ProfileStore(cluster.sandbox.profile_dir))
    cluster.until(lambda: peaks.of(os.getuid(), "learner"), "its peak was not stored")
    assert probed("srun", GPU, LOW, name, cluster.probe).shards == 6  # 5000 MiB and a tenth
    assert batch_probed(cluster.probe, GPU, LOW, name).shards == 6
    assert batch_probed(cluster.script("named", f"#SBATCH {name}", str(cluster.probe)), GPU, LOW).shards == 6
    assert batch_probed(cluster.script("learner", str(cluster.probe)), GPU, LOW).shards == 6
    assert probed("srun", GPU, LOW, cluster.script("learner", str(cluster.probe))).shards == 6
    assert probed("srun", GPU, LOW, name, "--fikit-mem=2G", cluster.probe).shards == 2


def test_memory_is_learnt_whatever_the_job_is_called(cluster: Cluster, parsed: Callable[[str], Probe]) -> None:
    needs = cluster.directory / "needs.py"
    needs.write_text(NEEDS.format(mib=5000))
    peaks = MemoryHistory(ProfileStore(cluster.sandbox.profile_dir))
    ways = {
        "wrap": ("", ["--wrap={}"]),
        "sbatch": ("#!/bin/sh\n{}\n", []),
        "my/exp #1 (ü)": ("#!/bin/sh\n{}\n", ["--job-name=my/exp #1 (ü)"]),
    }
    for name, (script, options) in ways.items():

        def run(command: str, script: str = script, options: list[str] = options) -> str:
            words = [*options, GPU, LOW, "--wait", f"--output={cluster.directory}/way.out"]
            done = cluster.sandbox.run(
                ["sbatch", *(word.replace("{}", command) for word in words)], env=cluster.env, cwd=cluster.directory,
                input=script.format(command), timeout=30, capture_output=True,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return (cluster.directory / "way.out").read_text()

        assert "result 0" in run(f"{sys.executable} {needs}")
        cluster.until(lambda name=name: peaks.of(os.getuid(), name), f"the peak of {name} was not stored")
        assert parsed(run(str(cluster.probe))).shards == 6, name


def test_a_job_gets_no_more_memory_than_it_asked_for(cluster: Cluster) -> None:
    done = cluster.run("srun", GPU, "--fikit-mem=1G", sys.executable, "-c", NEEDS.format(mib=1025))
    assert "result 2" in done.stdout
    assert "this job's limit is 1024 MiB (--fikit-mem)" in done.stdout
