"""The two Lua files beside slurm.conf, and what they load: without them Slurm takes no job, or none that shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fikit.checks.check import Check, fail, ok
from fikit.checks.native import slurm_files
from fikit.slurm import lua_scripts
from fikitd import paths

ADVICE = "`fikit lua` as root writes the line that does"


def area(beside: Path, *, is_sent: bool = False) -> Iterator[Check]:
    """beside: slurm.conf's directory. is_sent: slurmctld has sent it, and keeps job_submit.lua for itself."""
    for name in lua_scripts.NAMES:
        if not is_sent or (beside / name).is_file() or name != "job_submit.lua":
            yield script(beside / name)
    yield from copies(beside)


def script(path: Path) -> Check:
    """One that Slurm loads: it is Lua, it asks fikit's and the site's functions, and what it loads is there."""
    installed = slurm_files() / path.name
    if not path.is_file():
        return fail(path.name, f"{path} does not exist", f"{ADVICE}: {lua_scripts.line(installed)}")
    if said := lua_scripts.fault(path):
        return fail(path.name, f"Slurm cannot read it: {said}", f"mend it; {ADVICE} where it belongs")
    text = lua_scripts.read(path)
    if trouble := lua_scripts.trouble(text, path.name):
        return fail(path.name, f"{path}: {trouble}", f"{ADVICE} first in it: {lua_scripts.line(installed)}")
    missing = [file for file in lua_scripts.loaded(text) if file.startswith("/") and not Path(file).is_file()]
    if missing:
        return fail(path.name, f"{path} loads {missing[0]}, which does not exist", f"load {installed}")
    return ok(path.name, str(path))


def copies(beside: Path) -> Iterator[Check]:
    """Copies of fikit's own files, if there are any, are all of them and of this version."""
    if not (beside / "fikit_submit.lua").is_file():
        return
    for source in sorted(paths.slurm_dir().glob("fikit_*.lua")):
        copy = beside / source.name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            found = f"{copy} is not there" if not copy.exists() else f"{copy} is not this version's"
            yield fail("Lua files", found, f"copy fikit_*.lua from {source.parent} again, or load them from there")
            return
    yield ok("Lua files", f"copies in {beside} are this version's")
