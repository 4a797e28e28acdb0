"""Slurm: installed, of the plugin's version, and configured as the admin guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from fikit import slurm_versions
from fikit.checks import access
from fikit.checks.check import Check, fail, ok, warn
from fikitd import paths

DEFAULT_SLURM_CONF = Path("/etc/slurm/slurm.conf")
PLUGIN = "spank_fikit.so"


def area() -> Iterator[Check]:
    version = slurm_versions.installed()
    if version is None:
        yield warn("Slurm", "not installed", "nothing to do for `fikit run`; for jobs: `make setup` installs it")
        return
    yield ok("Slurm", f"{slurm_versions.line(version)}.{version[2]}")
    yield plugin(paths.slurm_dir() / PLUGIN, version)
    yield owned([paths.shim(), *sorted(paths.slurm_dir().glob("*"))])
    yield munge()
    path = Path(os.environ.get("SLURM_CONF") or DEFAULT_SLURM_CONF)
    if not path.is_file():
        yield warn(
            "slurm.conf", f"{path} does not exist", "this machine is in no cluster; try `fikit sandbox -- sinfo`"
        )
        return
    yield from configuration(path)


def plugin(path: Path, version: slurm_versions.Version) -> Check:
    """Slurm refuses a SPANK plugin of another major.minor (its plugin_version symbol says which it was built for)."""
    advice = slurm_versions.rebuild(version)
    if not path.is_file():
        return fail("SPANK plugin", f"{path} was not built", advice)
    try:
        mismatch = slurm_versions.mismatch(path, version)
    except (OSError, ValueError) as error:
        return fail("SPANK plugin", f"it cannot be read: {error}", advice)
    if mismatch:
        return fail("SPANK plugin", mismatch, advice)
    return ok("SPANK plugin", str(path))


def owned(files: Iterable[Path]) -> Check:
    """root, and every user's program, load these: whoever can change them is root, or those users."""
    for file in (place for path in files if path.exists() for place in (path, path.parent)):
        status = file.stat()
        if status.st_mode & 0o022:
            return fail("permissions", f"others than their owner can write {file}", f"chmod go-w {file}")
        if status.st_uid not in (0, os.geteuid()):
            return fail("permissions", f"{file} belongs to uid {status.st_uid}", f"chown root {file}")
    return ok("permissions", "only root can change the plugin, the Lua files and the preload library")


def munge() -> Check:
    """A credential made here must be valid here."""
    if shutil.which("munge") is None:
        return fail("munge", "not installed", "install the package munge")
    made = subprocess.run(["munge", "-n"], capture_output=True, check=False, timeout=10)
    read = subprocess.run(["unmunge"], input=made.stdout, capture_output=True, check=False, timeout=10)
    if made.returncode or read.returncode:
        said = (made.stderr or read.stderr).decode(errors="replace").strip()
        return warn("munge", f"no valid credential: {said}", "start munged; all nodes need the same key")
    return ok("munge", "credentials are valid")


def configuration(path: Path) -> Iterator[Check]:
    """slurm.conf and the files beside it."""
    settings = read_settings(path)
    wanted = {
        "grestypes": ("GresTypes", ("gpu", "shard")),
        "selecttype": ("SelectType", ("select/cons_tres",)),
        "jobsubmitplugins": ("JobSubmitPlugins", ("lua",)),
        "clifilterplugins": ("CliFilterPlugins", ("lua",)),
        "prologflags": ("PrologFlags", ("alloc",)),
    }
    for key, (name, values) in wanted.items():
        present = {value.strip().lower() for value in settings.get(key, "").split(",")}
        missing = [value for value in values if value not in present]
        if missing:
            yield fail(
                name, f"{', '.join(missing)} is missing in {path}", f"{name}={','.join(values)}, besides what you have"
            )
        else:
            yield ok(name, settings[key])
    yield from shards(path)
    yield submit_script(path.parent / "job_submit.lua")
    yield gres(path.parent / "gres.conf")
    yield from access.lua_files(path.parent)
    stack = Path(settings.get("plugstackconfig") or path.parent / "plugstack.conf")
    yield plugstack(stack)
    yield from access.area(settings, path, default_priority(stack))


