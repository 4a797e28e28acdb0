"""The doctor's reading of configuration files; each fault is found and comes with advice."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fikit.checks import daemon, gpu, plugstack, slurm
from fikit.checks.check import Check
from fikit.checks.native import preload, symbols
from fikit.site_paths import Place
from fikit.slurm import config as slurm_config
from fikitd.base import build
from fikitd.config import fikit_toml
from fikitd.store import mounts

from fikitd import __version__, _core, paths

ROOT = Path(__file__).resolve().parents[3]

SLURM_CONF = """
ClusterName=x  # comment
GresTypes=gpu,shard
SelectType=select/cons_tres
JobSubmitPlugins=lua
CliFilterPlugins=lua
PrologFlags=Alloc
NodeName=gpu[1-2] Gres=gpu:h200:2,shard:h200:282
NodeName=old Gres=gpu:2,shard:32
"""
GRES_CONF = "Name=gpu Type=h200 File=/dev/nvidia[0-1]\nName=shard Count=282\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A correct configuration, on a machine without a fikit.toml; returns slurm.conf."""
    monkeypatch.delenv("FIKIT_CONFIG", raising=False)
    tmp_path.chmod(0o755)
    (tmp_path / "slurm.conf").write_text(SLURM_CONF)
    (tmp_path / "gres.conf").write_text(GRES_CONF)
    for name in ("job_submit.lua", "cli_filter.lua"):
        (tmp_path / name).write_text(f"dofile('{paths.slurm_dir() / name}')\n")
    (tmp_path / "spank_fikit.so").touch()
    (tmp_path / "fikitd").touch(mode=0o755)
    (tmp_path / "plugstack.conf").write_text(f"required {tmp_path}/spank_fikit.so daemon={tmp_path}/fikitd\n")
    return tmp_path / "slurm.conf"


def findings(path: Path) -> dict[str, Check]:
    return {check.name: check for check in slurm.configuration(path)}


@pytest.mark.starts_processes
def test_correct_configuration_passes(site: Path) -> None:
    assert {check.status for check in findings(site).values()} == {"ok"}


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("file", "old", "new", "name", "status"),
    [
        ("slurm.conf", "gpu,shard", "gpu", "GresTypes", "fail"),
        ("slurm.conf", "cons_tres", "cons_res", "SelectType", "fail"),
        ("slurm.conf", "JobSubmitPlugins=lua", "", "JobSubmitPlugins", "fail"),
        ("slurm.conf", "CliFilterPlugins=lua", "", "CliFilterPlugins", "fail"),
        ("slurm.conf", "PrologFlags=Alloc", "PrologFlags=Serial", "PrologFlags", "fail"),
        ("slurm.conf", "shard:h200:282", "shard:282", "shards", "fail"),
        ("slurm.conf", "shard:", "other:", "shards", "fail"),
        ("slurm.conf", "NodeName=old", "PartitionName=a OverSubscribe=Exclusive\nNodeName=old", "partitions", "warn"),
        ("gres.conf", "Type=h200 ", "", "gres.conf", "fail"),
        ("gres.conf", "Name=shard Count=282", "#Name=shard", "gres.conf", "fail"),
        ("gres.conf", "Count=282", "Count=141", "gres.conf", "fail"),
        ("gres.conf", "Type=h200 File=", "Type=h200 MultipleFiles=", "gres.conf", "fail"),
        ("job_submit.lua", "dofile", "-- dofile", "job_submit.lua", "fail"),
        ("job_submit.lua", "slurm/job", "job", "job_submit.lua", "fail"),
        ("cli_filter.lua", "dofile", "-- dofile", "cli_filter.lua", "fail"),
        ("plugstack.conf", "spank_fikit", "spank_other", "plugstack.conf", "fail"),
        ("plugstack.conf", "/spank_fikit", "/native/spank_fikit", "plugstack.conf", "fail"),
        ("plugstack.conf", "/fikitd", "/fikidt", "plugstack.conf", "fail"),
        ("plugstack.conf", "daemon=", "deamon=", "plugstack.conf", "fail"),
        ("plugstack.conf", "daemon=", "report=on daemon=", "plugstack.conf", "fail"),
        ("plugstack.conf", "daemon=", "run_dir=run daemon=", "plugstack.conf", "fail"),
        ("plugstack.conf", "daemon=", "required daemon=", "plugstack.conf", "fail"),
        ("plugstack.conf", "required", "optional", "plugstack.conf", "warn"),
    ],
)
def test_each_fault_is_found_with_advice(site: Path, *, file: str, old: str, new: str, name: str, status: str) -> None:
    path = site.parent / file
    path.write_text(path.read_text().replace(old, new))
    found = findings(site)
    assert found[name].status == status
    assert found[name].advice
    assert {check.status for check in found.values() if check.name != name} == {"ok"}


