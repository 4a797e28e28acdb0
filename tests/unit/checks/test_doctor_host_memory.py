"""fikit doctor on memory that left the GPU: does the kernel charge it to its job?"""

from __future__ import annotations

from pathlib import Path

import pytest
from fikit.checks import host_memory
from fikit.checks.host_memory import NAME, charged, keeps_to_mem
from fikit.slurm import config as slurm_config

RELEASE = "6.1.0-18-amd64"
EXPORTED = "0x1234abcd\tint_active_memcg\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"
OTHERS = "0x1234abcd\tset_int_active_memcg\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"
KALLSYMS = "0000000000000000 r __ksymtab_{}\n0000000000000000 T start_kernel\n0000000000000000 V int_active_memcg\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A file system of a machine whose control groups count memory."""
    for directory in (f"lib/modules/{RELEASE}/build", "proc", "sys/fs/cgroup"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def built(machine: Path, symbols: str) -> None:
    (machine / f"lib/modules/{RELEASE}/build/Module.symvers").write_text(symbols)


def test_kernel_that_exports_the_symbol_charges_the_job(machine: Path) -> None:
    built(machine, OTHERS + EXPORTED)
    check = charged(machine, RELEASE, 64)
    assert (check.name, check.status) == (NAME, "ok")
    assert "charges what left the GPU to its job, and --mem bounds it" in check.found


def test_without_its_headers_the_kernels_own_list_tells(machine: Path) -> None:
    (machine / "proc/kallsyms").write_text(KALLSYMS.format("int_active_memcg"))
    assert charged(machine, RELEASE, 64).status == "ok"
    (machine / "proc/kallsyms").write_text(KALLSYMS.format("something_else"))
    assert charged(machine, RELEASE, 64).status == "warn"


@pytest.mark.parametrize(
    ("symbols", "release", "found"),
    [
        (OTHERS, RELEASE, f"kernel {RELEASE} does not export int_active_memcg"),
        (EXPORTED, "5.10.0-28-amd64", "kernel 5.10.0-28-amd64 is older than 5.14"),
        (None, RELEASE, f"it cannot be seen whether kernel {RELEASE} exports"),
    ],
)
def test_kernel_that_does_not_or_does_not_say_is_a_warning(
    machine: Path, symbols: str | None, release: str, found: str
) -> None:
    if symbols is not None:
        built(machine, symbols)
    check = charged(machine, release, 48)
    assert check.status == "warn"
    assert check.found.startswith(found)
    assert check.found.endswith("nobody counts what left the GPU against its job's --mem")
    assert check.advice.startswith("keep up to 48 GiB (host_gib) per job")


def test_what_is_charged_is_bounded_only_where_slurm_keeps_jobs_to_their_memory(machine: Path) -> None:
    built(machine, EXPORTED)
    assert charged(machine, RELEASE, 64, kept=True).status == charged(machine, RELEASE, 64, kept=None).status == "ok"
    check = charged(machine, RELEASE, 64, kept=False)
    assert check.status == "warn"
    assert check.found.endswith("charges what left the GPU to its job, and Slurm keeps no job to its --mem")
    assert check.advice.startswith("set ConstrainRAMSpace=yes in cgroup.conf and TaskPlugin=task/cgroup in slurm.conf")
    assert "64 GiB (host_gib)" in check.advice


@pytest.mark.parametrize(
    ("slurm", "cgroup", "keeps"),
    [
        ("TaskPlugin=task/affinity,task/cgroup", "CgroupPlugin=autodetect\nConstrainRAMSpace=Yes", True),
        ("TaskPlugin=affinity,cgroup\nConstrainRAMSpace=yes", "", True),  # as slurmctld says it
        ("TaskPlugin=task/cgroup\nConstrainRAMSpace=no", "ConstrainRAMSpace=yes", False),  # what it runs with counts
        ("TaskPlugin=task/cgroup", "#ConstrainRAMSpace=yes", False),
        ("TaskPlugin=task/affinity", "ConstrainRAMSpace=yes", False),
        ("TaskPlugin=task/cgroup", None, False),
        ("", None, None),
    ],
)
def test_whether_slurm_keeps_jobs_to_their_memory(
    slurm: str, cgroup: str | None, keeps: bool | None, tmp_path: Path
) -> None:
    conf, cgroup_conf = tmp_path / "slurm.conf", tmp_path / "cgroup.conf"
    conf.write_text(slurm)
    if cgroup is not None:
        cgroup_conf.write_text(cgroup)
    assert keeps_to_mem(slurm_config.read(conf), cgroup_conf) is keeps


def test_kernel_that_lists_functions_only_says_nothing_of_its_exports(machine: Path) -> None:
    (machine / "proc/kallsyms").write_text("0000000000000000 T start_kernel\n0000000000000000 t int_active_memcg\n")
    assert "cannot be seen" in charged(machine, RELEASE, 64).found


def test_control_groups_that_count_no_memory_charge_nobody(machine: Path) -> None:
    built(machine, EXPORTED)
    (machine / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert charged(machine, RELEASE, 64).found.startswith("no control groups of version 2 count memory here")
    (machine / "sys/fs/cgroup/cgroup.controllers").unlink()
    assert charged(machine, RELEASE, 64).status == "warn"


@pytest.mark.starts_processes
@pytest.mark.parametrize(("allow", "checks"), [("no", 0), ("lower", 1)])
def test_a_site_that_has_no_such_memory_hears_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: str, checks: int
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(f'[oversubscribe]\nallow = "{allow}"\n')
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    assert len(list(host_memory.area())) == checks


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('allow = "lower"', None),
        ('allow = "lower"\nmax_factor = 1', "max_factor = 1 is what a job has on the GPU"),
        ('allow = "lower"\n[gpu]\nmps = "multi-user"', 'fikitd gives none while mps = "multi-user"'),
    ],
)
def test_what_else_the_site_says_may_leave_no_job_any(
    text: str, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(f"[oversubscribe]\n{text}\n")
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    (check,) = host_memory.area()
    assert check.name == NAME
    if found is None:
        assert "no job has any" not in check.found
    else:
        assert (check.status, check.found) == (
            "warn",
            f'allow = "lower" in [oversubscribe], and no job has any: {found}',
        )
