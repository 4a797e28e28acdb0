"""Slurm of another release line than this machine's: in a Debian of its own, which is made once and kept.

Debian 12, 13 and sid have three lines. Each lies in a directory of the user's cache, made by debootstrap and apt from this
machine's own package sources. A command that is to meet one runs in a mount namespace of its own whose root is that directory,
where everything of the machine that is not its operating system (the user's files, /tmp, /dev, /proc) is where it was, and
fikit's plugin is the one for that line.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fikit.errors import UserError
from fikit.sandbox import accounting as sandbox_accounting
from fikit.sandbox import package_sources
from fikit.sandbox.package_sources import Source
from fikit.slurm import versions as slurm_versions
from fikitd import paths

DEBIAN_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # debootstrap's own choice
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")  # not for the loopback
# What a machine's apt thinks of old snapshots is the machine's: the files come through it.
FROM_LOOPBACK = (
    "-o",
    "Acquire::Check-Valid-Until=false",
    "-o",
    "Acquire::http::Proxy=DIRECT",
    "-o",
    "APT::Sandbox::User=root",
)
# With the C compiler and Python's libraries: tests build programs and run fikit there. And all that a sandbox can be told to have.
PACKAGES = (
    "slurmctld slurmd slurm-client munge libslurm-dev liblua5.1-0 lua5.1 gcc libc6-dev python3 iproute2 bindfs "
    + sandbox_accounting.PACKAGES
)
OPERATING_SYSTEM = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "boot", "lost+found"}
NETWORK_FILES = ("hosts", "hostname", "resolv.conf")
CHECKOUT = Path(__file__).resolve().parents[3]


class SlurmRootError(UserError):
    """A Slurm of another version cannot be had here; one sentence that says why and what to do."""


@dataclass(frozen=True)
class Release:
    """A Debian and the line of Slurm in it. glibc: programs built on a machine with a newer one do not run there."""

    line: str
    suite: str
    name: str
    glibc: tuple[int, ...] | None

    @property
    def root(self) -> Path:
        return _cache() / f"slurm-{self.line}"

    @property
    def log(self) -> Path:
        return _cache() / f"slurm-{self.line}.log"


RELEASES = {
    release.line: release
    for release in (
        Release("22.05", "bookworm", "Debian 12", (2, 36)),
        Release("24.11", "trixie", "Debian 13", (2, 41)),
        Release("26.05", "sid", "Debian sid", None),
    )
}


def installed(line: str) -> bool:
    """Whether the Slurm of this machine (or of the root that we are in) is of that line."""
    version = slurm_versions.installed()
    return version is not None and slurm_versions.line(version) == line


def command(line: str, argv: Sequence[str], on_step: Callable[[str], None] = lambda step: None) -> list[str]:
    """The command that runs `argv` where Slurm is of that line; makes what it needs. Raises SlurmRootError if it cannot."""
    release = RELEASES[line]
    _check_requirements(release)
    with _lock(release):
        if not _is_made(release):
            on_step(f"making a {release.name} with Slurm {line} in {release.root} (once; some minutes)")
            _make(release)
    on_step(f"building the plugin for Slurm {line}")
    return in_root(release.root, _build_plugin(release), argv)


def in_root(root: Path, plugin: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` in a system of its own, with the directory `plugin` for fikit's Slurm files."""
    change = shlex.join(["exec", "chroot", str(root), "env", f"--chdir={Path.cwd()}", *argv])
    script = "\n".join(["set -e", *_mounts(root, plugin), change])
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fikit"


def _check_requirements(release: Release) -> None:
    what = f"Slurm {release.line} is not this machine's"
    if os.geteuid() != 0:
        raise SlurmRootError(f"{what}, and only root can run it in a {release.name} of its own: use sudo")
    if shutil.which("debootstrap", path=slurm_versions.SYSTEM_PATH) is None and not _is_made(release):
        raise SlurmRootError(f"{what}, and a {release.name} to run it in is made by debootstrap: install that package")
    if release.glibc and _glibc() > release.glibc:
        raise SlurmRootError(f"{what}, and its {release.name} is older than this machine, so programs built here do not "
                             "run there: take a newer line, or a machine with that system")  # fmt: skip
    if not (CHECKOUT / "slurm_plugin" / "CMakeLists.txt").is_file():
        raise SlurmRootError(f"{what}, and its plugin is built from fikit's sources: run this in a checkout of them")


def _glibc() -> tuple[int, ...]:
    name = os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0"
    return tuple(int(part) for part in name.split()[1].split("."))


class _lock:
    """Two sandboxes that start at once make one root."""

    def __init__(self, release: Release) -> None:
        release.root.parent.mkdir(parents=True, exist_ok=True)
        self._path = release.root.with_suffix(f"{release.root.suffix}.lock")

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _stamp(root: Path) -> Path:
    """Written when everything is installed: which packages. Another list makes a new root."""
    return root / "etc" / "fikit-packages"


def _is_made(release: Release) -> bool:
    stamp = _stamp(release.root)
    return stamp.is_file() and stamp.read_text() == PACKAGES