@pytest.mark.starts_processes
def test_a_plugin_of_another_build_than_the_lua_scripts_is_found(site: Path) -> None:
    """What srun was asked for is told by the Lua to the plugin that Slurm has loaded: a copy of the same build understands it."""
    loaded = site.parent / "spank_fikit.so"
    shutil.copy(paths.slurm_dir() / loaded.name, loaded)
    assert findings(site)["plugstack.conf"].status == "ok"
    loaded.write_bytes(loaded.read_bytes() + b"another build")
    found = findings(site)["plugstack.conf"]
    assert found.status == "fail"
    assert str(loaded) in found.found
    assert str(paths.slurm_dir()) in found.advice


@pytest.mark.starts_processes
def test_files_that_are_included_and_spaces_around_a_sign_are_slurms_way_too(site: Path) -> None:
    for name in ("slurm.conf", "plugstack.conf"):
        path = site.parent / name
        (site.parent / f"main-{name}").write_text(path.read_text().replace("GresTypes=", "grestypes = "))
        path.write_text(f"include main-{name}\n")
    assert {check.status for check in findings(site).values()} == {"ok"}


def test_the_plugins_keys_are_those_that_its_code_knows() -> None:
    source = Path(__file__).resolve().parents[3] / "slurm_plugin" / "src" / "site" / "fikit_config.c"
    assert set(re.findall(r'KEY\("(\w+)"\)', source.read_text())) == set(plugstack.KEYS)


@pytest.mark.parametrize(
    ("gres", "gpus", "shards"),
    [("gpu:h200:2,shard:h200:282", 2, 282), ("gpu:2,shard:32", 2, 32), ("gpu:3g.71gb:1,gpu:1g.18gb:1,shard:3g.71gb:71,shard:1g.18gb:18", 2, 89),
     ("gpu", 1, 0), ("gpu:h200:4(s:0-1),shard:8", 4, 8)],
)  # fmt: skip
def test_what_a_node_has_is_counted(gres: str, gpus: int, shards: int) -> None:
    assert (slurm_config.count(gres, "gpu"), slurm_config.count(gres, "shard")) == (gpus, shards)


ACCESS = """
[access]
highest_priority = "normal"
[[access.rule]]
{} = "vip"
highest_priority = 0
"""


def ruled(site: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> dict[str, Check]:
    """The findings of a site with a rule by account, QOS, partition or group."""
    path = site.parent / "fikit.toml"
    path.write_text(ACCESS.format(key))
    path.chmod(0o644)
    monkeypatch.setenv("FIKIT_CONFIG", str(path))
    return findings(site)


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("key", "enforced", "missing"),
    [("account", "", "associations"), ("account", "Associations,Limits", ""), ("qos", "associations", "qos"),
     ("qos", "qos", ""), ("qos", "all", ""), ("partition", "", ""), ("group", "", "")],
)  # fmt: skip
def test_rules_by_what_a_user_can_choose_freely_are_found(
    site: Path, monkeypatch: pytest.MonkeyPatch, *, key: str, enforced: str, missing: str
) -> None:
    site.write_text(site.read_text() + f"AccountingStorageEnforce={enforced}\n")
    found = ruled(site, monkeypatch, key)
    if missing:
        assert found["AccountingStorageEnforce"].status == "fail"
        assert f"{missing} is missing" in found["AccountingStorageEnforce"].found
    else:
        assert found["access"].found == "1 rules in fikit.toml"
    assert found["access rules"].status == "ok"


