"""`make install` and `make uninstall`: puts what .venv runs into PREFIX, below DESTDIR for packages, and takes it away.

PREFIX/lib/fikit is the application, all of it: a virtual environment with fikit, its Python packages and the native files
(as `native`). Outside of it are links to its commands, manual pages, the systemd unit, tmpfiles.d, and /etc/fikit/fikit.toml.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import build_id
import completion
import fikit
import man
from fikitd.base import build
from packaging.requirements import Requirement

import fikitd

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
APPLICATION = "lib/fikit"
# What site/ and the manual pages say; an installation elsewhere has them with its own place.
DOCUMENTED = "/usr/lib/fikit"
UNITS = ("fikitd.service", "fikit-place.service", "fikit-place-clear.service", "fikit-place-clear.timer")
# Lines for files of the site's own, and what other programs read.
EXAMPLES = (
    "slurm.conf", "gres.conf", "plugstack.conf", "task_prolog_mig", "prometheus_rules.yml", "grafana_dashboard.json",
)  # fmt: skip
COMMANDS = {"fikit": "bin", "fikit-report": "bin", "fikitd": "sbin"}
CONFIG = Path("/etc/fikit/fikit.toml")
MAIL = "fikit-mail"  # Slurm runs it by its path, and it runs fikit: it lies beside it
LEFT_BY_PYTHON = "__pycache__"


class Installation:
    """Where everything goes. Paths are without `destdir`; `at` says where a path lies now."""

    def __init__(self, prefix: Path, destdir: Path | None) -> None:
        self.prefix, self._destdir = prefix, destdir
        self.application = prefix / APPLICATION
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = self.application / "lib" / version / "site-packages"
        self.python = _python(version)

    def at(self, path: Path) -> Path:
        return self._destdir / path.relative_to("/") if self._destdir else path

    def copy(self, source: Path, target: Path) -> None:
        mode = 0o755 if source.stat().st_mode & 0o100 else 0o644
        self._put(target, lambda there: shutil.copy2(source, there), mode)

    def write(self, target: Path, text: str, mode: int = 0o644) -> None:
        self._put(target, lambda there: there.write_text(text), mode)

    def link(self, target: Path, to: Path) -> None:
        self._put(target, lambda there: there.symlink_to(to))

    def _put(self, target: Path, make: Callable[[Path], object], mode: int | None = None) -> None:
        """Made beside it and renamed: programs of running jobs have the old shim mapped, and go on with it."""
        there = self.at(target)
        there.parent.mkdir(parents=True, exist_ok=True)
        made = there.with_name(f".{there.name}.new")
        made.unlink(missing_ok=True)
        make(made)
        if mode is not None:
            made.chmod(mode)
        made.replace(there)

    def here(self, text: str) -> str:
        return text.replace(DOCUMENTED, str(self.application))

    def outside(self) -> dict[Path, str | Path]:
        """What lies outside of the application: a text, or what a link leads to."""
        share, lib = self.prefix / "share", self.prefix / "lib"
        found: dict[Path, str | Path] = {
            self.prefix / folder / name: self.application / "bin" / name for name, folder in COMMANDS.items()
        }
        for name, text in man.pages().items():
            found[share / "man" / f"man{name[-1]}" / name] = self.here(text)
        for place, text in completion.files().items():
            found[share / place] = text
        for name in UNITS:
            found[lib / "systemd" / "system" / name] = self.here((SITE / name).read_text())
        found[lib / "tmpfiles.d" / "fikit.conf"] = (SITE / "tmpfiles.conf").read_text()
        for name in EXAMPLES:
            found[share / "doc" / "fikit" / "examples" / name] = self.here((SITE / name).read_text())
        return found


def _python(version: str) -> Path:
    """The interpreter of the installation: the system's, if it is of the version for which .venv was built."""
    system = Path("/usr/bin") / version
    return system if system.exists() else Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def closed_to_others(python: Path) -> str:
    """What to say of an interpreter that only its owner can run, in root's home for example; empty for all others."""
    closed = next((directory for directory in python.parents if not directory.stat().st_mode & stat.S_IXOTH), None)
    if closed is None:
        return ""
    return (
        f"install: other users cannot run the installed commands, because they may not enter {closed}, where their Python "
        f"({python}) is: remove .venv, then PYTHON=/usr/bin/python3 make setup"
    )


