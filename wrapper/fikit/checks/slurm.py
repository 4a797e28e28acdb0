"""Slurm: installed, of the plugin's version, and configured as the admin guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fikit.checks import access, gpu_defaults, hooks, lua, plugstack, qos, spread
from fikit.checks.check import Check, fail, ok, warn
from fikit.slurm import config as slurm_config
from fikit.slurm import versions as slurm_versions
from fikit.slurm.config import Line, SlurmConfig
from fikitd import paths

MUNGE = "auth/munge"
CONS_TRES_IS_DEFAULT = (23, 11)
# What each of Slurm's words for a setting says (prolog_str2flags in src/common/read_config.c); a word says itself.
IMPLIED = {"contain": "alloc", "x11": "alloc", "nohold": "alloc", "runinjob": "alloc"}
WANTED = {
    "GresTypes": ("gpu", "shard"),
    "SelectType": ("cons_tres",),
    "JobSubmitPlugins": ("lua",),
    "CliFilterPlugins": ("lua",),
    "PrologFlags": ("alloc",),
}


def area() -> Iterator[Check]:
    version = slurm_versions.installed()
    if version is None:
        yield warn("Slurm", "not installed", "nothing to do for `fikit run`; for jobs: `make setup` installs it")
        return
    yield ok("Slurm", f"{slurm_versions.line(version)}.{version[2]}, {slurm_versions.known(version)}")
    yield plugin(paths.slurm_dir() / plugstack.PLUGIN, version)
    yield owned([paths.shim(), *sorted(paths.slurm_dir().glob("*"))])
    path = slurm_config.path()
    conf = slurm_config.config(path)
    if conf.settings.get("authtype", MUNGE).lower() in (MUNGE, MUNGE.partition("/")[2]):
        yield munge(conf.settings.get("authinfo", ""))
    if not conf.settings:
        yield warn(
            "slurm.conf", f"{path} does not exist", "this machine is in no cluster; try `fikit sandbox -- sinfo`"
        )
        return
    yield from findings(path, conf, version)
    yield from gpu_defaults.area()


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
    return ok("permissions", "only root can change the plugin, the Lua files and the shim")


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
    yield from findings(path, slurm_config.config(path), slurm_versions.installed() or ())


def findings(path: Path, conf: SlurmConfig, version: slurm_versions.Version) -> Iterator[Check]:
    for name, values in WANTED.items():
        yield setting(name, values, conf, version)
    here = slurm_config.own_names(conf.nodes)
    nodes = [node["gres"].lower() for node in conf.nodes if node.get("gres", "(null)") != "(null)"]
    own = [node["gres"].lower() for node in conf.nodes if "gres" in node and slurm_config.is_for(node, here)]
    yield from shards(conf.source, nodes)
    yield from partitions(conf.partitions)
    yield from spread.area(conf, version)
    yield from hooks.area(conf)
    is_sent = slurm_config.is_sent(path)
    stack = path.parent / "plugstack.conf"
    if not is_sent and (named := conf.settings.get("plugstackconfig")):
        stack = Path(named)
    if path.is_file():  # where Slurm's commands fetch it from slurmctld each time, nothing lies beside it
        yield from lua.area(path.parent, is_sent=is_sent)
        yield gres(path.parent / "gres.conf", own or nodes, here)
        yield plugstack.check(stack)
    yield from access.area(conf.settings, conf.source, plugstack.default_priority(stack))
    yield from qos.area(conf.settings)


def setting(name: str, values: Sequence[str], conf: SlurmConfig, version: slurm_versions.Version) -> Check:
    """Whether a comma-separated setting has all of these, in whichever of Slurm's spellings."""
    if name == "SelectType" and not conf.settings.get("selecttype") and version >= CONS_TRES_IS_DEFAULT:
        return ok(name, "select/cons_tres, Slurm's default")
    missing = missing_of(values, conf.settings.get(name.lower(), ""))
    if not missing:
        return ok(name, conf.settings[name.lower()])
    if not missing_of(values, conf.written.get(name.lower(), "")):
        return fail(name, f"{', '.join(missing)} is in slurm.conf, and {conf.source} has not read it",
                    "restart slurmctld and the slurmds")  # fmt: skip
    full = [f"select/{value}" if name == "SelectType" else value for value in values]
    return fail(
        name, f"{', '.join(missing)} is missing in {conf.source}", f"{name}={','.join(full)}, besides what you have"
    )


