"""A system to install things into and to throw away: an overlay over another one's files, entered by chroot (root, overlayfs)."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOISE = ("/proc", "/sys", "/dev", "/tmp", "/run", "/var/log", "/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/root")
SITE = {
    "slurm.conf": (
        # Nobody answers there, and Slurm's commands give up soon.
        "ClusterName=site\nSlurmctldHost=node1(127.0.0.1)\nSlurmctldPort=1\nMessageTimeout=2\nSlurmUser=root\nStateSaveLocation=/tmp/state\n"
        "NodeName=node1 CPUs=2 Gres=gpu:h200:2\nPartitionName=all Nodes=ALL Default=YES\n"
    ),
    "gres.conf": "Name=gpu Type=h200 File=/dev/nvidia[0-1]\n",
}


ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class CleanSystem:
    """`lower` with changes of its own, which lie in `directory`. Each `run` sees what the ones before did."""

    def __init__(self, lower: Path, directory: Path) -> None:
        self.upper, self._work, self._merged, self._trial = (
            directory / name for name in ("upper", "work", "merged", "trial")
        )
        for path in (self.upper, self._work, self._merged, self._trial):
            path.mkdir(parents=True)
        self._lower = lower

    def run(self, script: str, *, trial: bool = False) -> subprocess.CompletedProcess[str]:
        """A script in the system, as root, in its /root, with a small environment; its stderr is part of its output.

        trial: what it changes is gone afterwards.
        """
        root = self._merged
        lines = ["set -e", _overlay(self._lower, self.upper, self._work, root)]
        if trial:
            below = [self._trial / name for name in ("upper", "work", "merged")]
            lines += [f"mount -t tmpfs tmpfs {self._trial}", f"mkdir {shlex.join(map(str, below))}"]
            lines.append(_overlay(root, *below))
            root = below[2]
        lines += [
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs tmpfs {root}/run",
            f"exec chroot {root} /bin/sh -c {shlex.quote('cd /root && ' + script)}",
        ]
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", "\n".join(lines)],
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip

    def checked(self, script: str) -> str:
        done = self.run(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    def files(self) -> set[str]:
        """Every path of the system, but for what nobody installs."""
        prune = " -o ".join(f"-path {name}" for name in NOISE)
        return set(self.checked(f"find / -xdev \\( {prune} \\) -prune -o -print").splitlines())

    def write(self, path: str, text: str) -> None:
        there = self.upper / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)


def _overlay(lower: Path, upper: Path, work: Path, merged: Path) -> str:
    return f"mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {merged}"


def page_commands() -> list[str]:
    """The commands of docs/admin.md's installation, in order."""
    text = (ROOT / "docs" / "admin.md").read_text()
    return text.partition("## Install\n")[2].partition("```sh\n")[2].partition("```")[0].strip().splitlines()


def make_site(system: CleanSystem) -> None:
    """A Slurm that knows nothing of fikit yet."""
    for name, text in SITE.items():
        system.write(f"/etc/slurm/{name}", text)
    system.write("/etc/slurm/plugstack.conf", "")


def can_overlay(directory: Path) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return CleanSystem(Path("/"), directory).run("true").returncode == 0
    except OSError:
        return False