def changed_since_the_build() -> str:
    """What to say where the sources are not those that .venv was built from; empty where they are."""
    built, now = build.identity(), build_id.build_id(ROOT)
    if built.endswith(f"+{now}"):
        return ""
    return f"install: the sources have changed since .venv was built, and all of it is installed as {built}, which it is not: make build first"


def _tree(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and LEFT_BY_PYTHON not in path.parts:
            yield path


def _own_files() -> Iterator[tuple[Path, Path]]:
    """fikit's and fikitd's files; a package of an editable build lies in several directories."""
    for package in (fikit, fikitd):
        for directory in map(Path, package.__path__):
            for path in _tree(directory):
                yield path, Path(package.__name__) / path.relative_to(directory)


def _needed() -> list[metadata.Distribution]:
    """The packages that fikit runs with, and those that they need."""
    found: dict[str, metadata.Distribution] = {}
    todo = [metadata.distribution("fikit")]
    while todo:
        for text in todo.pop().requires or []:
            wish = Requirement(text)
            if wish.name not in found and (wish.marker is None or wish.marker.evaluate({"extra": ""})):
                found[wish.name] = metadata.distribution(wish.name)
                todo.append(found[wish.name])
    return list(found.values())


def _package_files() -> Iterator[tuple[Path, Path]]:
    for file in metadata.distribution("fikit").files or []:
        if file.parent.suffix == ".dist-info" and file.name in {"METADATA", "entry_points.txt"}:
            yield Path(str(file.locate())), Path(file)
    for package in _needed():
        for file in package.files or []:
            if ".." not in file.parts and LEFT_BY_PYTHON not in file.parts:
                yield Path(str(package.locate_file(file))), Path(file)


def install(place: Installation) -> None:
    for source, name in (*_own_files(), *_package_files()):
        place.copy(source, place.packages / name)
    place.write(
        place.application / "pyvenv.cfg", f"home = {place.python.parent}\ninclude-system-site-packages = false\n"
    )
    place.link(place.application / "bin" / "python", place.python)
    entries = metadata.distribution("fikit").entry_points.select(group="console_scripts")
    for entry in entries:
        # -I: root's daemon takes no modules from where somebody's environment says.
        text = (f"#!{place.application}/bin/python -I\nimport sys\nfrom {entry.module} import {entry.attr}\n"
                f"sys.exit({entry.attr}())\n")  # fmt: skip
        place.write(place.application / "bin" / entry.name, text, 0o755)
    place.write(place.application / "bin" / MAIL, place.here((SITE / MAIL).read_text()), 0o755)
    place.link(place.application / "native", (place.packages / "fikitd" / "native").relative_to(place.application))
    for path, content in place.outside().items():
        place.write(path, content) if isinstance(content, str) else place.link(path, content)
    if not place.at(CONFIG).exists():
        place.copy(SITE / CONFIG.name, CONFIG)


def uninstall(place: Installation) -> None:
    shutil.rmtree(place.at(place.application), ignore_errors=True)
    gone = list(place.outside())
    if place.at(CONFIG).exists():
        if place.at(CONFIG).read_bytes() == (SITE / CONFIG.name).read_bytes():
            gone.append(CONFIG)
        else:
            print(f"fikit: {CONFIG} was changed here and stays", file=sys.stderr)
    for path in gone:
        place.at(path).unlink(missing_ok=True)
        _remove_empty(place, path.parent)
    _remove_empty(place, place.application.parent)


def _remove_empty(place: Installation, directory: Path) -> None:
    """Directories that were made for us and have nothing else in them; those of the system have."""
    while len(directory.parts) > 1:
        try:
            place.at(directory).rmdir()
        except OSError:
            return
        directory = directory.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["install", "uninstall"])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--destdir", type=Path)
    options = parser.parse_args()
    os.umask(0o022)
    place = Installation(options.prefix, options.destdir.absolute() if options.destdir else None)
    if options.what == "install":
        for warning in filter(None, (closed_to_others(place.python), changed_since_the_build())):
            print(warning, file=sys.stderr)
    install(place) if options.what == "install" else uninstall(place)


if __name__ == "__main__":
    main()