def read_settings(path: Path) -> dict[str, str]:
    """The Name=Value lines of slurm.conf; names in lower case, as Slurm compares them."""
    settings = {}
    for line in path.read_text(errors="replace").splitlines():
        name, equals, value = line.partition("#")[0].strip().partition("=")
        if equals and " " not in name:
            settings[name.lower()] = value.strip()
    return settings


def shards(path: Path) -> Iterator[Check]:
    """Slurm cannot start a step of a job with shards of a type (--gres=gpu:TYPE:1) if the node's shards have none."""
    nodes = re.findall(
        r"^\s*NodeName=(\S+).*?\sGres=(\S+)", path.read_text(errors="replace"), re.IGNORECASE | re.MULTILINE
    )
    typed = {"gpu": set[str](), "shard": set[str]()}
    for _, gres in nodes:
        for name, type_ in re.findall(r"(gpu|shard):([^:,]*[^:,\d][^:,]*)", gres.lower()):
            typed[name].add(type_)
    missing = sorted(typed["gpu"] - typed["shard"])
    if nodes and not any("shard:" in gres.lower() for _, gres in nodes):
        yield fail("shards", f"no node in {path} has any", "add shard:TYPE:N to its Gres=, N = GPUs x GiB of one GPU")
    elif missing:
        yield fail("shards", f"{path} has GPUs but no shards of type {', '.join(missing)}",
                   f"write shard:{missing[0]}:N in the node's Gres=, or jobs with --gres=gpu:{missing[0]}:1 cannot share")  # fmt: skip
    elif nodes:
        yield ok("shards", ", ".join(gres for _, gres in nodes))


def submit_script(path: Path) -> Check:
    if not path.is_file():
        return fail("job_submit.lua", f"{path} does not exist", f"copy it from {paths.slurm_dir()}")
    if "fikit" not in path.read_text(errors="replace"):
        return fail(
            "job_submit.lua",
            f"{path} does not call fikit",
            f"call fikit_submit.lua as {paths.slurm_dir() / path.name} does",
        )
    return ok("job_submit.lua", str(path))


def gres(path: Path) -> Check:
    """Before Slurm 23.11.5 an exclusive job can land on a shared GPU unless the GPU lines have Type= or Cores=."""
    if not path.is_file():
        return fail("gres.conf", f"{path} does not exist", "list the GPUs with Type=, and one line Name=shard")
    lines = [line.partition("#")[0].lower() for line in path.read_text(errors="replace").splitlines()]
    gpus = [line for line in lines if "name=gpu" in line]
    if not any("name=shard" in line for line in lines):
        return fail("gres.conf", "there is no line Name=shard", "add one with 1 shard per GiB of GPU memory")
    if any("multiplefiles=" in line for line in gpus):
        return fail(
            "gres.conf",
            "a GPU line has MultipleFiles=: Slurm cannot give shards of it, and does not use the node",
            "write File= with the MIG instance's own file, /dev/nvidia-caps/nvidia-capN",
        )
    if any("type=" not in line and "cores=" not in line for line in gpus):
        return fail(
            "gres.conf",
            "a GPU line has neither Type= nor Cores=",
            "add Type=, or exclusive jobs can land on a shared GPU",
        )
    return ok("gres.conf", str(path))


def our_line(path: Path) -> list[str]:
    """The words of the plugin's line in plugstack.conf; none without one."""
    if not path.is_file():
        return []
    lines = (text.partition("#")[0].split() for text in path.read_text(errors="replace").splitlines())
    return next((words for words in lines if len(words) > 1 and words[1].endswith(PLUGIN)), [])


def default_priority(path: Path) -> str:
    words = dict(word.split("=", 1) for word in our_line(path)[2:] if "=" in word)
    return words.get("default_priority", "normal")


def plugstack(path: Path) -> Check:
    line = f"required {paths.slurm_dir() / PLUGIN}"
    if not path.is_file():
        return fail("plugstack.conf", f"{path} does not exist", f"make it with the line: {line}")
    ours = our_line(path)
    if not ours:
        return fail("plugstack.conf", f"{path} does not load {PLUGIN}", f"add the line: {line}")
    if ours[0] != "required":
        return warn("plugstack.conf", "the plugin is optional", "make it required: its own errors never fail a job")
    return ok("plugstack.conf", str(path))
