"""Slurm: installed, of the plugin's version, and configured as the admin guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fikit import slurm_versions
from fikit.checks import access, lua, plugstack, qos
from fikit.checks.check import Check, fail, ok, warn
from fikitd import paths

DEFAULT_SLURM_CONF = Path("/etc/slurm/slurm.conf")
DEEPEST_INCLUDE = 8
MUNGE = "auth/munge"


def area() -> Iterator[Check]:
    version = slurm_versions.installed()
    if version is None:
        yield warn("Slurm", "not installed", "nothing to do for `fikit run`; for jobs: `make setup` installs it")
        return
    yield ok("Slurm", f"{slurm_versions.line(version)}.{version[2]}, {slurm_versions.known(version)}")
    yield plugin(paths.slurm_dir() / plugstack.PLUGIN, version)
    yield owned([paths.shim(), *sorted(paths.slurm_dir().glob("*"))])
    path = Path(os.environ.get("SLURM_CONF") or DEFAULT_SLURM_CONF)
    settings = read_settings(path) if path.is_file() else {}
    if settings.get("authtype", MUNGE).lower() == MUNGE:
        yield munge(settings.get("authinfo", ""))
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


def munge(info: str = "") -> Check:
    """A credential made here must be valid here. info: slurm.conf's AuthInfo, which may name a munged of Slurm's own."""
    socket = re.search(r"(?:^|,)socket=([^,\s]+)", info)
    which = ["-S", socket[1]] if socket else []
    if shutil.which("munge") is None:
        return fail("munge", "not installed", "install the package munge")
    made = subprocess.run(["munge", *which, "-n"], capture_output=True, check=False, timeout=10)
    read = subprocess.run(["unmunge", *which], input=made.stdout, capture_output=True, check=False, timeout=10)
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
    nodes = gres_of_nodes(path)
    yield from shards(path, nodes)
    yield from partitions(path)
    yield from lua.area(path.parent)
    yield gres(path.parent / "gres.conf", nodes)
    stack = Path(settings.get("plugstackconfig") or path.parent / "plugstack.conf")
    yield plugstack.check(stack)
    yield from access.area(settings, path, plugstack.default_priority(stack))
    yield from qos.area(settings)


def text_of(path: Path, depth: int = 0) -> str:
    """slurm.conf without comments and with the files that it includes."""
    lines = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0].lower() == "include" and depth < DEEPEST_INCLUDE:
            included = path.parent / words[1]
            if included.is_file():
                lines.append(text_of(included, depth + 1))
        elif words:
            lines.append(" ".join(words))
    return "\n".join(lines)


def read_settings(path: Path) -> dict[str, str]:
    """The Name=Value lines of slurm.conf; names in lower case, as Slurm compares them."""
    lines = (re.fullmatch(r"(\w+) ?= ?(.*)", line) for line in text_of(path).splitlines())
    return {match[1].lower(): match[2] for match in lines if match}


def gres_of_nodes(path: Path) -> list[str]:
    """The Gres= of each node line of slurm.conf, in lower case."""
    return re.findall(r"^nodename=.*?\sgres=(\S+)", text_of(path).lower(), re.MULTILINE)


def count(gres: str, name: str) -> int:
    """How many of that name a node's Gres= has, of all types together."""
    found = re.findall(rf"(?:^|,){name}(?::[^:,]*[^:,\d][^:,]*)?(?::(\d+))?(?=,|$|\()", gres)
    return sum(int(number or 1) for number in found)


def shards(path: Path, nodes: Sequence[str]) -> Iterator[Check]:
    """Slurm cannot start a step of a job with shards of a type (--gres=gpu:TYPE:1) if the node's shards have none."""
    typed = {"gpu": set[str](), "shard": set[str]()}
    for gres in nodes:
        for name, type_ in re.findall(r"(gpu|shard):([^:,]*[^:,\d][^:,]*)", gres):
            typed[name].add(type_)
    missing = sorted(typed["gpu"] - typed["shard"])
    if nodes and not any("shard:" in gres for gres in nodes):
        yield fail("shards", f"no node in {path} has any", "add shard:TYPE:N to its Gres=, N = GPUs x GiB of one GPU")
    elif missing:
        yield fail("shards", f"{path} has GPUs but no shards of type {', '.join(missing)}",
                   f"write shard:{missing[0]}:N in the node's Gres=, or jobs with --gres=gpu:{missing[0]}:1 cannot share")  # fmt: skip
    elif nodes:
        yield ok("shards", ", ".join(nodes))


def partitions(path: Path) -> Iterator[Check]:
    """A job that has its node alone gets all GPUs and all shards, which exclude each other: Slurm never starts it."""
    lines = re.findall(r"^partitionname=.*$", text_of(path), re.MULTILINE | re.IGNORECASE)
    whole = [
        re.findall(r"=(\S+)", line)[0]
        for line in lines if re.search(r"\b(oversubscribe|shared)=exclusive\b", line, re.IGNORECASE)
    ]  # fmt: skip
    if whole:
        yield warn("partitions", f"{', '.join(whole)} gives every job whole nodes: there no job can share a GPU",
                   "OverSubscribe=NO instead of EXCLUSIVE, or tell users to share in other partitions")  # fmt: skip


def gres(path: Path, nodes: Sequence[str]) -> Check:
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
    # A node that finds fewer than slurm.conf says is taken out of service. Of a file for several nodes, nobody knows which is ours.
    here = sum(int(number) for line in lines for number in re.findall(r"name=shard\b.*\bcount=(\d+)(?!\S)", line))
    wanted = {number for node in nodes if (number := count(node, "shard"))}
    if here and wanted and here not in wanted and not any("nodename=" in line for line in lines):
        return fail("gres.conf", f"it has {here} shards, nodes in slurm.conf have {' or '.join(map(str, sorted(wanted)))}",
                    "write the same number in Count= and in the node's Gres=")  # fmt: skip
    return ok("gres.conf", str(path))
