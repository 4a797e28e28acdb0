"""One rule for what options mean: slurmctld's Lua, which approves, the plugin's C, by which the node goes, and fikitd's Python."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fikitd.base import priorities, quantities
from fikitd.base.validation import is_name
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lua_module import LUA, lua
from plugin_fake import HAVE_HEADERS, job_option, load

pytestmark = [
    pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev"),
    pytest.mark.skipif(shutil.which("lua5.1") is None, reason="needs lua5.1"),
]

DIGITS = st.one_of(
    st.from_regex(r"0{0,3}\d{1,4}", fullmatch=True), st.from_regex(r"\d{1,22}", fullmatch=True), st.just("")
)
DECIMALS = st.builds(lambda whole, places: whole + places, DIGITS, st.one_of(st.just(""), DIGITS.map(".{}".format)))
UNITS = st.one_of(
    st.from_regex(r"[KkMGgTPh]?i?[Bb]?|%{1,2}|[nuµm]?s|e9", fullmatch=True), st.sampled_from([" ", "\t", "%\n", "IB"])
)
WORDS = st.sampled_from(["high", "normal", "low", "High", "urgent", "(null)", "unset", "nan", "inf", "-1", "+5", "0x5", ".", "..", "a/b",
                         "net.v2", "_", "x" * 64, "x" * 65, "é", "١"])  # fmt: skip
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = st.one_of(st.builds(lambda number, unit: number + unit, DECIMALS, UNITS), WORDS, ANY)


def of_python(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return None


def profile(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


# Option -> how Lua's result and Python's become the node's number; and how the node's struct says "none".
READERS: dict[str, tuple[Callable[[str], Any], str, Any]] = {
    "priority": (priorities.parse, "priority", -1),
    "mem": (quantities.size, "mem_bytes", 0),
    "mem-host": (quantities.size, "mem_host_bytes", 0),
    "profile": (profile, "profile", b""),
    "max-slowdown": (lambda text: round(quantities.share(text) * 1e6), "max_slowdown_ppm", -1),
    "max-delay": (quantities.nanoseconds, "max_delay_ns", -1),
}
LUA_RULE = f"""
  local values = dofile("{LUA}/fikit_values.lua")
  local read = {{
    priority = values.priority, mem = values.bytes, ["mem-host"] = values.bytes, profile = values.profile, ["max-delay"] = values.time_ns,
    ["max-slowdown"] = function(text) local share = values.share(text) return share and math.floor(share * 1e6 + 0.5) end,
  }}
  for _, text in ipairs(TEXTS) do
    for _, option in ipairs({{ "priority", "mem", "mem-host", "profile", "max-slowdown", "max-delay" }}) do
      local value = read[option](text)
      if type(value) == "number" then value = ("%.0f"):format(value) end
      print(tostring(value))
    end
  end