def missing_of(values: Iterable[str], text: str) -> list[str]:
    present = {word.rpartition("/")[2] for word in slurm_config.words_of(text)}
    present |= {IMPLIED.get(word, word) for word in present}
    return [value for value in values if value not in present]


def shards(source: str, nodes: Sequence[str]) -> Iterator[Check]:
    """Slurm cannot start a step of a job with shards of a type (--gres=gpu:TYPE:1) if the node's shards have none."""
    typed = {"gpu": set[str](), "shard": set[str]()}
    for gres in nodes:
        for name, type_ in re.findall(r"(gpu|shard):([^:,(]*[^:,(\d][^:,(]*)", gres):
            typed[name].add(type_)
    missing = sorted(typed["gpu"] - typed["shard"])
    if nodes and not any("shard:" in gres for gres in nodes):
        yield fail("shards", f"no node in {source} has any", "add shard:TYPE:N to its Gres=, N = GPUs x GiB of one GPU")
    elif missing:
        yield fail("shards", f"{source} has GPUs but no shards of type {', '.join(missing)}",
                   f"write shard:{missing[0]}:N in the node's Gres=, or jobs with --gres=gpu:{missing[0]}:1 cannot share")  # fmt: skip
    elif nodes:
        yield ok("shards", ", ".join(dict.fromkeys(nodes)))


def partitions(lines: Iterable[Line]) -> Iterator[Check]:
    """A job that has its node alone gets all GPUs and all shards, which exclude each other: Slurm never starts it."""
    whole = [
        line["partitionname"]
        for line in lines if line.get("oversubscribe", line.get("shared", "")).lower() == "exclusive"
    ]  # fmt: skip
    if whole:
        yield warn("partitions", f"{', '.join(whole)} gives every job whole nodes: there no job can share a GPU",
                   "OverSubscribe=NO instead of EXCLUSIVE, or tell users to share in other partitions")  # fmt: skip


def gres(path: Path, nodes: Sequence[str], here: set[str]) -> Check:
    """Before Slurm 23.11.5 an exclusive job can land on a shared GPU unless the GPU lines have Type= or Cores=.

    nodes: the Gres= of this machine in slurm.conf, or of all where it is none of them.
    """
    if not path.is_file():
        return fail("gres.conf", f"{path} does not exist", "list the GPUs with Type=, and one line Name=shard")
    every = [slurm_config.pairs_of(line) for line in slurm_config.lines(path)]
    own = [line for line in every if slurm_config.is_for(line, here)]
    # On the controller or a login node, lines for other nodes are all that can be looked at.
    lines = own if any("name" in line for line in own) else every
    gpus = [line for line in lines if line.get("name", "").lower() == "gpu"]
    found = [line for line in lines if line.get("name", "").lower() == "shard"]
    detected = any(line.get("autodetect", "off").lower() != "off" for line in lines)
    if not found:
        return fail("gres.conf", "there is no line Name=shard", "add one with 1 shard per GiB of GPU memory")
    if any("multiplefiles" in line for line in gpus):
        return fail(
            "gres.conf",
            "a GPU line has MultipleFiles=: Slurm cannot give shards of it, and does not use the node",
            "write File= with the MIG instance's own file, /dev/nvidia-caps/nvidia-capN",
        )
    if not detected and any(line.keys().isdisjoint({"type", "cores", "cpus"}) for line in gpus):
        return fail(
            "gres.conf",
            "a GPU line has neither Type= nor Cores=",
            "add Type=, or exclusive jobs can land on a shared GPU",
        )
    # A node that finds fewer than slurm.conf says is taken out of service.
    there = sum(slurm_config.number(line.get("count", "")) for line in found)
    wanted = {number for node in nodes if (number := slurm_config.count(node, "shard"))}
    if there and wanted and there not in wanted and lines is own:
        return fail("gres.conf", f"it has {there} shards, nodes in slurm.conf have {' or '.join(map(str, sorted(wanted)))}",
                    "write the same number in Count= and in the node's Gres=")  # fmt: skip
    return ok("gres.conf", str(path))
