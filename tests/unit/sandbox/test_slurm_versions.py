"""Slurm of several release lines: plugins built for one, and systems of their own in which another one runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fikit.sandbox import package_sources, slurm_root
from fikit.sandbox.package_sources import Source
from fikit.sandbox.slurm_root import SlurmRootError
from fikit.slurm import versions as slurm_versions

from fikitd import paths

ROOT = Path(__file__).resolve().parents[3]
HEADERS = Path("/usr/include/slurm")
MAKE = ["make", "-s", "slurm-plugin"]

needs_headers = pytest.mark.skipif(not (HEADERS / "spank.h").exists(), reason="Debian's libslurm-dev is not installed")


def can_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ((22, 5, 8), "under which fikit is tested"),
        ((25, 5, 5), "whose sources fikit was checked against; its tests run under 22.05, 24.11, 26.05"),
        ((25, 11, 7), "whose sources fikit was checked against; its tests run under 22.05, 24.11, 26.05"),
        ((23, 2, 1), "which nobody has tried with fikit; its tests run under 22.05, 24.11, 26.05"),
    ],
)
def test_what_is_known_of_a_release_line_is_said(version: tuple[int, ...], words: str) -> None:
    assert slurm_versions.known(version) == words


def test_the_lines_that_are_tested_are_those_that_the_sandbox_has() -> None:
    assert set(slurm_root.RELEASES) <= set(slurm_versions.TESTED)


@pytest.mark.starts_processes
@needs_headers
def test_plugin_is_built_for_the_slurm_whose_headers_it_is_given(tmp_path: Path) -> None:
    shutil.copytree(HEADERS, tmp_path / "include" / "slurm")
    version = tmp_path / "include" / "slurm" / "slurm_version.h"
    lines = [line for line in version.read_text().splitlines() if not line.startswith("#define SLURM_VERSION_NUMBER")]
    guard = next(number for number, line in enumerate(lines) if line.startswith("#define"))
    lines.insert(guard + 1, "#define SLURM_VERSION_NUMBER 0x630102")
    version.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    made = subprocess.run(
        [*MAKE, f"SLURM_INCDIR={tmp_path}/include", f"OUT={out}"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith("the plugin for Slurm 99.01\n")
    plugin = out / "spank_fikit.so"
    assert slurm_versions.mismatch(plugin, (99, 1, 5)) is None
    assert slurm_versions.mismatch(plugin, (22, 5, 8)) == f"{plugin} was built for Slurm 99.01, this is 22.05"
    assert {path.name for path in out.glob("*.lua")} == {path.name for path in paths.slurm_dir().glob("*.lua")}


@pytest.mark.starts_processes
@needs_headers
def test_plugin_is_built_for_the_slurm_that_is_installed(tmp_path: Path) -> None:
    """Also where that lies in a directory of its own, and Debian's headers are on the machine."""
    shutil.copytree(HEADERS, tmp_path / "slurm" / "include" / "slurm")
    (tmp_path / "slurm" / "bin").mkdir()
    (tmp_path / "slurm" / "bin" / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "slurm" / "bin" / "srun").chmod(0o755)
    path = f"{tmp_path}/slurm/bin:{os.environ['PATH']}"
    made = subprocess.run(
        [*MAKE, f"OUT={tmp_path}/out"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        text=True,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    include = tmp_path / "out" / "build" / "include" / "slurm"
    assert include.resolve() == tmp_path / "slurm" / "include" / "slurm"


@pytest.mark.starts_processes
def test_headers_that_are_not_there_are_not_replaced_by_the_machines_own(tmp_path: Path) -> None:
    made = subprocess.run(
        [*MAKE, f"SLURM_INCDIR={tmp_path}", f"OUT={tmp_path}/out"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert made.returncode != 0
    assert f"SLURM_INCDIR={tmp_path} has no slurm/spank.h" in " ".join(made.stderr.split())
    assert not (tmp_path / "out" / "spank_fikit.so").exists()


SOURCE = Source("http://mirror.example/debian")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An old machine of root's with a debootstrap that only says that it ran and fails; returns its directory of programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    debootstrap = programs / "debootstrap"
    debootstrap.write_text('#!/bin/sh\nmkdir "$3"\necho "asked for $2 from $4"\nexit 3\n')
    debootstrap.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(slurm_versions, "SYSTEM_PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.31")
    monkeypatch.setattr(package_sources, "machine", lambda: [SOURCE])
    monkeypatch.setattr(package_sources, "with_suite", lambda sources, suite, architecture: next(iter(sources), None))
    return programs


def refusal(line: str) -> str:
    with pytest.raises(SlurmRootError) as error:
        slurm_root.command(line, ["true"])
    return str(error.value)


def test_only_root_can_have_another_slurm(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 33)
    assert refusal("24.11") == (
        "Slurm 24.11 is not this machine's, and only root can run it in a Debian 13 of its own: use sudo"
    )


def test_missing_debootstrap_is_named(machine: Path) -> None:
    (machine / "debootstrap").unlink()
    assert "made by debootstrap: install that package" in refusal("26.05")


def test_machine_without_package_sources_is_told_what_is_missing(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_sources, "machine", list)
    assert refusal("24.11") == (
        "Slurm 24.11 is installed from Debian 13 (trixie), and this machine has no package sources of its own: "
        "give apt one that has it, in /etc/apt/sources.list"
    )


@pytest.mark.starts_processes
def test_machine_whose_sources_do_not_have_the_release_is_told_which_one_is_missing(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_sources, "with_suite", lambda sources, suite, architecture: None)
    assert refusal("26.05") == (
        "Slurm 26.05 is installed from Debian sid (sid), which none of this machine's package sources has or gives now: "
        "give apt one that has it, in /etc/apt/sources.list"
    )


@pytest.mark.starts_processes
def test_system_older_than_the_machine_is_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.41")
    assert "its Debian 12 is older than this machine" in refusal("22.05")
    assert "than this machine" not in refusal("24.11")


@pytest.mark.starts_processes
def test_system_that_cannot_be_made_leaves_its_log_and_is_tried_again(machine: Path, tmp_path: Path) -> None:
    log = tmp_path / "cache" / "fikit" / "slurm-24.11.log"
    for _ in range(2):  # the second time the first one's remains are in the way
        sentence = refusal("24.11")
        assert sentence == (
            "a Debian 13 with Slurm 24.11 could not be made: debootstrap failed, its output is in " + str(log)
        )
    assert log.read_text().startswith("asked for trixie from http://127.0.0.1:")
    assert not slurm_root.RELEASES["24.11"].root.exists()


@pytest.mark.starts_processes
@pytest.mark.skipif(not can_mount(), reason="needs root and the right to mount")
def test_command_runs_in_the_other_system_with_the_machines_files(tmp_path: Path) -> None:
    """The machine's own /usr is the other system's here, shown a second time."""
    root, plugin = tmp_path / "root", tmp_path / "plugin"
    for directory in ("usr", "etc", "var"):
        (root / directory).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "etc" / "system").write_text("the other\n")
    plugin.mkdir()
    (plugin / "spank_fikit.so").write_text("its plugin\n")
    script = (
        f'cat /etc/system {paths.slurm_dir()}/spank_fikit.so; pwd; "{sys.executable}" -c "import fikitd._core"; exit 5'
    )
    command = slurm_root.in_root(root, plugin, ["sh", "-c", script])
    command[-1] = f"mount --bind /usr {root}/usr\n{command[-1]}"
    done = subprocess.run(command, text=True, capture_output=True, check=False, cwd=Path.cwd())
    assert done.stdout.splitlines() == ["the other", "its plugin", str(Path.cwd())], done.stderr
    assert done.returncode == 5
    assert not list((root / "usr").iterdir())  # the mounts were that command's own
