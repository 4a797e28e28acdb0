"""RPM packages installed, upgraded and erased by rpm itself, scriptlets and all, on a copy of this machine's system.

In every run of the tests they are made of a few files, by the spec of the real ones; `make deb-test` does it with the real ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_system import ROOT, CleanSystem, can_overlay

DIST = os.environ.get("FIKIT_PACKAGES", "")
CONFIG = "/etc/fikit/fikit.toml"
# As in the real ones, /usr/lib/fikit/native is a link to it: a directory in its place would be no upgrade.
NATIVE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/fikitd/native"
PLUGIN = f"usr/lib/fikit/{NATIVE}/slurm/spank_fikit.so"
SMALL = {
    "fikit": {
        "usr/lib/fikit/bin/fikitd": "#!/bin/sh\necho fikitd\n",
        "usr/lib/fikit/lib/fikitd/main.py": "print(1)\n",
        "usr/lib/systemd/system/fikitd.service": "[Service]\nExecStart=/usr/lib/fikit/bin/fikitd\n",
        "usr/lib/tmpfiles.d/fikit.conf": "d /run/fikit 0755\n",
        "etc/fikit/fikit.toml": "[daemon]\n",
    },
    "fikit-slurm": {PLUGIN: "a plugin\n"},
}
# Says what it was asked, in the place of the machine's own.
SYSTEMCTL = '#!/bin/sh\necho systemctl "$@" >>/srv/calls\n'


def small_stage(directory: Path, config: str = "") -> Path:
    for package, files in SMALL.items():
        for name, text in files.items():
            path = directory / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + (config if name.endswith(".toml") else ""))
            path.chmod(0o755 if "/bin/" in name else 0o644)
    (directory / "fikit/usr/lib/fikit/native").symlink_to(NATIVE)
    return directory


def built(stage: Path, top: Path, version: str) -> list[Path]:
    command = ["bash", ROOT / "scripts/rpm_of.sh", stage, top, version, "python3", "22.05"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(top.glob("out/*/*.rpm"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Of two versions; the newer one has another fikit.toml."""
    if shutil.which("rpmbuild") is None:
        pytest.skip("needs rpmbuild (Debian package rpm)")
    directory = tmp_path_factory.mktemp("rpms")
    old = sorted(Path(DIST).glob("fikit*.rpm")) if DIST else []
    return {
        "old": old or built(small_stage(directory / "1"), directory / "rpm1", "0.0.1"),
        "new": built(small_stage(directory / "2", "# new\n"), directory / "rpm2", "99.0"),
    }


@pytest.fixture
def system(tmp_path: Path, packages: dict[str, list[Path]]) -> Iterator[CleanSystem]:
    """A copy of this machine's system without packages, with systemd running as far as a scriptlet can see."""
    if not can_overlay(tmp_path / "try"):
        pytest.skip("needs root and overlayfs")
    system = CleanSystem(Path("/"), tmp_path / "system")
    for age, files in packages.items():
        for package in files:
            system.write(f"/srv/{age}/{package.name}", "")
            shutil.copy(package, system.upper / "srv" / age / package.name)
    for name in ("systemctl", "systemd-tmpfiles"):
        system.write(f"/usr/bin/{name}", SYSTEMCTL.replace("systemctl", name))
        (system.upper / "usr/bin" / name).chmod(0o755)
    system.checked("rpm --initdb")
    yield system
    shutil.rmtree(tmp_path / "system", ignore_errors=True)


def installed(system: CleanSystem) -> set[str]:
    """What a package may bring; elsewhere the machine's other programs write meanwhile."""
    places = ("/usr/", "/etc/", "/var/lib/")
    return {path for path in system.files() if path.startswith(places) and not path.startswith("/var/lib/rpm")}


