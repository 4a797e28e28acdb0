"""Who may use which priority: job_submit keeps to [access] of fikit.toml, in jobs that come and jobs that change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lua_module import LUA, SITE, Submitted, ask, lua, modify, quote, submit

pytestmark = [pytest.mark.starts_processes, pytest.mark.skipif(shutil.which("lua5.1") is None, reason="needs lua5.1")]

GPU = {"tres_per_node": "gres:gpu:1"}
ABOVE_LOW = """
[access]
highest_priority = "normal"
min_allowed_slowdown = "2%"
min_allowed_delay_us = 50
[[access.rule]]
partition = "debug"
highest_priority = "low"
[[access.rule]]
account = "vip"
highest_priority = 0
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's fikit.toml with rules, in a directory that only its owner can write."""
    tmp_path.chmod(0o755)
    path = tmp_path / "fikit.toml"
    path.write_text(ABOVE_LOW)
    path.chmod(0o644)
    return path


def asked(site: Path, options: dict[str, str], job: dict[str, object] | None = None) -> Submitted:
    return submit(options, {**GPU, **(job or {})}, **{SITE: str(site)})


HIGH, NORMAL, LOW = ({"fikit-priority": name} for name in ("high", "normal", "low"))


@pytest.mark.parametrize(
    ("options", "job", "words"),
    [
        (HIGH, {}, "--fikit-priority=high is not for this job here (without account and partition; `fikit limits` shows "
                   "the rules): use --fikit-priority=normal, low or a number from 5 to 9"),
        ({"fikit-priority": "4"}, {"partition": "all"}, "--fikit-priority=4 is not for this job here (partition all;"),
        (NORMAL, {"partition": "debug"}, "use --fikit-priority=low or a number from 8 to 9"),
        ({"fikit-priority": "auto:low-high"}, {}, "--fikit-priority=auto:low-high is not for this job here"),
        ({"fikit-priority": "auto:high-low"}, {}, "--fikit-priority=auto:high-low is not for this job here"),
        ({"fikit-priority": "auto"}, {"partition": "debug"}, "--fikit-priority=auto is not for this job here (partition debug;"),
        ({"fikit-mem": "2G"}, {"partition": "debug"}, "a job that names no priority gets 5, which is not for this job"),
        (HIGH, {"account": "vip", "partition": "all,debug"}, "partition debug"),
        ({"fikit-max-slowdown": "1%"}, {}, "so small a --fikit-max-slowdown is not for this job"),
        ({"fikit-max-delay": "49us"}, {}, "use 50us or more"),
        (HIGH, {"tres_per_node": "gres:shard:4"}, "--fikit-priority=high is not for this job"),
        (HIGH, {"default_account": "other", "default_qos": "q"}, "(account other, qos q;"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused_in_one_sentence(
    site: Path, options: dict[str, str], job: dict[str, object], words: str
) -> None:
    done = asked(site, options, job)
    assert done.code == -1
    assert len(done.said) == 1
    assert words in done.said[0]


@pytest.mark.parametrize(
    ("options", "job"),
    [
        (NORMAL, {}),
        (LOW, {"partition": "debug"}),
        (HIGH, {"account": "VIP"}),
        ({"fikit-priority": "auto"}, {}),
        ({"fikit-priority": "auto:low-9"}, {"partition": "debug"}),
        ({"fikit-priority": "auto:low-high"}, {"account": "vip"}),
        (HIGH, {"default_account": "vip"}),
        ({"fikit-max-slowdown": "2%", "fikit-max-delay": "50us"}, {}),
    ],
)
def test_what_is_allowed_shares(site: Path, options: dict[str, str], job: dict[str, object]) -> None:
    done = asked(site, options, job)
    assert (done.code, done.per_node, done.said) == (0, "gres:shard:4", [])


@pytest.mark.parametrize("text", [ABOVE_LOW, "nonsense"])
def test_jobs_that_share_nothing_are_not_asked(site: Path, text: str) -> None:
    site.write_text(text)
    assert asked(site, {}).code == 0
    assert asked(site, {"fikit-measure": "(null)"}).code == 0, "its node gives it the lowest priority"
    assert submit({}, {}, **{SITE: str(site)}).code == 0


PRIORITY, MEASURE = (f"_SLURM_SPANK_OPTION_fikit_fikit_{name}=" for name in ("priority", "measure"))
BATCH: dict[str, object] = {"script": "#!/bin/sh"}


@pytest.mark.parametrize(
    ("entries", "job"),
    [
        ([f"{PRIORITY}high"], {**BATCH, "environment": {"FIKIT_MEASURE": "1"}}),
        ([f"{PRIORITY}high"], {**BATCH, "environment": {MEASURE[:-1]: "1"}}),
        ([f"{PRIORITY}high", f"{MEASURE}0"], {}),
        ([f"{PRIORITY}high", f"{MEASURE}(null)"], {}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"shared": 0}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"tres_per_node": "gres:gpu:2"}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"min_nodes": 2}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"tres_per_node": "", "tres_per_socket": "gres:gpu:1"}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"tres_per_node": "", "ntasks_per_tres": 1, "num_tasks": 1}),
        ([f"{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {"tres_per_node": "", "shared": 0}),
        ([f"{PRIORITY}high"], {"het_job_offset": 1, "tres_per_node": "gres:gpu:2"}),
        ([f"{PRIORITY}low", f"SPANK_{PRIORITY}high"], {}),
        ([f"SPANK_{PRIORITY}high", "FIKIT_ONLY_WISHED=1"], {}),
        ([f"{PRIORITY}high", f"{PRIORITY}low"], {}),
        ([f"A={PRIORITY}low", f"{PRIORITY}high"], {}),
        ([f"{PRIORITY}low=", f"{PRIORITY}high"], {}),
        ([f"X{MEASURE}(null)", "_SLURM_SPANK_OPTION_fikit_fikit_mem=2G"], {}),
        ([f"{PRIORITY}high"], {**BATCH, "environment": {PRIORITY[:-1]: "low"}}),
        ([f"{PRIORITY}0 "], {}),
        ([f"{PRIORITY}high\nx"], {}),
        (["_SLURM_SPANK_OPTION_fikit_fikit_mem=20Gi"], {}),
        (["_SLURM_SPANK_OPTION_fikit_fikit_max_slowdown=1.9999999%"], {}),
        (["_SLURM_SPANK_OPTION_fikit_fikit_max_delay=49.9us"], {}),
    ],
)
def test_what_the_node_would_write_is_what_is_asked_about(
    site: Path, entries: list[str], job: dict[str, object]
) -> None:
    done = submit({}, {**GPU, **job, "spank_job_env": dict(enumerate(entries))}, **{SITE: str(site)})
    assert (done.code, len(done.said)) == (-1, 1)


