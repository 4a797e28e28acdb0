"""NVIDIA's own control daemons of MPS, from Debian's packages nvidia-cuda-mps: they run without a GPU, and their servers end at once there.

A package is fetched from the mirror that this machine's apt has, by an apt with a configuration, state and cache of its own, and unpacked
into the user's cache. Nothing is installed, and nothing of the machine's apt changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from fikitd.mps.programs import PROGRAM, SERVER_PROGRAM

PACKAGE = "nvidia-cuda-mps"
SUITES = {"535": "bookworm", "550": "trixie"}  # bookworm-backports has an older 535, trixie-backports the same 550
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_S = 60.0  # of each of apt's two steps
OPTIONS = {
    "Dir::Etc::sourceparts": "-", "Dir::State::status": "/dev/null", "Acquire::Retries": "0", "Acquire::http::Timeout": "10",
    "Acquire::https::Timeout": "10", "APT::Sandbox::User": "root",
}  # fmt: skip


class Missing(Exception):
    """The package cannot be had here; the message says why."""


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fikit-tests" / PACKAGE


def _run(*command: str, cwd: Path) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from None
    if done.returncode:
        raise Missing(f"{command[0]} exited with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _mirrors(directory: Path) -> list[str]:
    """Of Debian's archive, by this machine's own sources. Archives of security updates have another layout."""
    listed = _run(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", cwd=directory
    )
    lines = [line.split() for line in listed.splitlines() if len(line.split()) == 2]
    return list(dict.fromkeys(uri for uri, release in lines if "-security" not in release))


def _fetch(suite: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fikit-apt-") as root:
        directory = Path(root)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (directory / name).mkdir(parents=True)
        signed = f"[signed-by={KEYS}] " if KEYS.exists() else ""
        sources = [f"deb {signed}{mirror} {suite} non-free\n" for mirror in _mirrors(directory)]
        (directory / "sources.list").write_text("".join(sources))
        own = {"Dir::State": "state", "Dir::Cache": "cache", "Dir::Etc::sourcelist": "sources.list"}
        options = [f"-o{name}={value}" for name, value in OPTIONS.items()]
        options += [f"-o{name}={directory / value}" for name, value in own.items()]
        _run("apt-get", *options, "update", cwd=directory)
        _run("apt-get", *options, "download", PACKAGE, cwd=directory)
        (package,) = directory.glob("*.deb")
        _run("dpkg-deb", "-x", str(package), str(into), cwd=directory)


def _unpack(driver: str) -> list[Path]:
    place = _cache() / driver
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as root:
            made = Path(root) / "unpacked"
            _fetch(SUITES[driver], made)
            made.chmod(0o755)
            if not place.is_dir():
                made.rename(place)
    places = f"{place}/usr/bin:{place}/usr/sbin"
    found = [path for name in (PROGRAM, SERVER_PROGRAM) if (path := shutil.which(name, path=places))]
    if len(found) != 2:
        raise Missing(f"the package of driver {driver} has other programs: {found}")
    return [Path(path).parent for path in found]


@cache
def unpacked(driver: str) -> list[Path] | str:
    """The directories of this driver's two programs; or why they cannot be had, which is found out once."""
    try:
        return _unpack(driver)
    except (Missing, OSError) as error:
        return str(error)
