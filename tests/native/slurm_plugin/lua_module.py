"""Slurm's Lua modules of fikit, run against a fake slurm table by each Lua of LUAS that is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LUA = Path(__file__).resolve().parents[3] / "slurm_plugin" / "lua"
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
    """What differs from Lua to Lua without a meaning: the order of pairs(), 4.0 for 4, where a long path is cut."""
    whole = re.sub(r"(\.\.\.)?\S*/(?=\w+\.lua:)", "", printed)
    return "\n".join(sorted(re.sub(r"(?<=\d)\.0\b", "", line) for line in whole.splitlines()))


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


def submitted(
    options: dict[str, str], job: dict[str, object], partitions: dict[str, object] | None = None, **env: str
) -> dict[str, str]:
    """job_submit on a job that it must not refuse: the fields that it changed. Clearing makes one empty."""
    full = {"min_nodes": NO_VALUE, "num_tasks": NO_VALUE, "spank_job_env": carried(options), **job}
    printed = lua(f"""
      local changed = {{}}
      local fields = {quote(full)}
      local job = setmetatable({{}}, {{ __index = fields, __newindex = function(_, key, value) changed[key] = value end }})
      local rc = fikit.job_submit(job, {quote(partitions or {})})
      for key, value in pairs(changed) do print(key .. "=" .. tostring(value)) end
      print(rc)
    """, **env)  # fmt: skip
    assert "0" in printed, printed
    return dict(sorted(alike(line).split("=", 1) for line in printed if "=" in line))


# As Slurm hands options to cli_filter.lua that nobody gave.
UNSET = {
    "type": "srun",
    "nodes": "1-0",
    "ntasks": "1",
    "jobid": "unset",
    "cpus-per-gpu": "0",
    "ntasks-per-gpu": "-2",
    "ntasks-per-tres": "-2",
    "sockets-per-node": "-2",
    "spank": {"fikit": {"fikit-measure": "unset"}},
}

# Slurm's options table, and the functions of spank_fikit.so, which make an option as if it had not been given ("reset").
CLIENT = """
  local given = %s
  local options = setmetatable({}, {
    _opt = given,
    __index = given,
    __newindex = function(_, name, value)
      assert(type(value) == "string", name)
      given[name] = value
    end,
  })
  local functions = {
    fikit_lua_take_back = function(opt, name) opt[name] = "reset" return true end,
    fikit_lua_export = function(name, value) print("export " .. name .. "=" .. value) return true end,
    fikit_lua_export_tasks = function() return true end,
    fikit_lua_say_usual_memory = function(bytes) print("usual=" .. bytes) return true end,
    fikit_lua_say_asked = function(text) if text ~= "" then print("asked " .. text) end return true end,
  }
  package.loadlib = function(_, name) return %s and functions[name] or nil end
  local before = {}
  for name, value in pairs(given) do before[name] = value end
  print(fikit.cli_filter(options))
  for name, value in pairs(given) do
    if before[name] ~= value then print(name .. "=" .. value) end
  end
"""


def client(options: dict[str, object], *, native: bool = True, **env: str) -> list[str]:
    """cli_filter on a client's options: what it printed, and those that it changed as NAME=VALUE."""
    printed = lua(CLIENT % (quote({**UNSET, **options}), quote(native)), **env)
    assert "0" in printed, f"the client never refuses: {printed}"
    return sorted(line for line in printed if line != "0")


def filtered(options: dict[str, object], *, native: bool = True, **env: str) -> dict[str, str]:
    """The options that cli_filter changed."""
    printed = client(options, native=native, **env)
    return dict(
        line.split("=", 1) for line in printed if "=" in line and not line.startswith(("export ", "log: ", "asked "))
    )


def spank(**options: str) -> dict[str, object]:
    """The plugin's options as cli_filter.lua sees them."""
    return {"fikit": {"fikit-measure": "unset", **{k.replace("_", "-"): v for k, v in options.items()}}}


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
      local change = {quote(change)}
      local rc = fikit.job_modify(change, {quote(record)}, {quote(partitions or {})}, {uid})
      print(rc .. "|" .. (change.tres_per_node or "") .. "||")
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