def test_an_entry_that_no_node_reads_is_no_option(site: Path) -> None:
    """The node would give the job the site's priority."""
    site.write_text('[access]\nhighest_priority = "low"\n')
    other = {"spank_job_env": {0: f"OTHER={PRIORITY}low", 1: "_SLURM_SPANK_OPTION_fikit_fikit_mem=2G"}}
    assert "a job that names no priority gets 5" in submit({}, {**GPU, **other}, **{SITE: str(site)}).said[0]


def test_without_a_file_and_without_rules_everything_is_allowed(site: Path, tmp_path: Path) -> None:
    assert asked(tmp_path / "none", HIGH).code == 0
    site.write_text("[daemon]\n")
    site.chmod(0o666)
    assert asked(site, HIGH).code == 0


def test_shards_without_an_option_have_the_sites_priority(site: Path) -> None:
    shards = {"tres_per_node": "gres:shard:2"}
    assert asked(site, {}, shards).code == 0
    assert asked(site, {}, {**shards, "partition": "debug"}).code == -1
    site.write_text(ABOVE_LOW + '[slurm]\ndefault_priority = "low"\n')
    assert asked(site, {}, {**shards, "partition": "debug"}).code == 0


def test_shards_are_seen_wherever_a_client_asks_for_them(site: Path) -> None:
    for key in ("tres_per_job", "tres_per_task", "tres_per_socket"):
        assert submit(HIGH, {key: "gres:shard:2"}, **{SITE: str(site)}).code == -1, key


def test_the_default_partition_counts_where_none_is_named(site: Path) -> None:
    partitions = {"all": {"name": "all", "flag_default": 0}, "debug": {"name": "debug", "flag_default": 1}}
    assert ask(HIGH, {**GPU, "account": "vip"}, partitions, **{SITE: str(site)}).code == -1