def _make(release: Release) -> None:
    unfinished = release.root.with_suffix(f"{release.root.suffix}.partial")
    for left in (unfinished, release.root):
        shutil.rmtree(left, ignore_errors=True)
    source = _source(release)
    with release.log.open("w") as log, package_sources.served(source) as mirror:
        _bootstrap(release, log.fileno(), unfinished, source, mirror)
        no_services = unfinished / "usr" / "sbin" / "policy-rc.d"
        no_services.write_text("#!/bin/sh\nexit 101\n")
        no_services.chmod(0o755)
        within = (
            "chroot",
            str(unfinished),
            "env",
            *(f"--unset={name}" for name in PROXIES),
            "apt-get",
            "-q",
            *FROM_LOOPBACK,
        )
        _run(release, log.fileno(), *within, "update")
        _run(release, log.fileno(), *within, "install", "-y", "--no-install-recommends", *PACKAGES.split())
        _run(release, log.fileno(), *within, "clean")
    answer = subprocess.run(["chroot", unfinished, "slurmd", "-V"], capture_output=True, text=True, check=False)
    if f" {release.line}." not in answer.stdout:
        raise SlurmRootError(f"{release.name} does not have Slurm {release.line} any more, but {answer.stdout.strip()}: "
                             "take another line")  # fmt: skip
    (unfinished / "etc" / "apt" / "sources.list").write_text(f"# made from {source.uri}\n")
    _stamp(unfinished).write_text(PACKAGES)
    unfinished.rename(release.root)


def _source(release: Release) -> Source:
    """The one of this machine's package sources that has the release. Raises SlurmRootError where there is none."""
    what = f"Slurm {release.line} is installed from {release.name} ({release.suite})"
    known = package_sources.machine()
    if not known:
        raise SlurmRootError(f"{what}, and this machine has no package sources of its own: give apt one that has it, in "
                             "/etc/apt/sources.list")  # fmt: skip
    source = package_sources.with_suite(known, release.suite, package_sources.architecture())
    if source is None:
        raise SlurmRootError(f"{what}, which none of this machine's package sources has or gives now: give apt one that has "
                             "it, in /etc/apt/sources.list")  # fmt: skip
    return source


def _bootstrap(release: Release, log: int, target: Path, source: Source, mirror: str) -> None:
    """The base system, and what apt in it needs to believe the source as this machine's does."""
    keys = package_sources.keyring(source, DEBIAN_KEYS)
    with tempfile.TemporaryDirectory(prefix="fikit-keys-") as directory:
        options = ["--no-check-gpg"] if source.trusted else []
        if keys and not source.trusted:
            file = Path(directory) / "keys.gpg"
            file.write_bytes(keys)
            options = [f"--keyring={file}"]
        _run(release, log, "debootstrap", *options, "--variant=minbase", release.suite, str(target), mirror)
    believed = ""
    if source.trusted:
        believed = "[trusted=yes] "
    elif keys:
        (target / "etc" / "apt" / "fikit.gpg").write_bytes(keys)
        believed = "[signed-by=/etc/apt/fikit.gpg] "
    apt = target / "etc" / "apt"
    (apt / "sources.list").write_text(f"deb {believed}{mirror} {release.suite} {package_sources.COMPONENT}\n")


def _run(release: Release, log: int, *command: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in PROXIES}
    env = {**kept, "PATH": slurm_versions.SYSTEM_PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    if subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode:
        raise SlurmRootError(f"a {release.name} with Slurm {release.line} could not be made: {command[0]} failed, its "
                             f"output is in {release.log}")  # fmt: skip


def _build_plugin(release: Release) -> Path:
    """The directory that takes the place of native/slurm."""
    out = CHECKOUT / "build" / f"slurm-{release.line}"
    include = release.root / "usr" / "include"
    make = ["make", "-s", "-C", str(CHECKOUT), "slurm-plugin", f"SLURM_INCDIR={include}", f"OUT={out}"]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SlurmRootError(f"the plugin for Slurm {release.line} could not be built: {done.stderr.strip()}")
    return out


def _mounts(root: Path, plugin: Path) -> Iterator[str]:
    """Shell lines that show the machine's files, all but its operating system, below `root`."""
    yield _bind(root, Path("/"), "--rbind")  # a root that is no mount could not be left for a container's
    for directory in sorted(Path("/").iterdir()):
        if directory.name not in OPERATING_SYSTEM and directory.is_dir() and not directory.is_symlink():
            yield _bind(directory, root, "--rbind")
    for path in sorted({Path.cwd(), CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)} - {Path("/usr")}):
        if path.parts[1:2] and path.parts[1] in OPERATING_SYSTEM:
            yield _bind(path, root)
    for name in NETWORK_FILES:
        if (file := Path("/etc") / name).is_file():
            yield _bind(file, root)
    if Path(sys.base_prefix) == Path("/usr"):
        yield from _system_python(root)
    yield f"mount --bind {shlex.quote(str(plugin))} {shlex.quote(f'{root}{paths.slurm_dir()}')}"


def _system_python(root: Path) -> Iterator[str]:
    """A virtual environment of the system's Python has links to it: they must find it, not that system's own."""
    yield _bind(Path(sysconfig.get_path("stdlib")), root)
    program = shlex.quote(str(Path(sys.executable).resolve()))
    for name in (Path(sys.executable).resolve().name, "python3"):
        target = shlex.quote(f"{root}/usr/bin/{name}")
        yield f"[ -e {target} ] || : >{target}; mount --bind {program} {target}"


def _bind(path: Path, root: Path, how: str = "--bind") -> str:
    source, target = shlex.quote(str(path)), shlex.quote(f"{root}{path}")
    make = f"mkdir -p {target}" if path.is_dir() else f"[ -e {target} ] || : >{target}"
    return f"{make}; mount {how} {source} {target}"
