"""The doctor about Slurm's plugins that give a job a /dev/shm of its own, where fikit.toml asks for MPS."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikit.checks import mps, private_shm
from fikit.checks.check import Check
from fikit.slurm import config as slurm_config
from fikit.slurm.config import SlurmConfig

TMPFS, NAMESPACE, LINUX = "job_container/tmpfs", "namespace/tmpfs", "namespace/linux"


def findings(directory: Path, plugin: str, setting: str = "jobcontainertype") -> list[Check]:
    conf = SlurmConfig({setting: plugin} if plugin else {}, [], [], "slurmctld", {})
    return list(private_shm.findings(conf, directory, {"gpu1"}))


@pytest.mark.parametrize("plugin", ["", "job_container/none", "job_container/cncu", "namespace/none"])
def test_where_no_plugin_makes_directories_of_jobs_nothing_is_said(tmp_path: Path, plugin: str) -> None:
    assert findings(tmp_path, plugin) == []


@pytest.mark.parametrize(
    ("plugin", "setting"), [(TMPFS, "jobcontainertype"), (NAMESPACE, "namespacetype"), (LINUX, "namespacetype")]
)
def test_by_default_each_job_has_a_dev_shm_of_its_own(tmp_path: Path, plugin: str, setting: str) -> None:
    (check,) = findings(tmp_path, plugin, setting)
    assert (check.status, check.name) == ("warn", "/dev/shm of jobs")
    name, line = private_shm.PLUGINS[plugin]
    assert check.found == (
        f"{plugin} gives each job a /dev/shm of its own (its default, for {tmp_path / name} cannot be read here: No such file or directory). "
        "Drivers that keep MPS's shared memory there refuse the job's programs as clients (CUDA error 805), and the programs run in time "
        "slices, or fail"
    )
    assert check.advice == f'{line} in {tmp_path / name} and a restart of slurmd, or [gpu] mps = "off" in fikit.toml'


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("BasePath=/local\n", True),
        ("BasePath=/local Dirs=/tmp\n", False),
        ("AutoBasePath=true\nBasePath=/local\nDirs=/tmp,/var/tmp # not /dev/shm\n", False),
        ("basepath=/local dirs=/tmp,/dev/shm\n", True),
        ("BasePath=/local Dirs=/tmp\nNodeName=gpu[1-3] BasePath=/nvme Dirs=/tmp,/dev/shm\n", True),
        ("NodeName=gpu[1-3] BasePath=/nvme Dirs=/tmp\nBasePath=/local Dirs=/dev/shm\n", False),
        ("BasePath=/local Dirs=/tmp\nNodeName=cpu1 BasePath=/local Dirs=/dev/shm\n", False),
        ("BasePath=/local\nNodeName=gpu1 BasePath=none\n", False),
        ("BasePath=/local Dirs=/dev/shm2,/tmp\n", False),
    ],
)
def test_job_container_conf_says_which_directories_a_nodes_jobs_have(tmp_path: Path, text: str, own: bool) -> None:
    (tmp_path / "job_container.conf").write_text(text)
    (check,) = findings(tmp_path, TMPFS)
    assert (check.status == "warn") == own
    if own:
        assert f"(by {tmp_path}/job_container.conf)" in check.found
    else:
        assert check.found == f"{TMPFS} leaves it the node's"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("defaults:\n  base_path: /local\n", True),
        ('defaults:\n  base_path: /local\n  dirs: "/tmp,/var/tmp"\n', False),
        (
            "defaults:\n  dirs: /tmp\nnode_confs:\n  - nodes: gpu1\n    options:\n      dirs: /tmp,/dev/shm # all\n",
            True,
        ),
    ],
)
def test_namespace_yaml_says_which_directories_jobs_have(tmp_path: Path, text: str, own: bool) -> None:
    (tmp_path / "namespace.yaml").write_text(text)
    (check,) = findings(tmp_path, LINUX, "namespacetype")
    assert (check.status == "warn") == own


@pytest.mark.parametrize("mode", ["multi-user", "off"])
def test_the_doctor_looks_where_fikit_toml_asks_for_mps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (tmp_path / "fikit.toml").write_text(f'[daemon]\nrun_dir = "{tmp_path}"\n[gpu]\nmps = "{mode}"\n')
    (tmp_path / "slurm.conf").write_text(f"JobContainerType={TMPFS}\n")
    monkeypatch.setenv("FIKIT_CONFIG", str(tmp_path / "fikit.toml"))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setattr(slurm_config, "ask", lambda file: None)
    found = {check.name: check.status for check in mps.area(has_gpu=False)}
    assert found.get("/dev/shm of jobs") == ("warn" if mode == "multi-user" else None)
