"""A machine with a GPU and little else, for runs of bench/gpu: a copy of the tree with only what travels, and the emulated driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from bench.record import ROOT

# What a machine with a GPU has: no toml++, hypothesis, xdist, tomlkit, pynvml, scikit-build-core, and nothing of Slurm.
PACKAGES = ("nanobind", "click", "rich", "pygments", "markdown_it", "mdurl", "pytest", "_pytest", "pluggy", "iniconfig",
            "packaging", "ninja")  # fmt: skip
HIDDEN = (
    "/usr/include/toml++",
    "/usr/include/slurm",
    "/usr/lib/x86_64-linux-gnu/slurm-wlm",
    "/etc/slurm",
    "/run/fikit",
)
SLURM = (
    *(f"/usr/sbin/{name}" for name in ("munged", "slurmctld", "slurmd", "slurmstepd")),
    *(f"/usr/bin/{name}" for name in ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")),
    *(
        f"/usr/lib/x86_64-linux-gnu/{name}"
        for name in ("libhwloc.so.15", "libjson-c.so.5", "liblua5.1.so.0", "libmunge.so.2")
    ),
)
"""Slurm's programs and libraries: an empty file takes the place of each."""


class Machine:
    """A copy of the tree without git, a Python with those packages, and the emulated driver where a driver is."""

    def __init__(self, root: Path, native: Path) -> None:
        self.root, self.tree, self.name = root, root / "tree", f"bare-{uuid.uuid4().hex[:8]}"
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True)
        (site,) = (root / "venv" / "lib").glob("python3*/site-packages")
        own = Path(pytest.__file__).parents[1]
        for package in PACKAGES:
            (site / package).symlink_to(own / package)
        shutil.copytree(native / "emulator", root / "driver")
        (root / "bin").mkdir()  # the emulated MPS looks for emuctl here, and the kit's Slurm on PATH
        shutil.copy2(native / "bin" / "emuctl", root / "bin")
        (root / "venv" / "bin" / "emuctl").symlink_to(root / "bin" / "emuctl")

    def env(self, **more: str) -> dict[str, str]:
        """Nothing of this session's, a HOME that is none, and the driver."""
        return {
            "PATH": f"{self.root}/venv/bin:/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C",
            "LD_LIBRARY_PATH": str(self.root / "driver"), "EMUCUDA_NAME": self.name, **more,
        }  # fmt: skip

    def alone(self) -> list[str]:
        """Without the hidden files, and with the loopback as the only network, where we may do that; else as it is."""
        hide = "".join(f"mount -t tmpfs none {path}; " for path in HIDDEN if Path(path).is_dir())
        hide += "".join(f"mount --bind {os.devnull} {path}; " for path in SLURM if Path(path).exists())
        hide += "/usr/sbin/ip link set lo up 2>&1; "
        command = ["unshare", "--mount", "--net", "sh", "-c", f'{hide}exec "$@"', "sh"]
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
        return command if tried.returncode == 0 else []

    def bring_core(self, native: Path) -> dict[str, str]:
        """Half a minute of two cores builds the core, which is the same as here: the environment for a run without it."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        target = self.tree / "build/gpu/venv/lib" / version / "site-packages/fikitd"
        target.mkdir(parents=True)
        for name in ("_core", "_placement", "_residency"):
            for module in native.parent.glob(f"{name}.*.so"):
                shutil.copy2(module, target)
        return {"BENCH_BUILD_ONLY": "native shim"}

    def run(self, *arguments: str, timeout: float = 240, **more: str) -> subprocess.CompletedProcess[str]:
        command = [*self.alone(), "bash", str(self.tree / "bench/gpu/run.sh"), *arguments]
        return subprocess.run(
            command, env=self.env(**more), cwd="/", capture_output=True, text=True, check=False, timeout=timeout
        )


def alive(word: str) -> list[str]:
    """Command lines with this word in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found
