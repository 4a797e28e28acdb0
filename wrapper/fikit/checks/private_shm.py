"""Slurm's plugins that give each job a /dev/shm of its own: NVIDIA's driver may keep what MPS's clients share there.

job_container.conf(5), namespace.yaml(5): `Dirs` is /tmp and /dev/shm unless the file says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikit.checks.check import Check, ok, warn
from fikit.slurm import config as slurm_config
from fikit.slurm.config import Line, SlurmConfig

NAME: Final = "/dev/shm of jobs"
SHM: Final = "/dev/shm"
BY_DEFAULT: Final = f"/tmp,{SHM}"
# Slurm's plugin, the file that configures it, and the line that leaves /dev/shm to jobs. From 25.11 on the setting is NamespaceType.
PLUGINS: Final = {
    "job_container/tmpfs": ("job_container.conf", "Dirs=/tmp"),
    "namespace/tmpfs": ("job_container.conf", "Dirs=/tmp"),
    "namespace/linux": ("namespace.yaml", 'dirs: "/tmp"'),
}


def area() -> Iterator[Check]:
    """Nothing where Slurm's jobs have the node's /dev/shm."""
    path = slurm_config.path()
    conf = slurm_config.config(path)
    yield from findings(conf, path.parent, slurm_config.own_names(conf.nodes))


def findings(conf: SlurmConfig, directory: Path, names: set[str]) -> Iterator[Check]:
    """`directory`: of Slurm's files. `names`: of this node, as Slurm has them."""
    plugin = (conf.settings.get("namespacetype") or conf.settings.get("jobcontainertype") or "").lower()
    if plugin not in PLUGINS:
        return
    name, line = PLUGINS[plugin]
    file = directory / name
    try:
        dirs = _of_yaml(file.read_text(errors="replace")) if name.endswith(".yaml") else _of_conf(file, names)
    except OSError as error:
        dirs, says = [BY_DEFAULT], f"its default, for {file} cannot be read here: {error.strerror}"
    else:
        says = f"by {file}"
    if not any(SHM in re.split(r"[,\s]+", each) for each in dirs):
        yield ok(NAME, f"{plugin} leaves it the node's")
        return
    yield warn(
        NAME,
        f"{plugin} gives each job a {SHM} of its own ({says}). Drivers that keep MPS's shared memory there refuse the job's programs as "
        "clients (CUDA error 805), and the programs run in time slices, or fail",
        f'{line} in {file} and a restart of slurmd, or [gpu] mps = "off" in fikit.toml',
    )


def _of_conf(file: Path, names: set[str]) -> list[str]:
    """Dirs of this node. OSError: the file cannot be read."""
    file.read_bytes()
    lines = [slurm_config.pairs_of(text) for text in slurm_config.lines(file)]
    here: dict[str, str] = {}
    for line in sorted((each for each in lines if slurm_config.is_for(each, names)), key=_is_of_nodes):
        here.update(line)
    return [] if here.get("basepath", "").lower() == "none" else [here.get("dirs", BY_DEFAULT)]


def _is_of_nodes(line: Line) -> bool:
    """A node's own line counts more than one for all."""
    return "nodename" in line


def _of_yaml(text: str) -> list[str]:
    """Each `dirs` of the file, of all nodes together."""
    found = re.findall(r"^[ \t-]*dirs[ \t]*:[ \t]*(.*?)[ \t]*(?:#.*)?$", text, re.MULTILINE | re.IGNORECASE)
    return [each.strip("\"'[]") for each in found] or [BY_DEFAULT]
