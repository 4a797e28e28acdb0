"""Slurm's Lua modules of fikit, run against a fake slurm table by each Lua of LUAS that is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LUA = Path(__file__).resolve().parents[2] / "slurm_plugin" / "lua"
LUAS = ("lua5.1", "lua5.3", "lua5.4")  # whichever the builder of a Slurm had
NO_VALUE = 4294967294
SITE = "TEST_CONFIG"  # the variable that names the site's fikit.toml


@dataclass(frozen=True)
class Submitted:
    """What job_submit or job_modify made of a job: return code, GRES then, sentences for the user, lines in slurmctld's log."""

    code: int
    per_node: str
    per_job: str
    per_task: str
    said: list[str]
    logged: str


def quote(value: object) -> str:
    """A Python value as Lua source."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{quote(k)}] = {quote(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(quote, value)) + "}"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "nil" if value is None else json.dumps(value, ensure_ascii=False).replace("\\r", "\\13")


def lua(source: str, **env: str) -> list[str]:
    """Run `source` with the modules as `fikit`, `access`, `toml` and a fake `slurm`; what it prints, the same under every Lua."""
    prelude = f"""
      slurm = {{
        SUCCESS = 0, ERROR = -1,
        log_user = function(format, ...) print(format:format(...)) end,
        log_error = function(format, ...) print("log: " .. format:format(...)) end,
      }}
      FIKIT_CONFIG = os.getenv("{SITE}") or "/nonexistent"
      fikit = dofile("{LUA}/fikit_submit.lua")
      access = dofile("{LUA}/fikit_access.lua")
      toml = dofile("{LUA}/fikit_toml.lua")
    """
    environment = {"PATH": "/usr/bin:/bin", **env}
    printed: dict[str, str] = {}
    for program in filter(shutil.which, LUAS):
        done = subprocess.run(
            [program, "-"], input=prelude + source, env=environment, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"
        printed[program] = done.stdout
    assert len({alike(text) for text in printed.values()}) == 1, printed
    return next(iter(printed.values())).splitlines()


def alike(printed: str) -> str:
    """What differs from Lua to Lua without a meaning: the order of pairs(), 4.0 for 4."""
    return "\n".join(sorted(re.sub(r"(?<=\d)\.0\b", "", line) for line in printed.splitlines()))


def submit(options: dict[str, str], job: dict[str, object], **env: str) -> Submitted:
    """job_submit on a job."""
    return ask(options, job, {}, **env)


def ask(options: dict[str, str], job: dict[str, object], partitions: dict[str, object], **env: str) -> Submitted:
    """job_submit on a job, where Slurm has these partitions."""
    full = {"min_nodes": NO_VALUE, "num_tasks": NO_VALUE, "spank_job_env": carried(options), **job}
    return _result(lua(f"""
      local job = {quote(full)}
      local rc = fikit.job_submit(job, {quote(partitions)})
      print(rc .. "|" .. tostring(job.tres_per_node) .. "|" .. tostring(job.tres_per_job) .. "|" .. tostring(job.tres_per_task))
    """, **env))  # fmt: skip


def modify(
    change: dict[str, object],
    options: dict[str, str],
    job: dict[str, object],
    uid: float,
    partitions: dict[str, object] | None = None,
    **env: str,
) -> Submitted:
    """job_modify of a job by user `uid`."""
    record = {"spank_job_env": carried(options), **job}
    return _result(lua(f"""
      local rc = fikit.job_modify({quote(change)}, {quote(record)}, {quote(partitions or {})}, {uid})
      print(rc .. "|||")
    """, **env))  # fmt: skip


def carried(options: dict[str, str]) -> dict[int, str]:
    """As Slurm carries options of the plugin's: from 0."""
    return {i: f"_SLURM_SPANK_OPTION_fikit_{k.replace('-', '_')}={v}" for i, (k, v) in enumerate(options.items())}


def _result(printed: list[str]) -> Submitted:
    *before, last = printed
    code, node, per_job, task = last.split("|")
    logged = [line for line in before if line.startswith("log: ")]
    said = [line for line in before if line not in logged]
    return Submitted(int(code), node, per_job, task, said, "\n".join(logged))
