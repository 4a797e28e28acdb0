"""What slurmctld approved is what the node does: any client's words through slurmctld's Lua, slurmd's environment and the plugin's prolog."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fikitd.store.records import JobRecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lua_module import SITE, lua, quote
from plugin_fake import HAVE_HEADERS, Node, answering, load

pytestmark = [
    pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev"),
    pytest.mark.skipif(shutil.which("lua5.1") is None, reason="needs lua5.1"),
]

RULES = '[access]\nhighest_priority = "low"\nmin_allowed_slowdown = "2%"\nmin_allowed_delay_us = 50\n'
OPTION = "_SLURM_SPANK_OPTION_fikit_fikit_"
VALUES = {
    "priority": ["0", "high", "low", "9", "", "(null)", "low ", "8=0", "9=", "unset"],
    "measure": ["(null)", "1", "0", ""],
    "mem": ["2G", "20Gi", "0G", "x"],
    "mem_host": ["1G", "9G", "x"],
    "profile": ["net", "../x"],
    "max_slowdown": ["1%", "2%", "1.99999%", "0.02", "x"],
    "max_delay": ["49us", "50us", "0.00004999s", "x"],
}
BEFORE = st.sampled_from(["", "", "", "SPANK_", "X", "A=", "SPANK_SPANK_", "SLURM_SPANK_"])
OPTIONS = st.sampled_from([f"{OPTION}{name}={value}" for name, values in VALUES.items() for value in values])
ENTRY = st.one_of(st.builds(lambda before, option: before + option, BEFORE, OPTIONS), st.just("FIKIT_ONLY_WISHED=1"))
VARIABLE = st.one_of(
    OPTIONS, st.sampled_from([f"FIKIT_{name.upper()}={value}" for name, values in VALUES.items() for value in values])
)
JOB = st.fixed_dictionaries(
    {"spank_job_env": st.lists(ENTRY, max_size=4).map(lambda entries: dict(enumerate(entries)))},
    optional={
        "tres_per_node": st.sampled_from(["gres:gpu:1", "gres:gpu:2", "gres:shard:4"]),
        "tres_per_socket": st.just("gres:gpu:1"),
        "environment": st.lists(VARIABLE, max_size=2).map(lambda entries: dict(e.split("=", 1) for e in entries)),
        "script": st.just("#!/bin/sh"),
        "shared": st.just(0),
        "ntasks_per_tres": st.just(1),
        "het_job_offset": st.just(1),
        "partition": st.sampled_from(["all", "whole"]),
    },
)
WHOLE = {"whole": {"name": "whole", "max_share": 0}}


def decided(site: Path, jobs: list[dict[str, Any]]) -> Iterator[tuple[bool, str]]:
    """Whether each job may go on, and with which GRES per node."""
    printed = lua(f"""
      slurm.log_user = function() end
      for _, job in ipairs({quote(dict(enumerate(jobs, 1)))}) do
        print("|" .. fikit.job_submit(job, {quote(WHOLE)}) .. "|" .. tostring(job.tres_per_node))
      end
    """, **{SITE: str(site)})  # fmt: skip
    for line in printed:
        if line.startswith("|"):
            _, code, gres = line.split("|")
            yield code == "0", gres


def as_slurmd_does(entries: dict[int, str]) -> dict[str, str]:
    """spank_job_env in the environment of a prolog (valid_spank_job_env, env_array_merge)."""
    named = (entry if entry.startswith("SPANK_") else f"SPANK_{entry}" for entry in entries.values())
    return dict(entry.split("=", 1) for entry in named)


@pytest.fixture
def node(cc: Callable[..., Path], tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "fikit.toml").write_text(RULES)
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"config={tmp_path}/fikit.toml")) as node:
        yield node


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=st.lists(JOB, min_size=20, max_size=40))
def test_whatever_a_client_sends_the_record_is_what_was_approved(node: Node, jobs: list[dict[str, Any]]) -> None:
    site = node.run_dir.parent / "fikit.toml"
    for job, (goes_on, gres) in zip(jobs, decided(site, jobs), strict=True):
        if not goes_on or not any(word in str(job) for word in ("gpu", "shared", "ntasks_per_tres", "whole", "shard:")):
            continue  # refused, or without a GPU
        with pytest.MonkeyPatch.context() as environment:
            for name, value in as_slurmd_does(job["spank_job_env"]).items():
                environment.setenv(name, value)
            node.prolog()
        shared = "shard" in gres
        path = node.record if node.record.exists() or not shared else node.run_dir / "candidates" / "12"
        if path.exists():
            record = JobRecord.read(path)
            assert record.priority >= 8, job
            assert record.max_slowdown is None or record.max_slowdown >= 0.02, job
            assert record.max_delay_ns is None or record.max_delay_ns >= 50_000, job
            assert not (record.measure and shared), job
