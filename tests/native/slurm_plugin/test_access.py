"""Who may use which priority: slurmctld's Lua and fikitd's Python read [access] to the same effect, and job_submit keeps to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fikitd.config import access
from fikitd.config.fikit_toml import ConfigError, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from lua_module import LUA, SITE, Submitted, ask, lua, modify, quote, submit

pytestmark = [pytest.mark.starts_processes, pytest.mark.skipif(shutil.which("lua5.1") is None, reason="needs lua5.1")]

RULES = """
[daemon]
run_dir = "/run/fikit" # "#"
[access]
highest_priority = 3
min_allowed_slowdown = "2.5%"
min_allowed_delay_us = 100
[[access.rule]]
qos = ["Urgent", 'production']
highest_priority = "high"
min_allowed_slowdown = "0%"
[[access.rule]]
account = "physics"
partition = ["a", "b",
  "c", # the last
]
highest_priority = 6
[[access.rule]]
group = ["staff", "wheel"]
highest_priority = 0
min_allowed_delay_us = 0
"""

WHO: list[dict[str, tuple[str, ...]]] = [
    {},
    {"qos": ("urgent",)},
    {"qos": ("PRODUCTION",), "account": ("physics",), "partition": ("a",)},
    {"account": ("Physics",), "partition": ("c",)},
    {"account": ("physics",), "partition": ("A",)},
    {"account": ("physics",)},
    {"account": ("physics",), "partition": ("b",), "group": ("staff",)},
    {"group": ("users", "wheel")},
    {"group": ("Staff",)},
]

# What no reader takes, each for one reason.
BROKEN = [
    "[access]\nhighest_priority = 10\n",
    "[access]\nhighest_priority = -1\n",
    "[access]\nhighest_priority = 1.5\n",
    '[access]\nhighest_priority = "urgent"\n',
    "[access]\nhighest_priority = true\n",
    "[access]\nhighest_priority = [1]\n",
    '[access]\nmin_allowed_slowdown = "5"\n',
    "[access]\nmin_allowed_slowdown = 0.05\n",
    "[access]\nmin_allowed_delay_us = 10000001\n",
    "[access]\nhighst_priority = 1\n",
    "access = 1\n",
    "[access]\nrule = 1\nhighest_priority = 1\n",
    "[access]\nrule = []\nhighest_priority = 1\n",
    "[access]\nrule = [1]\nhighest_priority = 1\n",
    '[[access.rule]]\naccount = "a"\n',
    "[access]\nhighest_priority = 1\n[[access.rule]]\nhighest_priority = 1\n",
    '[access]\nhighest_priority = 1\n[[access.rule]]\nacount = "a"\n',
    "[access]\nhighest_priority = 1\n[[access.rule]]\naccount = []\n",
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = ""\n',
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = ["a", 1]\n',
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = "a"\nhighest_priority = 11\n',
    "[access]\nhighest_priority = 1\n" + '[[access.rule]]\naccount = "a"\n' * 257,
    "[access]\nmin_allowed_delay_us = 10\nlowest_max_delay_us = 10\n",
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = "a"\nmin_allowed_slowdown = "1"\nlowest_max_slowdown = "1"\n',
    "[access\nhighest_priority = 1\n",
    "[access]\nhighest_priority 1\n",
    "[access]\nhighest_priority = 1 2\n",
    "[access]\nhighest_priority =\n",
    "[access]\nhighest_priority = 1\nhighest_priority = 2\n",
    "[access]\nhighest_priority = 1\n[access]\n",
    '[access]\nhighest_priority = "high\n',
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = ["a"\n',
    '[access]\nhighest_priority = """high"""\n',
    '[access]\nhighest_priority = 1\n[[access.rule]]\naccount = "\\u0041"\n',
]

# As RULES, by the names that keys had once.
FORMER_RULES = RULES.replace("min_allowed_slowdown", "lowest_max_slowdown").replace(
    "min_allowed_delay_us", "lowest_max_delay_us"
)

FINE = [
    "",
    FORMER_RULES,
    "# nothing\r\n",
    RULES,
    "[slurm]\ngpu_memory_gib = 1_000\n",
    'access = {highest_priority = "low", rule = [{account = "a"}, {qos = ["b"], highest_priority = 1}]}\n',
    'access.highest_priority = 4\naccess."min_allowed_slowdown" = "0.5"\n',
    '[[access.rule]]\naccount = "a\\"b\\\\c" # "\n[access]\nhighest_priority = +2\n',
    '[ access ]\nhighest_priority=8#x\n[["access".rule ]]\npartition=["p"]',
]


def read_by_lua(text: str, who: list[dict[str, tuple[str, ...]]]) -> list[Any] | None:
    """The limits by fikit_access.lua for each of `who`; None when it refuses the file."""
    printed = lua(f"""
      local rules = access.read(toml.parse({quote(text)}) or {{access = 0}})
      if not rules then print("refused") return end
      for _, who in ipairs({quote(dict(enumerate(who, 1)))}) do
        local groups = {{}}
        for _, group in ipairs(who.group or {{}}) do groups[group] = true end
        local l = access.limits(rules, {{ account = who.account and who.account[1], qos = who.qos and who.qos[1],
          partition = who.partition and who.partition[1], groups = function() return groups end }})
        print(l.highest_priority, l.min_allowed_slowdown, l.min_allowed_delay_ns / 1000)
      end
    """)
    if printed == ["refused"]:
        return None
    return [tuple(map(float, line.split())) for line in printed]


def read_by_python(text: str, who: list[dict[str, tuple[str, ...]]]) -> list[Any] | None:
    try:
        config = parse(text, "fikit.toml").access
    except ConfigError:
        return None
    found = [access.limits_for(config, one) for one in who]
    return [(one.highest_priority, one.min_allowed_slowdown, one.min_allowed_delay_us) for one in found]


def test_keys_by_their_former_names_are_the_same() -> None:
    assert read_by_python(FORMER_RULES, WHO) == read_by_python(RULES, WHO) != [(0, 0.0, 0)] * len(WHO)


@pytest.mark.parametrize("text", FINE)
def test_both_readers_understand_the_same(text: str) -> None:
    assert read_by_python(text, WHO) == read_by_lua(text, WHO) is not None


@pytest.mark.parametrize("text", BROKEN)
def test_both_readers_refuse_the_same(text: str) -> None:
    assert read_by_python(text, WHO) is None
    assert read_by_lua(text, WHO) is None


def test_the_first_rule_that_fits_decides() -> None:
    assert read_by_python(RULES, WHO) == [
        (3, 0.025, 100),
        (1, 0.0, 100),
        (1, 0.0, 100),
        (6, 0.025, 100),
        (3, 0.025, 100),
        (3, 0.025, 100),
        (6, 0.025, 100),
        (0, 0.025, 0),
        (3, 0.025, 100),
    ]


NAMES = st.sampled_from(["a", "B", "c d", "é", "x.y"])
LIMITS = {
    "highest_priority": st.one_of(st.integers(-1, 10), st.sampled_from(["high", "normal", "low", "none"])),
    "min_allowed_slowdown": st.sampled_from(["0%", "5%", "0.25", "100%", "101%"]),
    "min_allowed_delay_us": st.integers(0, 20_000_000),
}
NAMED = st.one_of(NAMES, st.lists(NAMES, max_size=3))
RULE = st.fixed_dictionaries({}, optional={**dict.fromkeys(access.CONDITIONS, NAMED), **LIMITS})
SECTION = st.fixed_dictionaries({}, optional={**LIMITS, "rule": st.lists(RULE, max_size=4)})
JOB = st.fixed_dictionaries({}, optional={key: st.tuples(NAMES) for key in access.CONDITIONS})


def literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {literal(item)}' for key, item in value.items())}}}"
    return str(value) if isinstance(value, int) else f'"{value}"'


@settings(max_examples=60)
@given(section=SECTION, who=st.lists(JOB, min_size=1, max_size=3))
def test_both_readers_agree_on_any_section(section: dict[str, Any], who: list[dict[str, tuple[str, ...]]]) -> None:
    text = "[access]\n" + "".join(f"{key} = {literal(value)}\n" for key, value in section.items())
    assert read_by_python(text, who) == read_by_lua(text, who)


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