def rpm(system: CleanSystem, words: str, before: str = "mkdir -p /run/systemd/system") -> list[str]:
    """One call of rpm; what its scriptlets asked systemd. Slurm is none of rpm's packages here, so --nodeps."""
    system.checked(f"{before}; : >/srv/calls; rpm --nodeps --nosignature {words}")
    return system.checked("cat /srv/calls").splitlines()


def test_packages_come_and_go_without_a_trace(system: CleanSystem) -> None:
    before = installed(system)
    assert rpm(system, "-i /srv/old/*.rpm") == [
        "systemctl daemon-reload", "systemd-tmpfiles --create fikit.conf",
    ]  # fmt: skip
    there = installed(system) - before
    assert {CONFIG, f"/{PLUGIN}", "/usr/lib/systemd/system/fikitd.service"} <= there
    system.checked("test -f /usr/lib/fikit/native/slurm/spank_fikit.so")
    system.checked("test -x /usr/lib/fikit/bin/fikitd && rpm -V --nodeps fikit fikit-slurm")
    # Python leaves such things, and rpm does not know of them.
    system.checked("mkdir /usr/lib/fikit/__pycache__ && touch /usr/lib/fikit/__pycache__/x.pyc")
    calls = rpm(system, "-e fikit fikit-slurm")
    assert calls == [
        "systemctl stop fikitd.service fikit-place-clear.timer fikit-place.service",
        "systemctl daemon-reload",
    ]
    assert installed(system) ^ before == set()


def test_what_slurm_still_loads_is_not_erased(system: CleanSystem) -> None:
    rpm(system, "-i /srv/old/*.rpm")
    system.checked("mkdir -p /etc/slurm")
    for name, line in (
        ("plugstack.conf", "required /usr/lib/fikit/native/slurm/spank_fikit.so"),
        (
            "cli_filter.lua",
            "do local r = dofile('/usr/lib/fikit/native/slurm/cli_filter.lua') if r then return r end end",
        ),
    ):
        system.write(f"/etc/slurm/{name}", line + "\n")
        refused = system.run("rpm -e fikit fikit-slurm")
        assert refused.returncode != 0
        assert f"out of /etc/slurm/{name}" in refused.stdout
        system.checked("rpm -q fikit fikit-slurm && test -e /" + PLUGIN)
        system.write(f"/etc/slurm/{name}", f"# {line}\n" if name.endswith("conf") else f"-- {line}\n")
    rpm(system, "-U /srv/new/*.rpm")
    rpm(system, "-e fikit fikit-slurm")


def test_an_upgrade_leaves_the_daemon_to_its_jobs_and_the_configuration_to_its_owner(system: CleanSystem) -> None:
    rpm(system, "-i /srv/old/*.rpm")
    system.checked(f"echo '# mine' >>{CONFIG}")
    calls = rpm(system, "-U /srv/new/*.rpm")
    assert not any("systemctl stop" in call for call in calls)
    assert "systemctl daemon-reload" in calls
    assert "# mine" in system.checked(f"cat {CONFIG}")
    assert "# new" in system.checked(f"cat {CONFIG}.rpmnew")
    assert system.checked("rpm -q --qf '%{VERSION}\\n' fikit fikit-slurm").split() == ["99.0", "99.0"]
    rpm(system, "-e fikit fikit-slurm")
    assert "# mine" in system.checked(f"cat {CONFIG}.rpmsave")


def test_without_systemd_nobody_asks_it(system: CleanSystem) -> None:
    assert rpm(system, "-i /srv/old/*.rpm", before="true") == []
    assert rpm(system, "-e fikit fikit-slurm", before="true") == []


def test_the_plugin_insists_on_its_slurm(packages: dict[str, list[Path]]) -> None:
    [plugin] = [package for package in packages["new"] if package.name.startswith("fikit-slurm")]
    done = subprocess.run(
        ["rpm", "-qp", "--requires", "--nosignature", plugin], capture_output=True, text=True, check=True
    )
    assert {"slurm >= 22.05", "slurm < 22.06", "fikit = 99.0"} <= set(done.stdout.splitlines())
