"""`fikit lua`: sites' job_submit.lua and cli_filter.lua of every shape call fikit's, last, and do what they did before."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit.checks import lua as check
from fikit.cli import cli
from fikit.slurm import config as slurm_config
from fikit.slurm import lua_scripts
from lua_module import LUA, LUAS

INSTALLED = LUA / "job_submit.lua"
SITE = """
local calls = 0
function slurm_job_submit(job_desc, part_list, submit_uid)
  calls = calls + 1
  slurm.log_info("site: %s asks for %s", tostring(submit_uid), tostring(job_desc.tres_per_node))
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  slurm.log_info("site: %s changes it", tostring(modify_uid))
  return slurm.SUCCESS
end
"""
LOADED = 'slurm.log_info("initialized")\n'
SHAPES = {
    "nothing before the end": SITE,
    "return at the end": SITE + LOADED + "return slurm.SUCCESS\n",
    "return and no last newline": SITE + "return slurm.SUCCESS",
    "return of nothing, and a comment": SITE + "return -- done\n-- vim: set ft=lua:\n",
    "functions that are assigned": SITE.replace("function slurm_job_submit(", "slurm_job_submit = function("),
    "a chunk that may stop early": "if os.getenv('NO_SUCH_VARIABLE') then return slurm.SUCCESS end\n" + SITE,
    "a line for an interpreter": "#!/usr/bin/lua\n" + SITE + "return slurm.SUCCESS\n",
    "nothing but a line for an interpreter": "#!/usr/bin/lua",
    "ends of lines from elsewhere": (SITE + "return slurm.SUCCESS\n").replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + SITE,
    "a long comment and a long string": "--[==[ function slurm_job_submit() ]]\n]==]\nlocal text = [[\n-- fikit\n]]\n" + SITE,
    "variables that have to be declared": "setmetatable(_G, { __index = function(_, name) error('undeclared ' .. name) end })\n" + SITE,
    "the line of an earlier fikit": SITE + f"dofile('{INSTALLED}')\n",
    "the line of an earlier fikit, typed behind a return": SITE + f"return slurm.SUCCESS\ndofile('{INSTALLED}')\n",
    "the line of an earlier fikit, first": f"dofile('{INSTALLED}')\n" + SITE,
    "no function that a job is changed by": SITE.partition("function slurm_job_modify")[0],
    "nothing": "",
}  # fmt: skip
# As slurmctld does it: load, run, look for both functions, call them.
SLURM = """
slurm = {
  SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294,
  log_info = function(format, ...) print(format:format(...)) end,
  log_error = function(format, ...) print("error: " .. format:format(...)) end,
  log_user = function(format, ...) print("user: " .. format:format(...)) end,
}
FIKIT_CONFIG = "/nonexistent"
local script = assert(loadfile(arg[1]))
local result = script()
assert((tonumber(result) or 0) == 0, "returned " .. tostring(result) .. " on load")
assert(slurm_job_submit and slurm_job_modify, "required function(s) not present")
local job = { tres_per_node = "gres:gpu:1", user_id = 7, min_nodes = slurm.NO_VAL, num_tasks = slurm.NO_VAL,
  spank_job_env = { [0] = "_SLURM_SPANK_OPTION_fikit_fikit_priority=low" } }
