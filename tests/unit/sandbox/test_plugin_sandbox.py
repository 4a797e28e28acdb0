"""The sandbox's files, as text."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from fikit.sandbox.needs import SandboxError
from fikit.sandbox.sandbox import Sandbox, files

LAYOUT = files.Layout(Path("/tmp/fikit-x"))
MACHINE = files.Machine("vm", 1000, 7001, [7002], [Path("/dev/a"), Path("/dev/b")], 16, ["emulated"] * 2)
PROGRAMS = files.Programs(
    plugin=Path("/n/slurm/spank_fikit.so"), lua=Path("/n/slurm"), shim=Path("/n/shim.so"), daemon=Path("/b/fikitd"),
    job_environment={"LD_LIBRARY_PATH": "/n/emulator", "EMUCUDA_NAME": "x"},
)  # fmt: skip


def test_gpus_have_a_type_or_an_exclusive_job_meets_shards() -> None:
    lines = files.gres_conf(MACHINE).splitlines()
    assert lines == [
        "Name=gpu Type=emulated File=/dev/a",
        "Name=gpu Type=emulated File=/dev/b",
        "Name=shard Count=32",
    ]
    assert "Gres=gpu:emulated:2,shard:emulated:32\n" in files.slurm_conf(LAYOUT, MACHINE)
    mixed = replace(MACHINE, gpu_types=["a", "b"])
    assert "Gres=gpu:a:1,gpu:b:1,shard:a:16,shard:b:16\n" in files.slurm_conf(LAYOUT, mixed)
    assert files.gres_conf(mixed).splitlines()[2:] == [
        "Name=shard Type=a Count=16 File=/dev/a",
        "Name=shard Type=b Count=16 File=/dev/b",
    ]


def test_everything_slurm_writes_is_in_the_sandbox() -> None:
    for line in files.slurm_conf(LAYOUT, MACHINE).splitlines():
        name, _, value = line.partition("=")
        if name.endswith(("Location", "Dir", "File", "Config")):
            assert value.startswith("/tmp/fikit-x/"), line


def test_accounting_takes_the_place_of_none() -> None:
    with_it = files.slurm_conf(
        LAYOUT, MACHINE, ["PartitionName=x"], ["AccountingStorageType=a", "AccountingStoragePort=1"]
    )
    assert "accounting_storage/none" not in with_it
    assert with_it.index("AccountingStoragePort=1") < with_it.index("PartitionName=x")
    assert "accounting_storage/none" in files.slurm_conf(LAYOUT, MACHINE)


def test_socket_paths_fit() -> None:
    longest = files.Layout(Path("/tmp/fikit-xxxxxxxx"))
    assert len(str(longest.munge_socket)) < 107
    assert len(str(longest.run_dir / "hooks" / ".control.sock")) < 107


def test_fikit_toml_is_read_back() -> None:
    text = files.fikit_toml(LAYOUT, MACHINE, {"policy": "prio", "lease_ms": 50})
    config = tomllib.loads(text)
    assert config["scheduler"] == {"policy": "prio", "lease_ms": 50}
    assert config["slurm"] == {"gpu_memory_gib": 16, "default_share_gib": 4}
    assert config["daemon"]["run_dir"] == "/tmp/fikit-x/run"


def test_emulator_model_keeps_its_kernels_and_takes_the_sandboxs_devices() -> None:
    model = {"device": {"name": "Emulated T", "count": 9, "slice_us": 5}, "kernel": [{"match": "a*", "us": 1.0}]}
    config = tomllib.loads(files.emulator_toml(model, MACHINE, {"slice_us": 0}))
    assert config["kernel"] == model["kernel"]
    assert config["device"] == {"name": "Emulated T", "count": 2, "slice_us": 0, "memory": "16GiB", "access": "all"}


def test_task_prolog_gives_every_job_the_emulated_gpu() -> None:
    text = files.task_prolog(PROGRAMS)
    assert 'echo "export LD_LIBRARY_PATH=/n/emulator"' in text
    assert 'echo "export EMUCUDA_NAME=x"' in text
    assert "export" not in files.task_prolog(files.Programs(Path(), Path(), Path(), Path()))


@pytest.mark.parametrize(("gpus", "memory"), [(0, "16GiB"), (1, "512M")])
def test_sandbox_needs_a_gpu_of_a_gib(gpus: int, memory: str) -> None:
    with pytest.raises(SandboxError, match="at least one GPU with at least 1 GiB"):
        Sandbox(gpus=gpus, gpu_memory=memory)