@pytest.mark.starts_processes
def test_rules_that_others_can_write_are_found(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ruled(site, monkeypatch, "group")
    (site.parent / "fikit.toml").chmod(0o664)
    check = findings(site)["access rules"]
    assert (check.status, check.advice) == ("fail", f"chmod go-w {site.parent / 'fikit.toml'}")
    (site.parent / "fikit.toml").chmod(0o644)
    site.parent.chmod(0o777)
    assert findings(site)["access rules"].status == "fail"


@pytest.mark.starts_processes
def test_default_priorities_that_differ_are_found(site: Path) -> None:
    stack = site.parent / "plugstack.conf"
    stack.write_text(stack.read_text().rstrip() + " default_priority=low\n")
    check = findings(site)["default_priority"]
    assert (check.status, check.found) == (
        "fail",
        "low in plugstack.conf, normal in /etc/fikit/fikit.toml: jobs get the lower one",
    )
    stack.write_text(stack.read_text().replace("default_priority=low", "default_priority=5"))
    assert findings(site)["default_priority"].status == "warn", "one place is enough"


@pytest.mark.starts_processes
def test_copies_of_another_versions_lua_files_are_found(site: Path) -> None:
    for file in paths.slurm_dir().glob("fikit_*.lua"):
        shutil.copy(file, site.parent)
    assert findings(site)["Lua files"].status == "ok"
    (site.parent / "fikit_access.lua").write_text("-- old\n")
    assert findings(site)["Lua files"].found == f"{site.parent / 'fikit_access.lua'} is not this version's"
    (site.parent / "fikit_access.lua").unlink()
    assert findings(site)["Lua files"].status == "fail"


@pytest.mark.starts_processes
@pytest.mark.parametrize("file", ["gres.conf", "job_submit.lua", "cli_filter.lua", "plugstack.conf"])
def test_missing_file_fails(site: Path, file: str) -> None:
    (site.parent / file).unlink()
    assert findings(site)[file].status == "fail"


def test_plugin_of_another_slurm_release_is_refused(cc: Callable[..., Path], tmp_path: Path) -> None:
    source = tmp_path / "plugin.c"
    source.write_text("const unsigned int plugin_version = (22 << 16) | (5 << 8) | 8;\n")
    library = cc(source, "-shared", "-fPIC")
    assert slurm.plugin(library, (22, 5, 8)).status == "ok"
    other = slurm.plugin(library, (23, 11, 1))
    assert (other.status, other.found) == ("fail", f"{library} was built for Slurm 22.05, this is 23.11")
    assert other.advice.startswith("make slurm-plugin SLURM_INCDIR=DIR, where DIR/slurm/spank.h is Slurm 23.11's")


def test_library_that_needs_a_newer_glibc_is_refused(cc: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text(
        '#include <unistd.h>\nint f(void) { return getpid(); }\nconst char *text = "GLIBC_2.99";\n'
    )
    assert symbols(cc(tmp_path / "old.c", "-shared", "-fPIC")).status == "ok"
    # dlopen moved into libc.so with a new version in glibc 2.34, which is what Debian 12 and newer have.
    (tmp_path / "new.c").write_text("#include <dlfcn.h>\nvoid *f(void) { return dlopen(0, RTLD_LAZY); }\n")
    found = symbols(cc(tmp_path / "new.c", "-shared", "-fPIC"))
    assert (found.status, found.found) == ("fail", "needs glibc 2.34, newer than 2.28")


@pytest.mark.starts_processes
def test_preload_libraries_that_are_not_the_same_for_every_processor_are_found(native: Path, tmp_path: Path) -> None:
    for file in native.glob("**/libfikit_shim.so"):
        target = tmp_path / file.relative_to(native)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(file, target)
    shim = tmp_path / "libfikit_shim.so"
    assert preload(shim).status == "ok"
    with (tmp_path / "xeon_phi" / shim.name).open("ab") as copy:
        copy.write(b"of another build")
    assert preload(shim).found == f"{tmp_path / 'xeon_phi' / shim.name} is not the same as {shim}"
    for name in ("haswell", "x86_64"):
        (tmp_path / name / shim.name).write_bytes(b"")
    assert "$PLATFORM" in preload(shim).found
    assert preload(shim).status == "fail"


@pytest.mark.parametrize("content", [b"", b"not ELF", b"\x7fELF\x02" + b"\xff" * 100])
def test_damaged_library_is_a_finding_not_a_crash(tmp_path: Path, content: bytes) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(content)
    assert symbols(library).status == "fail"
    assert slurm.plugin(library, (22, 5, 8)).status == "fail"


def test_gpu_that_admits_one_process_cannot_be_shared() -> None:
    assert gpu.compute_modes([0, 0], under_mps=False).status == "ok"
    closed = gpu.compute_modes([0, 3, 2], under_mps=False)
    assert closed.status == "fail"
    assert closed.found == "GPU 1 admits one process at a time; GPU 2 admits no process at all"
    assert "nvidia-smi -i 1,2 -c DEFAULT" in closed.advice


def test_gpu_that_is_split_into_nothing_cannot_be_used() -> None:
    found = gpu.instances([(0, [("H200 MIG 3g.71gb", "MIG-1")]), (2, [])])
    assert (found.status, found.found) == ("fail", "GPU 2 is split into no instance, so that no program can use it")
    assert "nvidia-smi -i 2 -mig 0" in found.advice


def test_files_that_root_loads_and_others_can_change_are_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "spank_fikit.so"
    file.touch(mode=0o755)
    assert slurm.owned([file]).status == "ok"
    file.chmod(0o775)
    assert slurm.owned([file]).advice == f"chmod go-w {file}"
    file.chmod(0o755)
    tmp_path.chmod(0o757)
    assert slurm.owned([file]).advice == f"chmod go-w {tmp_path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_files_that_root_loads_and_another_user_owns_are_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "spank_fikit.so"
    file.touch(mode=0o755)
    os.chown(file, 33, 33)
    assert slurm.owned([file]).found == f"{file} belongs to uid 33"


def test_storage_in_which_users_can_delete_each_others_files_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert daemon.storage("report_dir", tmp_path).advice == f"chmod 1777 {tmp_path}"
    tmp_path.chmod(0o1777)
    assert daemon.storage("report_dir", tmp_path).status == "ok"
    assert daemon.storage("report_dir", tmp_path / "none").status == "warn"


def test_storage_that_is_mounted_read_only_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*usual[:8], usual.f_flag | os.ST_RDONLY, usual.f_namemax))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    check = daemon.storage("report_dir", tmp_path)
    assert (check.status, check.advice) == ("fail", "mount it for writing")


