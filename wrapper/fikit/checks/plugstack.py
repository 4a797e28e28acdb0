"""plugstack.conf: does it load the plugin, from a file that is there, with words that the plugin understands?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fikitd.base import priorities

from fikit.checks.check import Check, fail, ok, warn
from fikit.checks.native import slurm_files
from fikit.errors import nearest
from fikit.slurm import elf, lua_scripts

PLUGIN = "spank_fikit.so"
DEEPEST_INCLUDE = 8


def _one_of(*words: str) -> Callable[[str], str]:
    return lambda value: "" if value in words else f"use {' or '.join(words)}"


def _there(value: str) -> str:
    return "" if Path(value).is_file() else "there is no such file"


def _program(value: str) -> str:
    return "" if Path(value).is_file() and os.access(value, os.X_OK) else "there is no such program"


def _absolute(value: str) -> str:
    return "" if value.startswith("/") else "give an absolute path"


def _priority(value: str) -> str:
    try:
        priorities.parse(value)
    except ValueError:
        return "use high, normal, low, or 0 (highest) to 9"
    return ""


# What the plugin knows (slurm_plugin/src/site/fikit_config.c; a test compares); each says what is wrong with a value, or nothing.
KEYS: dict[str, Callable[[str], str]] = {
    "enabled": _one_of("yes", "no"),
    "run_dir": _absolute,
    "shim": _there,
    "daemon": _program,
    "config": _there,
    "default_priority": _priority,
    "systemd": _one_of("auto", "off"),
    "report": _one_of("summary", "off"),
}


def lines(path: Path, depth: int = 0) -> Iterator[list[str]]:
    """The words of each line, of included files too."""
    for text in path.read_text(errors="replace").splitlines():
        words = text.partition("#")[0].split()
        if len(words) == 2 and words[0].lower() == "include" and depth < DEEPEST_INCLUDE:
            pattern = path.parent / words[1]
            for included in sorted(pattern.parent.glob(pattern.name)):
                yield from lines(included, depth + 1)
        elif words:
            yield words


def our_line(path: Path) -> list[str]:
    """The words of the plugin's line; none without one."""
    if not path.is_file():
        return []
    return next((words for words in lines(path) if len(words) > 1 and words[1].endswith(PLUGIN)), [])


def default_priority(path: Path) -> str | None:
    """What the plugin's line says of it; None = nothing."""
    words = dict(word.split("=", 1) for word in our_line(path)[2:] if "=" in word)
    return words.get("default_priority")


def check(path: Path) -> Check:
    line = f"required {slurm_files() / PLUGIN}"
    if not path.is_file():
        return fail("plugstack.conf", f"{path} does not exist", f"make it with the line: {line}")
    ours = our_line(path)
    if not ours:
        return fail("plugstack.conf", f"{path} does not load {PLUGIN}", f"add the line: {line}")
    if fault := _fault_of_file(path, ours):
        return fault
    for word in ours[2:]:
        if problem := _problem(word):
            return fail("plugstack.conf", f'{path} has "{word}", which the plugin ignores or cannot use', problem)
    if ours[0] != "required":
        return warn("plugstack.conf", "the plugin is optional", "make it required: its own errors never fail a job")
    return ok("plugstack.conf", str(path))


def _fault_of_file(path: Path, ours: list[str]) -> Check | None:
    how, file = ours[0], Path(ours[1])
    beside_lua = _beside_lua(path.with_name("cli_filter.lua"))
    # A name without a directory is looked for where Slurm's own plugins are.
    if file.is_absolute() and not file.is_file():
        return fail("plugstack.conf", f"{path} loads {file}, which does not exist: {_without(how)}",
                    f"write there: required {slurm_files() / PLUGIN}")  # fmt: skip
    if _other_build(file, beside_lua):
        return fail("plugstack.conf", f"{path} loads {file}, and Slurm's Lua scripts are of another build, that of {beside_lua.parent}",
                    f"take both from one installation: write {how} {beside_lua} there, or type `fikit lua` as root")  # fmt: skip
    return None


def _beside_lua(script: Path) -> Path:
    """The plugin of the installation whose Lua the clients run."""
    files = lua_scripts.loaded(lua_scripts.read(script)) if script.is_file() else []
    found = (Path(file).with_name(PLUGIN) for file in files if file.startswith("/"))
    return next((plugin for plugin in found if plugin.is_file()), slurm_files() / PLUGIN)


def _other_build(loaded: Path, beside_lua: Path) -> bool:
    """Whether these are two plugins. Copies of one are none: the Lua asks the one that Slurm has loaded."""
    try:
        return elf.is_64_bit(loaded) and elf.is_64_bit(beside_lua) and loaded.read_bytes() != beside_lua.read_bytes()
    except OSError:
        return False


def _without(how: str) -> str:
    return "Slurm does not start" if how == "required" else "--fikit-... are unknown options"


def _problem(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return "words have the form key=value"
    if key not in KEYS:
        near = nearest(key, KEYS, 1)
        return f"did you mean {near[0]}=?" if near else f"the keys are {', '.join(KEYS)}"
    return KEYS[key](value)
