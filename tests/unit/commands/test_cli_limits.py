"""`fikit limits`: the rules that can be about a job of mine, and the one that decides last."""

from __future__ import annotations

import grp
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fikit.commands.limits import command

RULES = """
[access]
highest_priority = "normal"
min_allowed_slowdown = "2.5%"
[[access.rule]]
group = "somebody-else"
highest_priority = 0
[[access.rule]]
group = "{group}"
partition = ["prod", "all"]
highest_priority = 0
[[access.rule]]
qos = "urgent"
highest_priority = 3
min_allowed_delay_us = 200
"""


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fikit.toml"
    path.write_text(RULES.format(group=grp.getgrgid(os.getgid()).gr_name))
    monkeypatch.setenv("FIKIT_CONFIG", str(path))


def limits(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def rows(*words: str) -> list[tuple[dict[str, list[str]], int]]:
    done = limits("--json", *words)
    assert done.exit_code == 0, done.output
    return [(row["jobs"], row["highest_priority"]) for row in json.loads(done.output)]


def test_every_rule_that_can_be_about_my_jobs_is_shown_in_order() -> None:
    (first, *rest) = rows()
    assert (sorted(first[0]), first[1]) == (["group", "partition"], 0)
    assert rest == [({"qos": ["urgent"]}, 3), ({}, 5)]


def test_what_is_named_leaves_out_what_cannot_be() -> None:
    assert rows("--partition", "debug") == [({"qos": ["urgent"]}, 3), ({}, 5)]
    assert rows("--partition", "debug", "--qos", "Urgent") == [({"qos": ["urgent"]}, 3)]
    assert [number for _, number in rows("--partition", "all")] == [0], "it decides whatever the QOS is"


def test_a_line_says_priorities_and_protection() -> None:
    lines = [line.split() for line in limits("--partition", "debug").output.splitlines()]
    assert ["qos", "urgent", "3", "to", "9", "2.5", "%", "or", "more", "200", "µs", "or", "more"] in lines
    assert ["all", "others", "normal", "(5)", "to", "9", "2.5", "%", "or", "more", "any"] in lines


def test_without_rules_everything_is_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fikit.toml").write_text("")
    assert rows() == [({}, 0)]
    assert ["all", "any", "any", "any"] in [line.split() for line in limits().output.splitlines()]


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "fikit.toml").write_text("[acces]\n")
    done = limits()
    assert done.exit_code == 1
    assert "did you mean [access]?" in done.output
