"""Who may use which priority: slurmctld's Lua and fikitd's Python read [access] to the same effect (test_access_submit.py: job_submit keeps to it)."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from fikitd.config import access
from fikitd.config.fikit_toml import ConfigError, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from lua_module import lua, quote

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