def test_an_option_that_was_sent_twice_is_refused(site: Path) -> None:
    carried = "_SLURM_SPANK_OPTION_fikit_fikit_priority="
    for entries in ([f"{carried}low", f"{carried}high"], [f"X{carried}low", f"{carried}high"]):
        done = submit({}, {**GPU, "spank_job_env": dict(enumerate(entries))}, **{SITE: str(site)})
        assert (done.code, len(done.said)) == (-1, 1)
        assert "--fikit-priority was sent twice" in done.said[0]
    batch = {"script": "#!/bin/sh", "environment": {f"{carried}"[:-1]: "high"}}
    assert "sent twice" in asked(site, LOW, batch).said[0], "the environment is what a batch job's first step goes by"
    assert asked(site, {}, batch).code == -1
    measured = {"script": "#!/bin/sh", "environment": {f"{carried}"[:-9] + "measure": ""}}
    assert asked(site, {"fikit-measure": "(null)"}, measured).code == 0, "as sbatch sends it"


def test_a_variable_counts_as_what_the_node_will_make_of_it(site: Path) -> None:
    rest = {"script": "#!/bin/sh", "environment": {"FIKIT_PRIORITY": "low"}}
    assert asked(site, {}, rest).code == 0
    assert asked(site, {}, {**rest, "partition": "debug"}).code == -1, (
        "without the plugin the node gives it the default"
    )
    assert asked(site, {}, {**rest, "environment": {"FIKIT_PRIORITY": "high"}}).code == -1


GROUP = '[access]\nhighest_priority = "low"\n[[access.rule]]\ngroup = "{}"\nhighest_priority = 0\n'


def test_rules_by_group_ask_the_machine(site: Path) -> None:
    user = {"user_name": "root"}
    site.write_text(GROUP.format("root"))
    assert asked(site, HIGH, user).code == 0
    assert asked(site, HIGH, {"user_id": 0}).code == 0
    assert asked(site, HIGH, {"user_id": 0.0}).code == 0, "as Lua 5.3 and newer have Slurm's numbers"
    change, job = {"partition": "prod"}, {"partition": "all", "tres_per_node": "gres:shard:4"}
    assert modify(change, HIGH, {**job, "user_id": 0.0}, 0.0, **{SITE: str(site)}).code == 0
    assert modify(change, HIGH, {**job, "user_id": 65534.0}, 65534.0, **{SITE: str(site)}).code == -1
    assert asked(site, HIGH, {"user_name": "nobody"}).code == -1
    assert asked(site, HIGH, {"user_name": "$(touch /tmp/x)"}).code == -1
    site.write_text(GROUP.format("wheel"))
    assert asked(site, HIGH, user).code == -1


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o664), "others than root can write"),
        (lambda path: path.chmod(0o646), "others than root can write"),
        (lambda path: path.parent.chmod(0o777), "others than root can write"),
        (lambda path: path.write_text(ABOVE_LOW + "x"), "line 12: = was expected"),
        (lambda path: path.write_text(ABOVE_LOW + "#" * 65_536), "longer than 64 KiB"),
        (lambda path: (path.unlink(), path.mkdir()), "irectory"),
    ],
)
def test_a_file_that_cannot_be_used_allows_nobody_more_than_normal(site: Path, spoil: Any, why: str) -> None:
    spoil(site)
    done = asked(site, HIGH, {"account": "vip"})
    assert done.code == -1
    assert why in done.logged
    assert "until it is mended nobody gets a priority above normal" in done.logged
    normal = asked(site, NORMAL, {"partition": "debug"})
    assert normal.code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_file_of_somebody_else_is_not_believed(site: Path) -> None:
    os.chown(site, 33, 33)
    assert "belongs to uid 33 instead of root" in asked(site, HIGH, {"account": "vip"}).logged


def test_a_broken_file_leaves_the_last_good_rules_and_one_line(site: Path) -> None:
    good, broken = quote(ABOVE_LOW), quote("[access]\nhighest_priority = 10\n")
    printed = lua(f"""
      local function write(text) local f = io.open({quote(str(site))}, "w") f:write(text) f:close() end
      local function high(account)
        return fikit.job_submit({{ tres_per_node = "gres:gpu:1", account = account, min_nodes = 1, num_tasks = 1,
          spank_job_env = {{ [0] = "_SLURM_SPANK_OPTION_fikit_fikit_priority=high" }} }}, {{}})
      end
      print("rc", high("vip"), high("x"))
      write({broken})
      print("rc", high("vip"), high("x"), high("vip"))
      write("[access]\\nhighest_priority = 0\\n")
      print("rc", high("x"))
      write({good})
      print("rc", high("vip"), high("x"))
    """, **{SITE: str(site)})  # fmt: skip
    assert [line.split()[1:] for line in printed if line.startswith("rc")] == [
        ["0", "-1"], ["0", "-1", "0"], ["0"], ["0", "-1"],
    ]  # fmt: skip
    logged = [line for line in printed if line.startswith("log: ")]
    assert len(logged) == 1
    assert "the rules of before stay in force" in logged[0]


