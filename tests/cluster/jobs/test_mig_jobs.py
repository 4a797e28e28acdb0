"""Jobs on MIG instances, set up as docs/admin.md says: Slurm gives an instance, and its UUID reaches the program and the report."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from remains import nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

SITE = Path(__file__).resolve().parents[3] / "site"
SIZES = ("3g.71gb", "1g.18gb")
LARGE, SMALL = (f"--gres=gpu:{size}:1" for size in SIZES)
HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"


def site_lines() -> str:
    """The lines of site/gres.conf for MIG."""
    lines = [line.removeprefix("#") for line in (SITE / "gres.conf").read_text().splitlines()]
    found = [line for line in lines if "/nvidia-cap" in line and line.startswith("Name=")]
    assert len(found) == 2 * len(SIZES)
    return "\n".join([*found, ""])


def split(own: Sandbox) -> None:
    """What an administrator does to Slurm's configuration after splitting the GPU."""
    gres = site_lines().replace("/dev/nvidia-caps", str(own.root / "dev"))
    for file in sorted(set(re.findall(r"File=(\S+)", gres))):
        os.mknod(file, stat.S_IFCHR, os.makedev(1, 3))
        Path(file).chmod(0o666)
    etc = own.root / "etc"
    (etc / "gres.conf").write_text(gres)
    conf = etc / "slurm.conf"
    wanted = "Gres=gpu:3g.71gb:1,gpu:1g.18gb:1,shard:3g.71gb:71,shard:1g.18gb:18"
    conf.write_text(re.sub(r"Gres=\S+", wanted, conf.read_text()))
    toml = own.fikit_toml
    toml.write_text(toml.read_text().replace("gpu_memory_gib = 141", "gpu_memory_gib = 71"))
    asked = [sys.executable, "-m", "fikitd.gpu_processes"]
    libraries = {"LD_LIBRARY_PATH": str(own.root / "native" / "emulator")}
    devices = json.loads(subprocess.run(asked, env=own.env | libraries, capture_output=True, check=True).stdout)
    (etc / "mig-uuids").write_text("".join(f"{device['uuid']}\n" for device in devices))
    prolog = etc / "task_prolog"  # the sandbox's, which leads to the emulated driver, and the site's
    prolog.write_text(f"{prolog.read_text()}export MIG_UUIDS={etc}/mig-uuids\n. {SITE}/task_prolog_mig\n")


@pytest.fixture(scope="module")
def cluster(
    sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    model = tmp_path_factory.mktemp("mig") / "model.toml"
    model.write_text(f'[device]\nname = "Emulated H200"\nmig = {json.dumps(SIZES)}\n')
    own = Sandbox(gpus=1, gpu_memory="141GiB", emulator_config=model)
    try:
        own.start(on_step=lambda step: split(own) if step == "munged" else None)
        yield make_cluster(own)
        nothing_remains(own)
    finally:
        own.stop()


@pytest.fixture(scope="module")
def program(cluster: Cluster, spin: Path) -> Path:
    return Path(shutil.copy(spin, cluster.directory / "spin"))


def test_jobs_share_an_instance_and_a_job_on_the_other_one_is_apart(cluster: Cluster, program: Path) -> None:
    uuids = dict(zip(SIZES, (cluster.sandbox.root / "etc" / "mig-uuids").read_text().split(), strict=True))
    script = cluster.script("shown", 'echo "on $CUDA_VISIBLE_DEVICES"', f"exec {program} 1000000 250000")
    on_large = [cluster.submit(script, LARGE, *more) for more in ((HIGH,), (LOW, "--fikit-mem=20G"))]
    alone = cluster.submit(script, SMALL, LOW, "--fikit-mem=18G")
    sizes = dict.fromkeys(on_large, SIZES[0]) | {alone: SIZES[1]}
    control = Control(cluster.sandbox.run_dir)
    cluster.until(lambda: len(cluster.managed()) == len(sizes), "they are not there at once")
    assert {client["job"]: client["gpu"] for client in control.node()["clients"]} == {
        job: uuids[size] for job, size in sizes.items()
    }
    cluster.until(
        lambda: all(client["kernels"] > 0 for client in control.node()["clients"]),
        "not each of them has launched something",
    )
    cluster.run("scancel", *sizes)
    for job, size in sizes.items():
        assert cluster.end(job) == "CANCELLED"
        assert cluster.output(job).startswith(f"on {uuids[size]}\n")
        cluster.until(lambda job=job: cluster.reported_kernels(job) > 0, f"job {job} has no report")
        report = ReportStore(cluster.sandbox.report_dir).load(job)
        assert report is not None
        found = {key: report["device"][key] for key in ("name", "uuid", "emulated")}
        assert found == {"name": f"Emulated H200 MIG {size}", "uuid": uuids[size], "emulated": True}
        assert job in on_large or report["wait"]["count"] == 0, "nobody is above it on its instance"


def test_an_instance_that_is_shared_is_nobodys_alone(cluster: Cluster, program: Path) -> None:
    holder = cluster.submit(cluster.script("holder", f"exec {program} 1000000 250000"), SMALL, LOW, "--fikit-mem=2G")
    cluster.until(lambda: holder in cluster.managed(), "it is not there")
    done = cluster.run("srun", "--immediate=2", SMALL, "true")
    assert done.returncode != 0
    assert cluster.run("srun", "--immediate=5", LARGE, "true").returncode == 0
    cluster.run("scancel", holder)
    assert cluster.end(holder) == "CANCELLED"


def test_a_job_that_is_larger_than_the_instance_is_refused(cluster: Cluster) -> None:
    done = cluster.run("srun", SMALL, "--fikit-mem=19G", "true")
    assert (done.returncode, "Requested node configuration is not available" in done.stdout) == (1, True), done.stdout