print("submit", slurm_job_submit(job, {}, 7), job.tres_per_node)
print("modify", slurm_job_modify({}, { user_id = 7, spank_job_env = job.spank_job_env }, {}, 7))
"""


def hook(directory: Path, *options: str) -> str:
    done = CliRunner().invoke(cli, ["lua", "--directory", str(directory), *options])
    assert done.exit_code == 0, done.output
    return done.output


def submitted(script: Path) -> list[str]:
    """What slurmctld's log and the driver say, the same under every Lua."""
    said = []
    for program in filter(shutil.which, LUAS):
        driver = script.parent / "slurm.lua"
        driver.write_text(SLURM)
        done = subprocess.run([program, driver, script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program}: {done.stderr}"
        said.append(done.stdout.replace("\t", " ").splitlines())
    assert said
    assert all(lines == said[0] for lines in said)
    return said[0]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("fikit.commands.lua.slurm_files", lambda: LUA)
    monkeypatch.setattr(check, "slurm_files", lambda: LUA)
    return tmp_path


@pytest.mark.starts_processes
@pytest.mark.parametrize("shape", SHAPES)
def test_scripts_of_every_shape_call_the_sites_functions_first_and_fikits_last(directory: Path, shape: str) -> None:
    script = directory / "job_submit.lua"
    script.write_bytes(SHAPES[shape].encode())
    hook(directory)
    once = script.read_bytes()
    hook(directory)
    assert script.read_bytes() == once
    assert check.script(script).status == "ok"
    submits = ["site: 7 asks for gres:gpu:1"] if "slurm_job_submit" in SHAPES[shape] else []
    modifies = ["site: 7 changes it"] if "function slurm_job_modify" in SHAPES[shape] else []
    loads = ["initialized"] if LOADED in SHAPES[shape] else []
    assert submitted(script) == [*loads, *submits, "submit 0 gres:shard:4", *modifies, "modify 0"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_line_goes_again_without_a_trace(directory: Path, shape: str) -> None:
    script = directory / "job_submit.lua"
    script.write_bytes(SHAPES[shape].encode())
    hook(directory)
    hook(directory, "--remove")
    earlier = f"dofile('{INSTALLED}')\n"
    left = script.read_bytes().decode()
    assert left.rstrip() == SHAPES[shape].replace(earlier, "").removeprefix("\ufeff").rstrip()


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("body", "code", "logged"),
    [("return slurm.ERROR", -1, []), ("return 2015", 2015, []), ("error('oh', 0)", 0, ["error: slurm_job_submit: oh"]),
     ("return nil", 0, ["slurm_job_submit: non-numeric return code"])],
)  # fmt: skip
def test_what_the_sites_function_says_is_heard_as_slurm_hears_it(
    directory: Path, body: str, code: int, logged: list[str]
) -> None:
    """An error lets the job through, as without fikit, and not past fikit's own rules."""
    script = directory / "job_submit.lua"
    script.write_text(f"function slurm_job_submit(job_desc) {body} end\n")
    hook(directory)
    *said, result, _ = submitted(script)
    assert said == logged
    assert result.split() == ["submit", str(code), "gres:shard:4" if code == 0 else "gres:gpu:1"]


@pytest.mark.starts_processes
def test_a_script_that_fails_to_load_fails_as_without_fikit(directory: Path) -> None:
    script = directory / "job_submit.lua"
    for text, said in (("return slurm.ERROR\n", "returned -1 on load"), ("error('no list of users')\n", "no list of users")):  # fmt: skip
        script.write_text(text)
        hook(directory)
        (directory / "slurm.lua").write_text(SLURM)
        done = subprocess.run(
            [shutil.which("lua5.1") or "lua", directory / "slurm.lua", script], capture_output=True, text=True, check=False
        )  # fmt: skip
        assert said in done.stderr


@pytest.mark.starts_processes
def test_cli_filter_keeps_the_sites_functions(directory: Path) -> None:
    script = directory / "cli_filter.lua"
    names = ("setup_defaults", "pre_submit", "post_submit")
    functions = [f'function slurm_cli_{name}(...) print("site {name}", (...)) return slurm.SUCCESS end' for name in names]  # fmt: skip
    script.write_text("\n".join([*functions, "return slurm.SUCCESS"]))
    hook(directory)
    hook(directory)
    (directory / "drive.lua").write_text(
        "slurm = { SUCCESS = 0, ERROR = -1 }\nassert(loadfile(arg[1]))()\n"
        "print(slurm_cli_setup_defaults({}, true), slurm_cli_pre_submit({ type = 'sbatch' }, 3), slurm_cli_post_submit(5, 6, 7))\n"
    )
    lua = shutil.which("lua5.1") or "lua"
    done = subprocess.run([lua, directory / "drive.lua", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[:3]] == list(names)
    assert done.stdout.splitlines()[3].split() == ["0", "0", "0"]


def test_owner_mode_and_link_stay(directory: Path) -> None:
    real = directory / "managed" / "job_submit.lua"
    real.parent.mkdir()
    real.write_bytes(b"-- r\xe8gles\n" + SITE.encode())
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 33, 44)
    before = real.stat()
    (directory / "job_submit.lua").symlink_to(real)
    hook(directory)
    assert (directory / "job_submit.lua").is_symlink()
    after = real.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert b"-- r\xe8gles\n" in real.read_bytes()
    assert sorted(path.name for path in real.parent.iterdir()) == ["job_submit.lua"]


def test_what_slurmctld_has_sent_is_changed_where_it_comes_from(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_config, "CONFIGLESS", directory / "slurm.conf")
    monkeypatch.setenv("SLURM_CONF", str(directory / "slurm.conf"))
    done = CliRunner().invoke(cli, ["lua"])
    assert (done.exit_code, "type this on slurmctld's host" in done.output) == (1, True)
    assert list(directory.glob("*.lua")) == []


def test_without_a_slurm_conf_nothing_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(directory / "slurm.conf"))
    done = CliRunner().invoke(cli, ["lua"])
    assert (done.exit_code, f"there is no {directory / 'slurm.conf'}" in done.output) == (1, True)
    assert list(directory.iterdir()) == []


