"""fikit.toml, fikitd's sockets, and the directories of reports and profiles."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.base import build
from fikitd.config import fikit_toml
from fikitd.store import mounts, own_directory

from fikit import site_paths
from fikit.checks.check import Check, fail, ok, warn
from fikit.disk_space import is_full
from fikit.errors import UserError
from fikit.site_paths import Place
from fikit.wording import gpu_switch

RESTART: Final = "systemctl restart fikitd: running jobs go on with the next one"


def area() -> Iterator[Check]:
    try:
        found = site_paths.places()
    except UserError as error:
        yield fail("fikit.toml", error.format_message(), "correct the file; `fikitd --check-config` checks it again")
        return
    machine = found[0]
    yield configuration(machine.config_file)
    yield daemon(machine)
    yield from switches(machine)
    for name, directory in (("report_dir", machine.report_dir), ("profile_dir", machine.profile_dir)):
        yield unreadable(name, directory) or storage(name, directory)


def configuration(file: Path | None) -> Check:
    """It could be read here; users' sbatch and srun read it too."""
    if file is None:
        return ok("fikit.toml", "none, defaults are in force")
    if not file.stat().st_mode & stat.S_IROTH:
        return fail("fikit.toml", f"users cannot read {file}, and their sbatch and srun do", f"chmod a+r {file}")
    return ok("fikit.toml", str(file))


def daemon(place: Place) -> Check:
    """Does fikitd answer, and is its directory safe? Under Slurm it starts with the first job that needs it."""
    if is_open(place.run_dir):
        return fail("fikitd", f"everybody can write in {place.run_dir}", f"chmod 0755 {place.run_dir}")
    if is_closed(place.run_dir):
        found = f"users cannot enter {place.run_dir}, and their programs meet fikitd there"
        return fail("fikitd", found, f"chmod 0755 {place.run_dir}")
    try:
        answer = Control(place.run_dir).ping()
    except (DaemonUnreachable, ControlError) as error:
        return warn("fikitd", str(error), "nothing to do if no job runs: the first job that shares a GPU starts it")
    if answer.split()[1:2] != [build.identity()]:
        found = f"{answer} runs, {build.identity()} is installed"
        return warn("fikitd", found, RESTART)
    if is_of_before(place):
        return warn("fikitd", f"{answer} goes by what {place.config_file} said when it started", RESTART)
    return ok("fikitd", f"{answer}, in {place.run_dir}")


def is_of_before(place: Place) -> bool:
    """Whether fikit.toml says something else now than to the fikitd that runs; not where a fikitd of before does not tell."""
    try:
        running = Control(place.run_dir).node().get("config")
        return bool(running) and running != fikit_toml.load().mark()
    except (DaemonUnreachable, ControlError, fikit_toml.ConfigError):
        return False


def switches(place: Place) -> Iterator[Check]:
    """What fikitd has measured of the GPUs that jobs share now; nothing where it does not run, which daemon() says."""
    try:
        gpus = Control(place.run_dir).node()["gpus"]
    except (DaemonUnreachable, ControlError):
        return
    for gpu in gpus:
        if gpu.get("switch") is not None:  # of a fikitd of before nothing is said
            yield ok("GPU switch", f"{gpu['uuid']}: {gpu_switch.measured(gpu['switch'])}")


def is_open(directory: Path) -> bool:
    """Whether others than its owner can write in it."""
    return directory.is_dir() and bool(directory.stat().st_mode & 0o022)


def is_closed(directory: Path) -> bool:
    """Whether it is root's, for all users, and they cannot enter it; nobody else's directory is meant for others."""
    there = directory.stat() if directory.is_dir() else None
    return there is not None and there.st_uid == 0 and not there.st_mode & stat.S_IXOTH


def unreadable(name: str, directory: Path) -> Check | None:
    """A directory of root's that users cannot look into, as their fikit-report and sbatch do; root would not notice."""
    status = directory.stat() if directory.is_dir() else None
    if status is None or status.st_uid != 0 or status.st_mode & 0o005 == 0o005:
        return None
    return warn(name, f"users cannot look into {directory}, and their fikit-report does", f"chmod o+rx {directory}")


def storage(name: str, directory: Path) -> Check:
    """Reports and profiles are written as the job's user, below a directory that exists."""
    return absent(name, directory) or unwritable(name, directory) or taken(name, directory) or ok(name, str(directory))


def absent(name: str, directory: Path) -> Check | None:
    """It, or the file system that it should be on; fikitd makes it alone, and nothing above it."""
    if (point := mounts.missing_above(directory)) is not None:
        return fail(name, f"{directory} is below {point}, whose file system is not mounted here", f"mount {point}")
    if directory.is_dir():
        return None
    if not directory.parent.is_dir() and directory.parent != own_directory.LOCAL_STATE:
        advice = f"mount its file system, or make it: fikitd makes {directory.name} alone"
        return fail(name, f"there is no {directory.parent}, and nothing is stored", advice)
    advice = f"make it on shared storage, or set {name} in fikit.toml (`fikit run` uses a directory of your own)"
    return warn(name, f"{directory} does not exist", advice)


def unwritable(name: str, directory: Path) -> Check | None:
    """Who may write there, and whether it takes anything."""
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return fail(name, f"everybody can delete others' files in {directory}", f"chmod 1777 {directory}")
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        return fail(name, f"{directory} is on a file system that is mounted read-only here", "mount it for writing")
    if not os.access(directory, os.W_OK | os.X_OK):
        return warn(name, f"you cannot write in {directory}", f"chmod 1777 {directory}, if users are to store there")
    if is_full(directory):
        return fail(
            name, f"there is no room on the file system of {directory}", "make room: nothing is stored meanwhile"
        )
    return None


def taken(name: str, directory: Path) -> Check | None:
    """Somebody else has the name of one's own directory there, as anybody may where all can write."""
    own = directory / str(os.getuid())
    if not os.path.lexists(own) or own_directory.belongs(own, os.getuid()):
        return None
    found = f"{own}, which has your name, is uid {own.lstat().st_uid}'s; yours have another one there"
    return warn(name, found, "tell whoever looks after the storage")
