"""Programs in a container: another root, in namespaces of its own, with or without what docs/admin.md mounts into it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster

pytestmark = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
    reason="needs the right to mount",
)
GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"


def container(cluster: Cluster, spin: Path, name: str, mounts: list[Path]) -> Path:
    """A script that runs spin in a system that has the machine's /usr, the GPU's driver, and `mounts`, and no more."""
    sandbox = cluster.sandbox
    driver = [sandbox.root / "native" / "emulator", sandbox.root / "etc" / "emulator.toml"]
    driver = [path for path in driver if path.parent not in mounts]
    root = cluster.directory / f"{name}-root"
    for path in (Path("/usr"), Path("/dev"), *driver, *mounts):
        target = root / path.relative_to("/")
        (target if path.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            target.touch()
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "spin").write_bytes(spin.read_bytes())
    (root / "spin").chmod(0o755)
    binds = [f"mount --rbind {path} {root}{path}" for path in (Path("/usr"), Path("/dev"), *driver)]
    binds += [f"mount --bind -o ro {path} {root}{path}" for path in mounts]
    inside = cluster.script(f"{name}-inside", "set -e", *binds, f"exec chroot {root} /spin 20 20000")
    return cluster.script(name, f"exec unshare --mount --pid --fork --kill-child {inside}")


@pytest.fixture
def shim(cluster: Cluster) -> Path:
    """The directory of the preload libraries, one for each kind of processor."""
    return cluster.sandbox.root / "native"


def test_container_with_the_documented_mounts_is_managed(cluster: Cluster, spin: Path, shim: Path) -> None:
    script = container(cluster, spin, "mounted", [shim, cluster.sandbox.run_dir])
    done = cluster.run("srun", GPU, HIGH, script)
    assert "done" in done.stdout.splitlines(), done.stdout
    assert " high: " in done.stdout
    assert " 20 kernels" in done.stdout


@pytest.mark.parametrize("missing", ["shim", "socket"])
def test_container_without_them_runs_all_the_same_and_says_so(
    cluster: Cluster, spin: Path, shim: Path, missing: str
) -> None:
    mounts = {"shim": [cluster.sandbox.run_dir], "socket": [shim]}[missing]
    done = cluster.run("srun", GPU, HIGH, container(cluster, spin, f"no-{missing}", mounts))
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "done" in lines
    assert len([line for line in lines if "libfikit_shim.so" in line or line.startswith("fikit: ")]) == 1, done.stdout


def test_container_of_another_c_library_runs_silently_without_the_mounts(cluster: Cluster, musl_program: Path) -> None:
    """Alpine's programs: their loader finds no such directory, and says nothing."""
    root = cluster.directory / "musl-root"
    (root / "lib").mkdir(parents=True)
    loader = next(Path("/lib").glob("ld-musl-*.so.1"))
    for file, target in ((loader, root / "lib" / loader.name), (musl_program, root / "program")):
        shutil.copy(file, target)
    inside = cluster.script("musl-inside", f"exec chroot {root} /program /program")
    done = cluster.run("srun", GPU, HIGH, cluster.script("musl", f"exec unshare --mount --pid --fork --kill-child {inside}"))  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "fine\nfine\n")


def test_starter_that_hands_on_few_variables_leaves_its_program_unmanaged_and_silent(cluster: Cluster, spin: Path) -> None:  # fmt: skip
    """As a container runtime with an environment of its own, and every set-uid one."""
    sandbox = cluster.sandbox
    of_emulator = {name: value for name, value in sandbox.emulated[0].items() if name.startswith("EMUCUDA_")}
    few = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": sandbox.root / "native" / "emulator", **of_emulator}
    words = " ".join(f"{name}={value}" for name, value in few.items())
    done = cluster.run("srun", GPU, HIGH, cluster.script("few", f"exec env -i {words} {spin} 5 20000"))
    assert (done.returncode, done.stdout) == (0, "done\n")