def test_storage_without_room_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    usual = os.statvfs(tmp_path)
    for full in ((*usual[:4], 0, 1000, 10, 10), (*usual[:5], 1000, 10, 0)):  # no block, no file for users
        monkeypatch.setattr(os, "statvfs", lambda path, full=full: os.statvfs_result((*full, *usual[8:])))
        assert daemon.storage("report_dir", tmp_path).status == "fail"
    uncounted = os.statvfs_result((*usual[:2], 0, 0, 0, 0, 0, 0, *usual[8:]))
    monkeypatch.setattr(os, "statvfs", lambda path: uncounted)
    assert daemon.storage("report_dir", tmp_path).status == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a directory of root's")
def test_storage_that_users_cannot_look_into_is_found_and_such_as_only_root_writes_is_right(tmp_path: Path) -> None:
    for mode in (0o755, 0o1777):
        tmp_path.chmod(mode)
        assert daemon.unreadable("report_dir", tmp_path) is None
        assert daemon.storage("report_dir", tmp_path).status == "ok"
    for mode in (0o700, 0o751):
        tmp_path.chmod(mode)
        check = daemon.unreadable("report_dir", tmp_path)
        assert check is not None
        assert (check.status, check.advice) == ("warn", f"chmod o+rx {tmp_path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a directory of root's")
def test_run_dir_that_users_cannot_enter_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    check = daemon.daemon(Place(tmp_path, tmp_path, tmp_path))
    assert (check.status, check.advice) == ("fail", f"chmod 0755 {tmp_path}")


def test_configuration_that_users_cannot_read_is_found(tmp_path: Path) -> None:
    assert daemon.configuration(None).status == "ok"
    file = tmp_path / "fikit.toml"
    file.touch(mode=0o644)
    assert daemon.configuration(file).status == "ok"
    file.chmod(0o640)
    assert daemon.configuration(file).advice == f"chmod a+r {file}"


def test_run_dir_in_which_anybody_can_put_a_socket_is_found_also_where_nobody_answers(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert daemon.daemon(Place(tmp_path, tmp_path, tmp_path)).status == "fail"
    tmp_path.chmod(0o755)
    assert daemon.daemon(Place(tmp_path, tmp_path, tmp_path)).status == "warn"


@pytest.mark.parametrize(
    ("answer", "mode", "status"),
    [(f"fikitd {build.identity()} fikit", 0o755, "ok"), (f"fikitd 0.0.9+{_core.BUILD} fikit", 0o755, "warn"),
     (f"fikitd {__version__} fikit", 0o755, "warn"), (f"fikitd {__version__}+0123456789 fikit", 0o755, "warn"),
     (f"fikitd {build.identity()} fikit", 0o757, "fail")],
)  # fmt: skip
def test_daemon_of_another_build_and_one_that_anybody_can_stand_in_for_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, answer: str, mode: int, status: str
) -> None:
    tmp_path.chmod(mode)
    monkeypatch.setattr(daemon.Control, "ping", lambda self: answer)
    assert daemon.daemon(Place(tmp_path, tmp_path, tmp_path)).status == status


