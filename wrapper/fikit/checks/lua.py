"""The two Lua files beside slurm.conf, and what they load: without them Slurm takes no job, or none that shares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fikit.checks.check import Check, fail, ok
from fikit.checks.native import slurm_files
from fikitd import paths

_LOADED = re.compile(r"""dofile\s*\(?\s*(?:\[\[|["'])(/[^"'\]]+)""")  # a path that is not put together


def area(beside: Path) -> Iterator[Check]:
    """beside: slurm.conf's directory."""
    for name in ("job_submit.lua", "cli_filter.lua"):
        yield script(beside / name)
    yield from copies(beside)


def script(path: Path) -> Check:
    """One that Slurm loads: it is there, it calls fikit's, and what it loads is there."""
    installed = slurm_files() / path.name
    if not path.is_file():
        return fail(path.name, f"{path} does not exist", f"make it with the line: dofile('{installed}')")
    text = "\n".join(line.partition("--")[0] for line in path.read_text(errors="replace").splitlines())
    if "fikit" not in text:
        return fail(path.name, f"{path} does not call fikit", f"call fikit_submit.lua as {installed} does")
    missing = [file for file in _LOADED.findall(text) if not Path(file).is_file()]
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
