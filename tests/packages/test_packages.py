"""The Debian packages in a clean Debian: they install, run, do what docs/admin.md says and leave nothing; and the RPM's files are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_system import CleanSystem, make_site, page_commands

DEBIAN, DIST = (os.environ.get(name, "") for name in ("FIKIT_CLEAN_DEBIAN", "FIKIT_PACKAGES"))
pytestmark = pytest.mark.skipif(not (DEBIAN and DIST), reason="needs packages and a clean Debian: make deb-test")

# What the page's commands make or change, and apt does not know of.
OF_THE_PAGE = ("/etc/slurm/job_submit.lua", "/etc/slurm/cli_filter.lua", "/shared")


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CleanSystem, set[str]]]:
    """A clean Debian with Slurm after the page's commands, and the paths that it had before."""
    directory = tmp_path_factory.mktemp("debian")
    system = CleanSystem(Path(DEBIAN), directory)
    make_site(system)
    for package in sorted(Path(DIST).glob("fikit*.deb")):
        target = system.upper / "root" / package.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(package, target)
    before = system.files()
    assert "/usr/sbin/slurmd" in before
    system.checked("\n".join(["set -e", *page_commands()[:-1]]))
    yield system, before
    shutil.rmtree(directory, ignore_errors=True)


def listed(package: Path) -> set[str]:
    """The files of a .deb."""
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    names = subprocess.run(["tar", "-tf", "-"], input=done.stdout, capture_output=True, check=True).stdout.decode()
    return {"/" + name.removeprefix("./") for name in names.splitlines() if not name.endswith("/")}


def test_packages_install_and_doctor_is_content(debian: tuple[CleanSystem, set[str]]) -> None:
    system, _ = debian
    assert system.checked("fikit --version && fikit-report --help >/dev/null && fikit limits").startswith("fikit ")
    done = system.run(page_commands()[-1])
    assert done.returncode == 0, done.stdout
    assert "fail" not in done.stdout
    demo = system.run(
        "fikit run --emulated --priority high -- python3 -c 'import ctypes; print(ctypes.CDLL(\"libcuda.so.1\").cuInit(0))'"
    )
    assert demo.stdout.splitlines()[0] == "0", demo.stdout


def test_purge_leaves_nothing(debian: tuple[CleanSystem, set[str]]) -> None:
    system, before = debian
    whole = system.files()
    refused = system.run("apt-get purge -y fikit fikit-slurm")
    assert refused.returncode != 0
    for name in ("plugstack.conf", "job_submit.lua", "cli_filter.lua"):
        assert f"/etc/slurm/{name}" in refused.stdout
    assert whole - system.files() == set()
    system.checked(
        "fikit doctor >/dev/null; cd /etc/slurm; fikit lua --remove; sed -i '/spank_fikit/s/^/# /' plugstack.conf;"
        " apt-get purge -y fikit fikit-slurm"
    )
    left = {path for path in system.files() - before if not path.startswith(OF_THE_PAGE)}
    assert left == set()
    assert before - system.files() == set()


def test_the_rpms_have_the_files_of_the_debian_packages() -> None:
    rpms = sorted(Path(DIST).glob("fikit*.rpm"))
    assert len(rpms) == 2
    done = subprocess.run(["rpm", "-qlp", "--nosignature", *rpms], capture_output=True, text=True, check=True)
    of_rpms = {path for path in done.stdout.splitlines() if not path.startswith("/usr/lib/.build-id")}
    of_debs = {path for package in Path(DIST).glob("fikit*.deb") for path in listed(package)}
    assert {path for path in of_rpms if path in of_debs} == of_debs
    parents = {str(parent) for path in of_debs for parent in Path(path).parents}
    assert of_rpms - of_debs <= parents


def test_the_rpms_install_below_a_root_of_their_own(tmp_path: Path) -> None:
    rpms = sorted(Path(DIST).glob("fikit*.rpm"))
    subprocess.run(["rpm", "--root", tmp_path, "--nodeps", "--noscripts", "--nosignature", "-i", *rpms], check=True)
    assert (tmp_path / "usr/lib/fikit/native/slurm/spank_fikit.so").is_file()
    assert (tmp_path / "etc/fikit/fikit.toml").is_file()
    needs = subprocess.run(
        ["rpm", "-qp", "--requires", "--nosignature", *rpms], capture_output=True, text=True, check=True
    ).stdout
    assert "python(abi)" in needs or "python3" in needs
    assert "slurm" in needs
