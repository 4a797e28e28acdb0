"""What Slurm's configuration is, by Slurm's own word where it answers (`scontrol show`), else by its files, read as it reads them.

Files: slurm.conf(5) and gres.conf(5); how lines are joined, cut and divided is src/common/parse_config.c's.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fikit.slurm import versions as slurm_versions

DEFAULT_PATH = Path("/etc/slurm/slurm.conf")
CONFIGLESS = Path("/run/slurm/conf/slurm.conf")  # what slurmd or sackd has been sent
DEEPEST_INCLUDE = 8
ANSWER_TIMEOUT_S = 3
NOTHING = {"(null)", "n/a", "none"}

Line = Mapping[str, str]  # keys in lower case, as Slurm compares them

_PAIR = re.compile(r'\s*([\w.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_COMMENT = re.compile(r"^((?:[^\\#]|\\.)*)#.*", re.DOTALL)
_MULTIPLES = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}


@dataclass(frozen=True)
class SlurmConfig:
    """settings: by name in lower case. nodes and partitions: a line each, defaults applied. source: who says so.

    written: settings of the file, which slurmctld may not have read yet.
    """

    settings: Line
    nodes: Sequence[Line]
    partitions: Sequence[Line]
    source: str
    written: Line

    def words(self, name: str) -> set[str]:
        """The members of a comma-separated setting, in lower case."""
        return words_of(self.settings.get(name.lower(), ""))


def words_of(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",") if word.strip()}


def count(gres: str, name: str) -> int:
    """How many of that name a node's Gres= has, of all types together."""
    found = re.findall(rf"(?:^|,){name}(?::[^:,]*[^:,\d][^:,]*)?(?::(\d+[kmgtp]?))?(?=,|$|\()", gres)
    return sum(number(each or "1") for each in found)


def path() -> Path:
    """Where Slurm's commands look for slurm.conf; a file that need not exist."""
    if named := os.environ.get("SLURM_CONF"):
        return Path(named)
    return CONFIGLESS if CONFIGLESS.is_file() and not DEFAULT_PATH.is_file() else DEFAULT_PATH


def is_sent(file: Path) -> bool:
    """Whether slurmctld has sent it, and the files beside it: what is changed there does not stay."""
    return file.parent == CONFIGLESS.parent


def config(file: Path) -> SlurmConfig:
    """Slurm's word, and what the file says of what Slurm does not."""
    written = read(file) if file.is_file() else SlurmConfig({}, [], [], str(file), {})
    told = ask(file)
    if told is None:
        return written
    return SlurmConfig(
        {**written.settings, **told.settings}, told.nodes, told.partitions, told.source, written.settings
    )


def ask(file: Path) -> SlurmConfig | None:
    """What slurmctld runs with; None where it does not answer."""
    settings = _told("config", file)
    if not settings:
        return None
    pairs = (re.match(r"(\w+)\s*= ?(.*)", line) for line in settings)
    found = {match[1].lower(): match[2].strip() for match in pairs if match}
    clean = {key: "" if value.lower() in NOTHING else value for key, value in found.items()}
    records = [[pairs_of(line) for line in _told(what, file)] for what in ("node", "partition")]
    nodes, partitions = ([line for line in lines if line] for lines in records)
    return SlurmConfig(clean, nodes, partitions, "slurmctld", {})


def _told(what: str, file: Path) -> list[str]:
    scontrol = shutil.which("scontrol", path=slurm_versions.SYSTEM_PATH)
    if scontrol is None:
        return []
    env = {**os.environ, **({"SLURM_CONF": str(file)} if file.is_file() else {})}
    try:
        done = subprocess.run([scontrol, "--oneliner", "show", what], env=env, capture_output=True, text=True,
                              errors="replace", check=False, timeout=ANSWER_TIMEOUT_S)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def read(file: Path) -> SlurmConfig:
    """slurm.conf and what it includes."""
    settings: dict[str, str] = {}
    kinds: dict[str, list[Line]] = {"nodename": [], "partitionname": []}
    defaults: dict[str, Line] = {}
    for text in lines(file):
        pairs = pairs_of(text)
        kind = next(iter(pairs), "")
        if kind not in kinds:
            settings.update(pairs)
        elif pairs[kind].upper() == "DEFAULT":
            defaults[kind] = {**defaults.get(kind, {}), **pairs}
        else:
            kinds[kind].append({**defaults.get(kind, {}), **pairs})
    return SlurmConfig(settings, kinds["nodename"], kinds["partitionname"], str(file), settings)


def lines(file: Path) -> Iterator[str]:
    """The lines of a file of Slurm's and of those that it includes, as the parser gets them: without comments, joined, unescaped."""
    return _lines(file, file.parent, [""], 0)


def _lines(file: Path, beside: Path, cluster: list[str], depth: int) -> Iterator[str]:
    """cluster: its name, once a line has said it, for %c in names of included files."""
    try:
        physical = iter(file.read_text(errors="replace").split("\n"))
    except OSError:
        return
    for first in physical:
        text = _COMMENT.sub(r"\1", first)
        while _goes_on(text):
            text = text.rstrip()[:-1] + _COMMENT.sub(r"\1", next(physical, ""))
        text = re.sub(r"\\(.)", r"\1", text).strip()
        include = re.match(r"include\s+(\S+)", text, re.IGNORECASE)
        if include and depth < DEEPEST_INCLUDE:
            yield from _lines(beside / include[1].replace("%c", cluster[0]), beside, cluster, depth + 1)
        elif text:
            cluster[0] = pairs_of(text).get("clustername", cluster[0]).lower()
            yield text


def _goes_on(text: str) -> bool:
    """Whether it ends in an odd number of backslashes, but for blanks."""
    end = text.rstrip()
    return (len(end) - len(end.rstrip("\\"))) % 2 == 1


def pairs_of(text: str) -> dict[str, str]:
    """The key=value pairs of a line, in its order; the last of one name counts."""
    return {match[1].lower(): match[2] if match[2] is not None else match[3] for match in _PAIR.finditer(text)}


def names_of(hosts: str) -> Iterator[str]:
    """The names in a host list: gpu[1-3,07],login."""
    for one in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts):
        parts = re.split(r"\[([^\]]*)\]", one)
        choices = [[part] if index % 2 == 0 else list(_range(part)) for index, part in enumerate(parts)]
        yield from map("".join, itertools.product(*choices))


def _range(text: str) -> Iterator[str]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and last.isdigit():
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        else:
            yield part


def own_names(nodes: Iterable[Line]) -> set[str]:
    """What Slurm may call this machine: its own name, and each node that runs on a machine of that name."""
    host = socket.gethostname().partition(".")[0].lower()
    found = {host, os.environ.get("SLURMD_NODENAME", host).lower()}
    for node in nodes:
        names = list(names_of(node.get("nodename", "")))
        hosts = list(names_of(node.get("nodehostname", "")))
        if len(names) == len(hosts):
            found |= {n.lower() for n, h in zip(names, hosts, strict=True) if h.partition(".")[0].lower() == host}
    return found


def is_for(line: Line, names: set[str]) -> bool:
    """Whether a node's line, or one of gres.conf, is about a machine of these names; one without NodeName= is about all."""
    return "nodename" not in line or not names.isdisjoint(name.lower() for name in names_of(line["nodename"]))


def number(text: str) -> int:
    """A count as gres.conf writes it: 282, 1K. 0 for none."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)", text.strip().lower())
    return int(match[1]) * _MULTIPLES.get(match[2], 1) if match else 0