def test_what_is_no_lua_stays_as_it_is(directory: Path) -> None:
    script = directory / "job_submit.lua"
    script.write_text("function slurm_job_submit( return end\n")
    done = CliRunner().invoke(cli, ["lua", "--directory", str(directory)])
    assert done.exit_code == 1
    assert "is no Lua that Slurm can read, in line 2: " in done.output
    assert script.read_text() == "function slurm_job_submit( return end\n"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [("job_submit.lua", SITE + "return slurm.SUCCESS\ndofile('{0}')\n", "Slurm cannot read it"),
     ("job_submit.lua", "dofile('{0}')\n" + SITE, "slurm_job_modify, slurm_job_submit, defined after fikit's part is loaded"),
     ("job_submit.lua", "dofile('{0}')\nslurm_job_submit = function() return 0 end\n", "slurm_job_submit, defined after"),
     ("job_submit.lua", "--[[\ndo local r = dofile('{0}') if r then return r end end\n]]\n" + SITE, "does not call fikit"),
     ("job_submit.lua", SITE + "-- fikit comes here\n", "does not call fikit"),
     ("job_submit.lua", "local fikit = dofile('{1}/fikit_submit.lua')\nfunction slurm_job_submit(j, p) return fikit.job_submit(j, p) end\n", "does not call its job_modify"),
     ("cli_filter.lua", "local fikit = dofile('{1}/fikit_submit.lua')\n", "does not call its cli_filter"),
     ("cli_filter.lua", "function slurm_cli_pre_submit(\n", "Slurm cannot read it")],
)  # fmt: skip
def test_doctor_finds_scripts_that_do_not_call_both(directory: Path, name: str, text: str, found: str) -> None:
    script = directory / name
    script.write_text(text.format(LUA / name, LUA))
    result = check.script(script)
    assert (result.status, found in result.found) == ("fail", True), result
    assert lua_scripts.line(LUA / name) in result.advice or "mend it" in result.advice


def test_doctor_accepts_a_site_that_calls_fikits_functions_by_itself(directory: Path) -> None:
    script = directory / "job_submit.lua"
    script.write_text(f"local fikit = dofile('{LUA}/fikit_submit.lua')\n"
                      "function slurm_job_submit(job, parts) return fikit.job_submit(job, parts) end\n"
                      "function slurm_job_modify(...) return fikit.job_modify(...) end\nreturn slurm.SUCCESS\n")  # fmt: skip
    assert check.script(script).status == "ok"
    before = script.read_text()
    assert "by itself" in hook(directory)
    assert script.read_text() == before
    script.write_text(before.replace("fikit.job_modify(...)", "slurm.SUCCESS"))
    refused = CliRunner().invoke(cli, ["lua", "--directory", str(directory)])
    assert (refused.exit_code, "does not call its job_modify: call it there" in refused.output) == (1, True)
    script.write_text(SITE + f"dofile('{INSTALLED}')\n")
    assert check.script(script).status == "ok"
