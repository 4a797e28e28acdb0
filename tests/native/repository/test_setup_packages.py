"""The Debian packages of scripts/setup.sh on a machine of its own: apt's lists, dpkg's status and the machine's programs are the test's. apt simulates only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.record import ROOT

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("apt-get") is None, reason="needs root, for mounts of its own, and Debian's apt"
)
SCRIPT = ROOT / "scripts" / "setup.sh"
LISTS = [line for line in SCRIPT.read_text().splitlines() if "_packages=" in line]
KNOWN = {word.split(":")[-1] for line in LISTS for word in line.split('"')[1].split()}
SLURM = {"slurmctld", "slurmd", "slurm-client", "libslurm-dev", "slurmdbd", "slurm-wlm-mysql-plugin"}
SCHEDMD = {
    "slurm-smd": "", "slurm-smd-client": "", "slurm-smd-dev": "Conflicts: libslurm-dev\n",
    "slurm-smd-slurmd": "Conflicts: slurmd\n", "slurm-smd-slurmctld": "Conflicts: slurmctld, slurmdbd, slurm-wlm-mysql-plugin\n",
}  # fmt: skip
APT = """#!/bin/bash
set -o pipefail
echo "apt-get $*" >>{root}/called
export APT_CONFIG={root}/apt.conf
case "$*" in *update*) exit 0;; *--simulate*) exec /usr/bin/apt-get "$@";; esac
/usr/bin/apt-get --simulate "$@" | tee -a {root}/done
"""
# Programs and files of this machine's own Slurm are out of sight.
HIDDEN = """
for name in slurmctld slurmd srun scontrol; do
  for directory in $(tr : ' ' <<<"$PATH") /usr/sbin /sbin /usr/local/sbin /opt/slurm/bin /opt/slurm/sbin; do
    [ ! -e $directory/$name ] || mount --bind /dev/null $directory/$name
  done
done
for directory in /etc/slurm /etc/slurm-llnl; do [ ! -d $directory ] || mount -t tmpfs none $directory; done
exec bash "$0" "$@"
"""


def stanza(name: str, more: str = "") -> str:
    return (
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: a test <a@test>\nDescription: a test's\n{more}"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine on which only the build's packages are installed."""
    for directory in ("repo", "lists/partial", "cache/archives/partial", "dpkg/info", "dpkg/updates", "bin", "parts"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "repo" / "Packages").write_text(
        "".join(stanza(name, f"Filename: ./{name}.deb\nSize: 1\nSHA256: {'0' * 64}\n") + "\n" for name in sorted(KNOWN))
    )
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/repo ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list"; Dir::Etc::sourceparts "{tmp_path}/parts"; Dir::Etc::preferencesparts "{tmp_path}/parts";\n'
        f'Dir::State::lists "{tmp_path}/lists"; Dir::State::status "{tmp_path}/dpkg/status"; Dir::Cache "{tmp_path}/cache"; APT::Sandbox::User "root";\n'
    )
    (tmp_path / "bin" / "apt-get").write_text(APT.format(root=tmp_path))
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    (tmp_path / "copy" / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "copy" / "scripts")
    have(tmp_path, *LISTS[0].split('"')[1].split())
    return tmp_path


def have(root: Path, *names: str, **more: str) -> None:
    """dpkg's status file: these packages are installed."""
    with (root / "dpkg" / "status").open("a") as status:
        for name in names:
            status.write(stanza(name.split(":")[-1], "Status: install ok installed\n" + more.get(name, "")) + "\n")


def run(root: Path, kind: str, hidden: str = HIDDEN) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "DPKG_ADMINDIR": f"{root}/dpkg"}
    subprocess.run(
        ["/usr/bin/apt-get", "-q", "update"],
        env={**env, "APT_CONFIG": f"{root}/apt.conf"},
        check=True,
        capture_output=True,
    )
    script = root / "copy" / "scripts" / "setup.sh"
    command = ["unshare", "--mount", "bash", "-c", hidden, script, "packages", kind]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def done(root: Path, verb: str) -> set[str]:
    """The packages that apt would install (Inst) or remove (Remv)."""
    file = root / "done"
    lines = file.read_text().splitlines() if file.exists() else []
    return {line.split()[1] for line in lines if line.startswith(verb)}


def test_a_machine_without_slurm_gets_debians(root: Path) -> None:
    ran = run(root, "demo")
    assert ran.returncode == 0, ran.stderr
    assert done(root, "Inst") == set(LISTS[1].split('"')[1].split())
    assert "--no-remove" in (root / "called").read_text()


def test_the_demo_needs_no_package_of_the_tests(root: Path) -> None:
    assert run(root, "demo").returncode == 0
    assert not done(root, "Inst") & {"chromium", "gcc-aarch64-linux-gnu", "valgrind", "slurmdbd"}


@pytest.mark.parametrize("kind", ["demo", "tests"])
def test_schedmds_slurm_stays_as_it_is(kind: str, root: Path) -> None:
    have(root, *SCHEDMD, **SCHEDMD)
    ran = run(root, kind)
    assert ran.returncode == 0, ran.stderr
    assert "Slurm" in ran.stderr
    assert not done(root, "Inst") & SLURM
    assert not done(root, "Remv")


def test_a_slurm_without_packages_stays_alone(root: Path) -> None:
    """As one that a site has built into /opt."""
    (root / "bin" / "srun").write_text("#!/bin/sh\n")
    (root / "bin" / "srun").chmod(0o755)
    ran = run(root, "demo", HIDDEN.replace("srun scontrol", "scontrol"))
    assert ran.returncode == 0, ran.stderr
    assert not (root / "called").exists()
    assert "a Slurm is installed" in ran.stderr


def test_debians_slurm_gets_accounting_for_the_tests(root: Path) -> None:
    have(root, *(SLURM - {"slurmdbd", "slurm-wlm-mysql-plugin"}))
    ran = run(root, "tests")
    assert ran.returncode == 0, ran.stderr
    assert {"slurmdbd", "slurm-wlm-mysql-plugin"} <= done(root, "Inst")


def test_what_would_remove_a_package_ends_with_its_reason(root: Path) -> None:
    have(root, "somebodys-lua", **{"somebodys-lua": "Conflicts: lua5.1\n"})
    ran = run(root, "demo")
    assert ran.returncode == 1
    assert "apt-get could not install" in ran.stderr
    assert "remove is disabled" in ran.stderr