"""


def lua_list(texts: list[str]) -> str:
    """A table of them, byte by byte."""
    return "{" + ", ".join('"' + "".join(f"\\{byte:03}" for byte in text.encode()) + '"' for text in texts) + "}"


@pytest.fixture
def plugin(cc: Callable[..., Path], tmp_path: Path) -> ctypes.CDLL:
    return load(cc, tmp_path / "slurm")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(VALUES, min_size=20, max_size=60))
@example(texts=["20Gi", "5i", "5B", "9999999999T", "8388608G", "8388609G", "9007199254740993K", "0G", "00020G"])
@example(texts=["2.999999%", "0.00005%", "100.000001%", "1.0000001", "3600000000000.5ns", "0.9999ns", "999999999999s", "0.000001s"])  # fmt: skip
def test_any_value_is_the_same_to_slurmctld_the_node_and_fikitd(plugin: ctypes.CDLL, texts: list[str]) -> None:
    said = iter(lua(LUA_RULE.replace("TEXTS", lua_list(texts))))
    for text in texts:
        ctypes.c_char.in_dll(plugin, "fake_log").value = b"\0"  # it holds what few texts are answered with
        for option, (read, field, none) in READERS.items():
            expected = of_python(read, text)
            in_c = getattr(job_option(plugin, f"fikit-{option}", text), field)
            in_c = None if in_c == none else in_c.decode() if isinstance(in_c, bytes) else in_c
            assert (in_c, next(said)) == (expected, "nil" if expected is None else str(expected)), (option, text)


RANGES = st.one_of(
    st.builds("auto:{}-{}".format, st.sampled_from(["high", "low", "normal", "0", "9", "3", "10", "", "auto", "High"]), WORDS | DIGITS),
    st.builds("{}{}".format, st.sampled_from(["auto", "auto:", "auto:low", "Auto", "auto-"]), ANY | st.just("-high")),
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(RANGES, min_size=20, max_size=60), default=st.integers(0, 9))
@example(texts=["auto", "auto:low-high", "auto:high-low", "auto:8-2", "auto:5-5", "auto:", "auto:low", "auto:low-", "auto:-high",
                "auto:low-high-", "auto:low--high", "auto:1-2-3", "auto: low-high", "auto:0123456789abcdef-1"], default=9)  # fmt: skip
def test_a_range_is_the_same_to_slurmctld_the_node_and_fikitd(
    plugin: ctypes.CDLL, texts: list[str], default: int
) -> None:
    said = iter(lua(f"""
      local values = dofile("{LUA}/fikit_values.lua")
      for _, text in ipairs({lua_list(texts)}) do
        local highest, lowest = values.range(text, {default})
        print(highest and ("%d %d"):format(highest, lowest) or "nil")
        assert(highest == nil or values.highest(text, {default}) == highest)
      end
    """))  # fmt: skip
    for text in texts:
        highest, lowest = ctypes.c_int(-7), ctypes.c_int(-7)
        in_c = None
        if plugin.fikit_parse_range(text.encode(), ctypes.byref(highest), ctypes.byref(lowest)):
            if highest.value < 0:
                plugin.fikit_auto_range(default, ctypes.byref(highest), ctypes.byref(lowest))
            in_c = (highest.value, lowest.value)
        expected = of_python(lambda text: tuple(priorities.parse_range(text, default)), text)
        assert (in_c, next(said)) == (expected, "{} {}".format(*expected) if expected else "nil"), text
        assert expected is None or priorities.is_range(text)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(
        st.builds(lambda number, unit: number << unit, st.integers(1, 2**13), st.sampled_from([10, 20, 30, 40])),
        min_size=20,
        max_size=60,
    )
)
@example(sizes=[2**53, 2**53 - 2**10, 2**40, 2**40 - 2**30, 1536 * 2**20, 2**10])  # fmt: skip
def test_a_size_is_written_as_it_may_be_typed_in_lua_and_in_python(sizes: list[int]) -> None:
    said = lua(f"""
      local values = dofile("{LUA}/fikit_values.lua")
      for _, size in ipairs({{ {", ".join(map(str, sizes))} }}) do print(values.written(size)) end
    """)
    assert list(said) == [quantities.written(size) for size in sizes]
    assert [quantities.size(text) for text in said] == sizes


LINES = st.sampled_from(
    [
        "[slurm]",
        "[ slurm ] # x",
        "[slurm] x",
        "[slurm.x]",
        "[[slurm]]",
        "[daemon]",
        "# [slurm]",
        "",
        "x = 1",
        '"""',
        "[slurm",
        "[slurm]\r",
    ]
)
KEYS = st.sampled_from(["default_priority", "default_priority ", "\tdefault_priority", "default_priorities", '"default_priority"', "#default_priority"])  # fmt: skip
WRITTEN = st.sampled_from(['"low"', "'high'", "3", "low", '"low', "12", '"9" # x', '"9"#', "3#", "3 4", '""', "", '"a b"', "'\"low\"'", '"low"\r', "=1"])  # fmt: skip
TOML = st.lists(st.one_of(LINES, st.builds("{}={}".format, KEYS, WRITTEN), st.builds("{} = {}".format, KEYS, WRITTEN),
                          st.just("default_priority = 7 #" + "x" * 240), ANY), max_size=8).map("\n".join)  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TOML, min_size=10, max_size=40))
@example(
    texts=[
        '[slurm]\ndefault_priority = "low"',
        "[slurm]\n\ndefault_priority=9\0",
        "[slurm]\n[daemon]\ndefault_priority=1",
    ]
)
def test_the_sites_priority_is_the_same_to_slurmctld_the_node_and_fikitd(plugin: ctypes.CDLL, texts: list[str]) -> None:
    plugin.fikit_toml_priority.restype = ctypes.c_bool
    said = iter(lua(f"""
      local site = dofile("{LUA}/fikit_site.lua")
      for _, text in ipairs({lua_list(texts)}) do
        local word = site.default_priority(text)
        print(word and fikit.priorities[word] or tostring(word))
      end
    """))  # fmt: skip
    for text in texts:
        number = ctypes.c_int(-1)
        known = plugin.fikit_toml_priority(text.encode(), ctypes.byref(number))
        expected = priorities.site_default(text)
        assert (number.value if known else None, next(said)) == (
            expected,
            "nil" if expected is None else str(expected),
        ), text
