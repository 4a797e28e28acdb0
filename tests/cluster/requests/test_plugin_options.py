"""Every way in which an option reaches the node, and what beats what."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from users import as_user

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GIB = 2**30
GPU = "--gres=gpu:1"


def test_sbatch_option(cluster: Cluster, batch_probed: Callable[..., Probe]) -> None:
    probe = batch_probed(
        cluster.probe, GPU, "--job-name=train", "--fikit-priority=high", "--fikit-mem=6G", "--fikit-profile=resnet"
    )
    assert (probe.record["priority"], probe.record["mem_bytes"], probe.record["profile"]) == (
        "1",
        str(6 * GIB),
        "resnet",
    )
    assert (probe.record["uid"], probe.record["gpus"], probe.record["name"]) == ("0", "0", "train")
    assert probe.shards == 6


def test_sbatch_line_in_the_script(cluster: Cluster, batch_probed: Callable[..., Probe]) -> None:
    script = cluster.script("lines", "#SBATCH --gpus=1", "#SBATCH --fikit-priority=low", f"exec {cluster.probe}")
    assert batch_probed(script).record["priority"] == "8"
    assert batch_probed(script, "--fikit-priority=2", FIKIT_PRIORITY="high").record["priority"] == "2"


@pytest.mark.parametrize("request_", [GPU, "--gpus=1", "--gpus-per-node=1", "--gpus-per-task=1"])
def test_srun(cluster: Cluster, probed: Callable[..., Probe], request_: str) -> None:
    probe = probed("srun", "--ntasks=1", request_, "--fikit-priority=high", cluster.probe)
    assert probe.record["priority"] == "1"
    assert probe.shards == 4


def test_srun_inside_salloc(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    options = ("--gpus=1", "--fikit-priority=low", "--fikit-mem=3G")
    for inner in (("srun",), ("srun", GPU)):
        probe = probed("salloc", *options, *inner, cluster.probe)
        assert (probe.record["priority"], probe.shards) == ("8", 3)


@pytest.mark.parametrize(
    "inner", ["srun", "srun --gres=gpu:1", "srun --gpus=1", "srun --export=NONE --fikit-priority=high"]
)
def test_srun_inside_sbatch_is_part_of_its_job(
    cluster: Cluster, batch_probed: Callable[..., Probe], inner: str
) -> None:
    script = cluster.script("inner", f"{inner} {cluster.probe}")
    probe = batch_probed(script, GPU, "--fikit-priority=low", "--fikit-mem=5G")
    assert (probe.record["priority"], probe.shards) == ("8", 5)
    assert "libfikit_shim.so" in probe.env["LD_PRELOAD"]


def test_environment_is_an_option(
    cluster: Cluster, probed: Callable[..., Probe], batch_probed: Callable[..., Probe]
) -> None:
    wish = {"FIKIT_PRIORITY": "3", "FIKIT_MEM": "2G", "FIKIT_PROFILE": "bert"}
    for probe in (
        probed("srun", GPU, cluster.probe, **wish),
        batch_probed(cluster.probe, GPU, **wish),
        probed("salloc", GPU, "srun", cluster.probe, **wish),
        batch_probed(cluster.script("inner-env", f"srun {cluster.probe}"), GPU, "--export=NONE", **wish),
    ):
        record = probe.record
        assert (record["priority"], record["mem_bytes"], record["profile"]) == ("3", str(2 * GIB), "bert")
        assert probe.shards == 2


def test_option_beats_environment_beats_site_default(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    wish = {"FIKIT_PRIORITY": "low"}
    assert probed("srun", GPU, "--fikit-priority=high", cluster.probe, **wish).record["priority"] == "1"
    assert probed("srun", GPU, "--fikit-mem=1G", cluster.probe, **wish).record["priority"] == "8"
    assert probed("srun", GPU, "--fikit-mem=1G", cluster.probe).record["priority"] == "5"


def test_what_lower_jobs_may_cost(
    cluster: Cluster, probed: Callable[..., Probe], batch_probed: Callable[..., Probe]
) -> None:
    options = ("--fikit-max-slowdown=2.5%", "--fikit-max-delay=1.5ms")
    wish = {"FIKIT_MAX_SLOWDOWN": "2.5%", "FIKIT_MAX_DELAY": "1.5ms"}
    for probe in (
        probed("srun", GPU, *options, cluster.probe),
        batch_probed(cluster.probe, GPU, *options),
        probed("salloc", GPU, *options, "srun", cluster.probe),
        probed("srun", GPU, cluster.probe, **wish),
    ):
        assert (probe.record["max_slowdown"], probe.record["max_delay_ns"]) == ("0.025000", "1500000")
        assert (probe.record["priority"], probe.shards) == ("5", 4), "it shares, like with any option"
    assert "max_slowdown" not in probed("srun", GPU, "--fikit-priority=high", cluster.probe).record


@pytest.mark.parametrize("wish", [{"options": ["--fikit-measure"]}, {"FIKIT_MEASURE": "1"}])
def test_measured_job_keeps_its_gpu(cluster: Cluster, probed: Callable[..., Probe], wish: dict[str, object]) -> None:
    options = wish.pop("options", []) if "options" in wish else []
    probe = probed("srun", GPU, *options, cluster.probe, **wish)
    assert (probe.record["measure"], probe.shards) == ("1", 0)
    assert "libfikit_shim.so" in probe.env["LD_PRELOAD"]


def test_measure_zero_in_the_environment_is_no_wish(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    assert probed("srun", GPU, cluster.probe, FIKIT_MEASURE="0").record == {}


def test_shards_without_an_option_share_at_the_sites_priority(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    probe = probed("srun", "--gres=shard:2", cluster.probe)
    assert (probe.record["priority"], probe.record["gpus"], probe.shards) == ("5", "0", 2)
    assert "libfikit_shim.so" in probe.env["LD_PRELOAD"]


def test_job_of_another_user(cluster: Cluster, probed: Callable[..., Probe]) -> None:
    user = pwd.getpwnam("www-data")
    probe = probed(*as_user("www-data"), "srun", GPU, "--fikit-priority=low", cluster.probe)
    assert (probe.record["uid"], probe.record["gid"], probe.record["priority"]) == (
        str(user.pw_uid),
        str(user.pw_gid),
        "8",
    )
    assert "libfikit_shim.so" in probe.env["LD_PRELOAD"]


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
def test_help_lists_the_options(cluster: Cluster, command: str) -> None:
    text = cluster.run(command, "--help").stdout
    assert all(f"--fikit-{name}" in text for name in ("priority=", "measure", "mem=", "profile="))