@pytest.mark.parametrize(
    ("change", "options", "code"),
    [
        ({"partition": "debug"}, NORMAL, -1),
        ({"partition": "debug"}, LOW, 0),
        ({"account": "other"}, HIGH, -1),
        ({"account": "vip"}, HIGH, 0),
        ({"comment": "x"}, HIGH, 0),
        ({"tres_per_node": "gres:shard:8"}, NORMAL, 0),
        ({"tres_per_node": "gres:gpu:1"}, HIGH, 0),
    ],
)
def test_a_job_that_changes_must_be_allowed_what_it_has(
    site: Path, change: dict[str, object], options: dict[str, str], code: int
) -> None:
    job = {"user_id": 1000, "account": "vip", "partition": "all", "tres_per_node": "gres:shard:4"}
    if options == NORMAL:
        job["account"] = "plain"
    done = modify(change, options, job, 1000, **{SITE: str(site)})
    assert (done.code, len(done.said)) == (code, -code)
    assert modify(change, options, job, 0, **{SITE: str(site)}).code == 0, "an operator may do as he likes"


@pytest.mark.parametrize(
    "change",
    [
        {"tres_per_node": "gres:gpu:1"},
        {"tres_per_job": "gres:gpu:1"},
        {"tres_per_socket": "gres:gpu:1"},
        {"ntasks_per_tres": 1},
        {"shared": 0},
        {"partition": "whole"},
    ],
)
def test_a_wish_that_came_without_a_gpu_is_asked_about_when_it_gets_one(site: Path, change: dict[str, object]) -> None:
    job = {"user_id": 1000, "partition": "all"}
    partitions: dict[str, object] = {"whole": {"name": "whole", "max_share": 0}}
    assert modify(change, HIGH, job, 1000, partitions, **{SITE: str(site)}).code == -1
    assert modify(change, NORMAL, job, 1000, partitions, **{SITE: str(site)}).code == 0


def test_a_measurement_gets_no_shards_afterwards(site: Path) -> None:
    job = {"user_id": 1000, "partition": "all", "tres_per_node": "gres:gpu:1"}
    done = modify({"tres_per_node": "gres:shard:4"}, {"fikit-measure": "(null)"}, job, 1000, **{SITE: str(site)})
    assert done.code == -1
    assert "alone on its GPU" in done.said[0]


def test_a_job_that_leaves_its_account_or_qos_for_the_default_is_asked_again(site: Path) -> None:
    job = {"user_id": 1000, "account": "vip", "tres_per_node": "gres:shard:4"}
    assert modify({"account": ""}, HIGH, job, 1000, **{SITE: str(site)}).code == -1
    assert modify({"account": "", "default_account": "vip"}, HIGH, job, 1000, **{SITE: str(site)}).code == 0


def test_a_job_that_was_submitted_with_a_wish_only_comes_to_no_shards_by_it(site: Path) -> None:
    job = {"user_id": 1000, "partition": "all"}
    shards = {"tres_per_node": "gres:shard:4"}
    assert modify(shards, HIGH, job, 1000, **{SITE: str(site)}).code == -1
    assert modify(shards, NORMAL, job, 1000, **{SITE: str(site)}).code == 0


def test_no_command_of_a_user_reaches_the_shell(tmp_path: Path) -> None:
    """The only texts in the commands that slurmctld runs are the path of the site's file and the user's name."""
    witness = tmp_path / "witness"
    for name in (f"root'; touch {witness}; '", f"$(touch {witness})", f"root\n touch {witness}"):
        lua(f"local s = dofile({quote(str(LUA / 'fikit_site.lua'))}) s.groups({quote(name)})")
        lua(f"local s = dofile({quote(str(LUA / 'fikit_site.lua'))}) s.rules({quote('/tmp/' + name)})")
    assert not witness.exists()
    assert subprocess.run(["id", "-Gnz", "--", "root"], check=False, capture_output=True).returncode == 0