@pytest.mark.parametrize(
    ("now", "status"),
    [
        ('[oversubscribe]\nallow = "lower"\n', "warn"),
        ("[scheduler]\nlease_ms = 50\n", "warn"),
        ("[slurm]\ngpu_memory_gib = 80\n", "ok"),
        ('[access]\nhighest_priority = "normal"\n', "ok"),
        ("# a comment\n[oversubscribe]\n", "ok"),
    ],
)
def test_a_daemon_that_goes_by_a_fikit_toml_of_before_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, now: str, status: str
) -> None:
    tmp_path.chmod(0o755)
    config = tmp_path / "fikit.toml"
    config.write_text("")
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    running = fikit_toml.load().with_run_dir(str(tmp_path)).mark()
    monkeypatch.setattr(daemon.Control, "ping", lambda self: f"fikitd {build.identity()} budget")
    monkeypatch.setattr(daemon.Control, "node", lambda self: {"config": running})
    config.write_text(now)
    check = daemon.daemon(Place(tmp_path, tmp_path, tmp_path, config))
    assert (check.status, "goes by what" in check.found) == (status, status == "warn")
    monkeypatch.setattr(daemon.Control, "node", lambda self: {})
    assert daemon.daemon(Place(tmp_path, tmp_path, tmp_path, config)).status == "ok", "a fikitd of before does not tell"


def test_doctor_admin_page_and_plugin_know_the_same_words_of_plugstack() -> None:
    source = (ROOT / "slurm_plugin" / "src" / "site" / "fikit_config.c").read_text()
    page = (ROOT / "docs" / "admin.md").read_text().partition("## plugstack.conf arguments")[2].partition("\n## ")[0]
    assert set(plugstack.KEYS) == set(re.findall(r'KEY\("(\w+)"\)', source))
    assert set(plugstack.KEYS) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


@pytest.mark.starts_processes
def test_a_python_that_cannot_be_run_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu.sys, "executable", str(tmp_path / "python"))
    assert "could not be run: No such file or directory" in next(gpu.area()).found


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "ok -n"),
        ("AuthType=auth/munge\nAuthInfo=ttl=30,socket=/run/own.sock\n", "ok -S /run/own.sock -n"),
        ("AuthType=auth/slurm\n", None),
    ],
)
def test_the_munged_that_slurm_asks_is_the_one_that_is_tried(
    settings: str, said: str | None, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = site.parent / "tools"
    tools.mkdir()
    for name in ("munge", "unmunge"):
        (tools / name).write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>{site.parent}/asked\n")
        (tools / name).chmod(0o755)
    site.write_text(SLURM_CONF + settings)
    monkeypatch.setenv("SLURM_CONF", str(site))
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setattr(slurm.slurm_versions, "installed", lambda: (22, 5, 8))
    found = {check.name: check.status for check in slurm.area()}
    if said is None:
        assert "munge" not in found
    else:
        assert f"{found['munge']} {(site.parent / 'asked').read_text().splitlines()[0]}" == said


def test_storage_that_is_not_mounted_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = daemon.storage("report_dir", tmp_path / "shared" / "reports")
    assert (check.status, check.found) == ("fail", f"there is no {tmp_path}/shared, and nothing is stored")
    (tmp_path / "shared" / "reports").mkdir(parents=True)
    assert daemon.storage("report_dir", tmp_path / "shared" / "reports").status == "ok"
    (tmp_path / "fstab").write_text(f"server:/x {tmp_path}/shared nfs defaults 0 0\n")
    monkeypatch.setattr(mounts, "FSTAB", tmp_path / "fstab")
    check = daemon.storage("report_dir", tmp_path / "shared" / "reports")
    assert (check.status, check.advice) == ("fail", f"mount {tmp_path}/shared")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_a_directory_of_ones_name_that_is_somebody_elses_is_told(tmp_path: Path) -> None:
    (tmp_path / str(os.getuid())).mkdir()
    assert daemon.storage("report_dir", tmp_path).status == "ok"
    os.chown(tmp_path / str(os.getuid()), 4321, 4321)
    assert "is uid 4321's" in daemon.storage("report_dir", tmp_path).found
