"""docs/admin.md's installation, command by command, on a copy of this machine's system: what it leads to, doctor approves of."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_system import ROOT, SITE, CleanSystem, can_overlay, make_site, page_commands

AFTER_EACH_FAULT = {
    "GresTypes": "sed -i s/GresTypes=gpu,shard/GresTypes=gpu/ /etc/slurm/slurm.conf",
    "gres.conf": "sed -i s/Type=h200// /etc/slurm/gres.conf",
    "shards": "sed -i s/,shard:h200:282// /etc/slurm/slurm.conf",
    "job_submit.lua": "echo 'return slurm.SUCCESS' >/etc/slurm/job_submit.lua",
    "cli_filter.lua": "rm /etc/slurm/cli_filter.lua",
    "plugstack.conf": "sed -i s/native/lib/ /etc/slurm/plugstack.conf",
    "SPANK plugin": "rm /usr/lib/fikit/native/slurm/spank_fikit.so",
    "fikit.toml": "echo [nonsense] >>/etc/fikit/fikit.toml",
    "default_priority": "sed -i 's/fikitd$/fikitd default_priority=low/' /etc/slurm/plugstack.conf",
    "permissions": "chmod g+w /usr/lib/fikit/native/slurm/spank_fikit.so",
    "report_dir": "chmod 0777 /shared/fikit/reports",
    "access rules": "printf '[[access.rule]]\\ngroup = \"x\"\\n' >>/etc/fikit/fikit.toml; chmod go+w /etc/fikit/fikit.toml",
    "AccountingStorageEnforce": "printf '[[access.rule]]\\nqos = \"x\"\\n' >>/etc/fikit/fikit.toml",
    "shim": "echo >/usr/lib/fikit/native/libfikit_shim.so",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanSystem]:
    """This machine's system after the page's commands; `make install` in the place of the packages."""
    directory = tmp_path_factory.mktemp("page")
    if not can_overlay(directory / "try"):
        pytest.skip("needs root and overlayfs")
    if not Path("/usr/include/slurm/spank.h").exists():
        pytest.skip("needs libslurm-dev")
    system = CleanSystem(Path("/"), directory / "system")
    make_site(system)
    packages, *rest = page_commands()
    assert packages.startswith("apt-get install ")
    done = subprocess.run(["make", "-s", "install", "PREFIX=/usr", f"DESTDIR={system.upper}"], cwd=ROOT, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    system.checked("\n".join(["set -e", *rest[:-1]]))
    yield system
    shutil.rmtree(directory, ignore_errors=True)


def findings(system: CleanSystem, before: str = "true") -> tuple[int, dict[str, dict[str, str]]]:
    """fikit doctor's exit code and findings, after something that nobody sees afterwards."""
    done = system.run(f"{before}; fikit doctor --json 2>/dev/null", trial=True)
    return done.returncode, {found["name"]: found for found in json.loads(done.stdout)}


SCRIPTS = {
    "job_submit.lua": 'function slurm_job_submit(job) job.account = "site" return slurm.SUCCESS end\n'
                      'function slurm_job_modify() return slurm.SUCCESS end\nslurm.log_info("initialized")\nreturn slurm.SUCCESS',
    "cli_filter.lua": "function slurm_cli_setup_defaults() return slurm.SUCCESS end\nslurm_cli_pre_submit = slurm_cli_setup_defaults\n"
                      "slurm_cli_post_submit = slurm_cli_setup_defaults\nreturn slurm.SUCCESS",
}  # fmt: skip


def test_the_pages_commands_may_be_typed_again_and_bear_files_that_end_anyhow(system: CleanSystem) -> None:
    """On a site with scripts that end in `return`, and files without a last newline."""
    commands = "\n".join(page_commands()[1:-1])
    files = {**SITE, **SCRIPTS, "plugstack.conf": "# no plugin"}
    writes = [f"printf %s {shlex.quote(text.rstrip())} >/etc/slurm/{name}" for name, text in files.items()]
    show = "cd /etc && cat slurm/*.conf slurm/*.lua fikit/fikit.toml | sha256sum; cd - >/dev/null"
    script = "\n".join(
        ["set -e", *writes, "{", commands, "} >&2", show, "{", commands, "} >&2", show, "cat /etc/slurm/job_submit.lua"]
    )
    done = system.run(f"( {script} ) 2>/dev/null; echo AFTER; fikit doctor --json 2>/dev/null", trial=True)
    shown, _, found = done.stdout.partition("AFTER\n")
    first, again, *lua = shown.splitlines()
    assert first == again
    assert lua == ["do local r = dofile('/usr/lib/fikit/native/slurm/job_submit.lua') if r then return r end end",
                   *SCRIPTS["job_submit.lua"].splitlines()]  # fmt: skip
    assert [check for check in json.loads(found) if check["status"] == "fail"] == []


def test_after_the_pages_commands_doctor_has_nothing_to_complain_of(system: CleanSystem) -> None:
    assert page_commands()[-1] == "fikit doctor"
    assert len(page_commands()) == 10
    code, found = findings(system)
    failed = {name: check for name, check in found.items() if check["status"] == "fail"}
    assert (failed, code) == ({}, 0)
    wanted = {"GresTypes", "SelectType", "JobSubmitPlugins", "CliFilterPlugins", "PrologFlags", "shards", "gres.conf",
              "job_submit.lua", "plugstack.conf", "SPANK plugin", "fikit.toml", "report_dir", "profile_dir"}  # fmt: skip
    assert {name for name in wanted if found[name]["status"] != "ok"} == set()


@pytest.mark.parametrize("name", AFTER_EACH_FAULT)
def test_doctor_finds_what_is_broken_and_says_what_to_do(system: CleanSystem, name: str) -> None:
    code, found = findings(system, AFTER_EACH_FAULT[name])
    assert (code, found[name]["status"]) == (1, "fail")
    assert found[name]["advice"]


def test_doctors_advice_has_the_names_that_the_page_has(system: CleanSystem) -> None:
    _, found = findings(system, f"{AFTER_EACH_FAULT['plugstack.conf']}; {AFTER_EACH_FAULT['cli_filter.lua']}")
    for name, file in (("plugstack.conf", "spank_fikit.so"), ("cli_filter.lua", "cli_filter.lua")):
        assert f"/usr/lib/fikit/native/slurm/{file}" in found[name]["advice"]
