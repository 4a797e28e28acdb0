"""Slurm's two Lua scripts, job_submit.lua and cli_filter.lua: the line by which they call fikit's, and whether they do."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

NAMES = ("job_submit.lua", "cli_filter.lua")
# What fikit's part has to be asked at, where a site calls it by itself.
CALLS = {"job_submit.lua": ("job_submit", "job_modify"), "cli_filter.lua": ("cli_filter",)}
PLUGINS = ("usr/lib/*/slurm*", "usr/lib64/slurm*", "usr/lib/slurm*", "usr/local/lib/slurm", "opt/slurm*/lib*/slurm")

_COMMENT_OR_STRING = re.compile(
    r"--\[(=*)\[.*?\]\1\]|--[^\n]*|\[(=*)\[.*?\]\2\]|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_QUOTED = r"""(?:\[\[|["'])([^"'\]\n]*)(?:\]\]|["'])"""
_LOADED = re.compile(rf"\bdofile\s*\(?\s*{_QUOTED}\s*\)?")  # a path that is not put together
_STOPS = re.compile(r"\s*;?\s*if\s+\w+\s+then\s+return\b")  # what follows, where the site's code may come after
_DEFINED = re.compile(r"\bfunction\s+(slurm_\w+)|^\s*(slurm_\w+)\s*=(?!=)", re.MULTILINE)


def line(installed: Path) -> str:
    """The line for the script of this name. fikit's part returns something unless it is reading the script itself."""
    return f"do local r = dofile('{installed}') if r then return r end end"


def code(text: str) -> str:
    """A script without its comments."""
    return _COMMENT_OR_STRING.sub(lambda found: "" if found[0].startswith("--") else found[0], text)


def loaded(text: str) -> list[str]:
    """The files that it loads by names that are written out."""
    return _LOADED.findall(code(text))


def with_line(text: str, installed: Path) -> str:
    """The script with the line first, once; the line of earlier versions, which replaced a site's functions, goes."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    lines = [each for each in lines if not _is_line(each, installed)]
    place = 1 if lines and lines[0].startswith("#") else 0  # Lua allows that in the first line only
    if place and not lines[0].endswith("\n"):
        lines[0] += "\n"
    end = "\r\n" if any(each.endswith("\r\n") for each in lines) else "\n"
    return "".join([*lines[:place], line(installed), end, *lines[place:]])


def without_line(text: str, installed: Path) -> str:
    return "".join(each for each in text.splitlines(keepends=True) if not _is_line(each, installed))


def _is_line(text: str, installed: Path) -> bool:
    """Whether this line does nothing but load fikit's part, of this or of another installation (native/slurm)."""
    found = re.fullmatch(rf"(?:do local r = )?dofile\s*\(?\s*{_QUOTED}\s*\)?(?: if r then return r end end)?;?", text.strip())  # fmt: skip
    if found is None:
        return False
    path = Path(found[1])
    return path == installed or (path.name == installed.name and path.parent.name == "slurm")


def trouble(text: str, name: str) -> str:
    """Why fikit is not asked, or the site's own functions are not; empty where all of them are."""
    script = code(text)
    ours = [found for found in _LOADED.finditer(script) if Path(found[1]).name == name]
    if any(_STOPS.match(script, found.end()) for found in ours):
        return ""
    if ours:
        replaced = sorted({a or b for a, b in _DEFINED.findall(script, ours[-1].end())})
        return f"{', '.join(replaced)}, defined after fikit's part is loaded, takes its place" if replaced else ""
    if "fikit" not in script:
        return "it does not call fikit"
    missing = [call for call in CALLS[name] if not re.search(rf"[.:]\s*{call}\b", script)]
    return f"it loads fikit and does not call its {' and '.join(missing)}" if missing else ""


def calls_by_itself(text: str) -> bool:
    """Whether the site's own code loads fikit's functions: with the line as well, they would be called twice."""
    return "fikit_submit.lua" in code(text)


def write(path: Path, text: str) -> None:
    """Replace a script, or what a link to it leads to, at once; owner and mode stay. Raises OSError."""
    target = path.resolve()
    made, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(made, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, unfinished)
            status = target.stat()
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(unfinished, status.st_uid, status.st_gid)
        else:
            unfinished.chmod(0o644)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read(path: Path) -> str:
    """A script's text with every byte and every end of line as it is. Raises OSError."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def fault(path: Path, plugins: Path | None = None) -> str:
    """What Slurm's own Lua has against the script's syntax; empty for nothing, or where no Lua is here. It is not run.

    plugins: Slurm's PluginDir, whose plugin says which Lua it uses.
    """
    lua = _library(plugins)
    if lua is None:
        return ""
    lua.luaL_newstate.restype = lua.lua_tolstring.restype = ctypes.c_void_p
    state = ctypes.c_void_p(lua.luaL_newstate())
    name = os.fsencode(path)
    try:
        if hasattr(lua, "luaL_loadfilex"):
            failed = lua.luaL_loadfilex(state, name, None)
        else:
            failed = lua.luaL_loadfile(state, name)
        return ctypes.string_at(lua.lua_tolstring(state, -1, None)).decode(errors="replace") if failed else ""
    finally:
        lua.lua_close(state)


def _library(plugins: Path | None) -> ctypes.CDLL | None:
    for name in _library_names(plugins):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _library_names(plugins: Path | None) -> Iterator[str]:
    """As the plugin names them, which opens the one that it was built with."""
    folders = [plugins] if plugins else [place for pattern in PLUGINS for place in sorted(Path("/").glob(pattern))]
    for folder in folders:
        file = folder / "job_submit_lua.so"
        if file.is_file():
            names = re.findall(rb"\0(liblua[-.\w]*\d[-.\w]*)(?=\0)", file.read_bytes())
            yield from sorted({name.decode() for name in names}, key=len, reverse=True)
            return
    yield from (f"liblua5.{minor}.so.0" for minor in (4, 3, 1))
