"""A site's own job_submit.lua around fikit's: what its rules see of a job, and what becomes of the job afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from lua_module import NO_VALUE, SITE, carried, lua, quote

pytestmark = pytest.mark.starts_processes

HIGH = {"fikit-priority": "high"}

# As public modules do: no job without a whole GPU where there are GPUs, and jobs without one elsewhere.
SITE_RULES = """
  local function site(job)
    local asks = job.tres_per_node or ""
    if asks == "" then asks = job.tres_per_job or "" end
    if asks == "" then asks = job.tres_per_task or "" end
    if asks == "" then asks = job.tres_per_socket or "" end
    print("seen " .. asks)
    if asks:match("gres[:/]gpu") then job.partition = "gpu" return slurm.SUCCESS end
    job.partition = "cpu"
    return slurm.ERROR
  end
  local function both(job)
    fikit.before(job, {})
    if site(job) ~= slurm.SUCCESS then return slurm.ERROR end
    return fikit.job_submit(job, {})
  end
"""


def a_job(options: dict[str, str], *entries: str, **fields: object) -> dict[str, object]:
    sent = carried(options)
    return {
        "min_nodes": NO_VALUE, "num_tasks": NO_VALUE, **fields, "spank_job_env": sent | {len(sent) + i: e for i, e in enumerate(entries)},
    }  # fmt: skip


def run(job: dict[str, object], call: str = "both(job)", **env: str) -> list[str]:
    return lua(
        SITE_RULES
        + f"local job = {quote(job)}\nlocal rc = {call}\nprint(rc, job.tres_per_node, job.tres_per_job, job.tres_per_task)",
        **env,
    )


@pytest.mark.parametrize(
    ("fields", "asked", "seen"),
    [
        ({"tres_per_node": "gres:gpu:1"}, None, "gres:gpu:1"),  # sbatch, salloc
        ({"tres_per_node": "gres/gpu:h200:1"}, None, "gres/gpu:h200:1"),
        ({"tres_per_node": "gres:shard:6"}, "6;per_node=gres:gpu:1", "gres:gpu:1"),  # srun
        ({"tres_per_node": "gres/shard:6"}, "6;per_node=gpu:1", "gres/gpu:1"),
        ({"tres_per_node": "gres:shard:h200:6"}, "6;per_job=gpu:h200:1", "gres:gpu:h200:1"),
        ({"tres_per_node": "gres:shard:6", "num_tasks": 1}, "6;per_task=gpu:1", "gres:gpu:1"),
        (
            {"tres_per_node": "gres/shard:6", "tres_per_task": "cpu=2"},
            "6;per_task=cpu=2,gres/gpu:1",
            "cpu=2,gres/gpu:1",
        ),
        ({"tres_per_node": "gres:shard:6,gres:nic:2"}, "6;per_node=gpu:1,gres:nic:2", "gres:gpu:1,gres:nic:2"),
    ],
)
def test_a_sites_rules_see_the_gpu_that_was_asked_for(fields: dict[str, object], asked: str | None, seen: str) -> None:
    entries = [f"FIKIT_ASKED={asked}"] if asked else []
    printed = run(a_job(HIGH, *entries, **fields))
    assert printed[0] == f"seen {seen}"
    code, per_node, *others = printed[1].split()
    assert (code, "shard" in per_node, {*others} <= {"nil", "cpu=2"}) == ("0", True, True)
    if asked:
        assert per_node.split(",")[0].endswith(":6"), "as many as its step will ask for"
        assert ("nic" in per_node) == ("nic" in asked)


def test_called_once_srun_gets_what_it_asks_for() -> None:
    job = a_job(HIGH, "FIKIT_ASKED=6;per_node=gpu:1", tres_per_node="gres:shard:6")
    assert run(job, "fikit.job_submit(job, {})") == ["0\tgres:shard:6\tnil\tnil"]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ("6;per_node=gpu:2", {}),
        ("6;per_node=shard:6", {}),
        ("6;per_node=gpu:1;per_node=gpu:1", {}),
        ("6;partition=gpu:1", {}),
        ("6", {}),
        ("999999;per_node=gpu:1", {}),
        ("4;per_node=gpu:1", {}),
        ("6;per_node=gpu:1", {"tres_per_node": "gres:gpu:2"}),
        ("6;per_node=gpu:1", {"tres_per_node": "gres:nic:6"}),
        ("6;per_node=gpu:1", {"tres_per_node": ""}),
        ("6;per_node=gpu:1\nx", {}),
        ("6;per_node=os.execute(1)", {}),
    ],
)
def test_what_cannot_have_been_asked_for_changes_nothing(asked: str, fields: dict[str, object]) -> None:
    job = a_job(HIGH, f"FIKIT_ASKED={asked}", **{"tres_per_node": "gres:shard:6", **fields})
    assert run(job, "fikit.before(job, {})")[0].split("\t")[1:2] == [str(job["tres_per_node"])]


def test_what_was_asked_for_gives_no_more_than_a_gpu_has_and_no_less_than_is_needed(tmp_path: Path) -> None:
    (tmp_path / "fikit.toml").write_text("[slurm]\ngpu_memory_gib = 16\n")
    site = {SITE: str(tmp_path / "fikit.toml")}
    large = a_job(HIGH, "FIKIT_ASKED=17;per_node=gpu:1", tres_per_node="gres:shard:17")
    assert run(large, **site)[-1].split()[1] == "gres:shard:16"
    small = a_job({"fikit-mem": "8G"}, "FIKIT_ASKED=1;per_node=gpu:1", tres_per_node="gres:shard:1")
    assert run(small, **site)[-1].split()[1] == "gres:shard:8"


@pytest.mark.parametrize(
    ("options", "fields", "asked", "answer"),
    [
        ({}, {"tres_per_node": "gres:gpu:2"}, None, "gpus=2 measures=false shares=false"),
        ({}, {}, None, "gpus=0 measures=false shares=false"),
        (HIGH, {"tres_per_node": "gres:gpu:h200:1"}, None, "gpus=1 measures=false priority=1 shares=true type=h200"),
        ({"fikit-mem": "2G"}, {"tres_per_job": "gres:gpu:1"}, None, "gpus=1 measures=false priority=5 shares=true"),
        (HIGH, {"tres_per_node": "gres:shard:6"}, "6;per_job=gpu:1", "gpus=1 measures=false priority=1 shares=true"),
        ({}, {"tres_per_node": "gres:shard:6"}, None, "gpus=0 measures=false priority=5 shards=6 shares=true"),
        ({"fikit-measure": "(null)"}, {"tres_per_node": "gres:gpu:1"}, None, "gpus=1 measures=true shares=false"),
    ],
)
def test_a_helper_says_what_was_asked_for_at_any_time(
    options: dict[str, str], fields: dict[str, object], asked: str | None, answer: str
) -> None:
    job = a_job(options, *([f"FIKIT_ASKED={asked}"] if asked else []), **fields)
    tell = """(function()
      local words = {}
      for key, value in pairs(fikit.asked(job)) do words[#words + 1] = key .. "=" .. tostring(value) end
      table.sort(words)
      print(table.concat(words, " "))
    end)()"""
    assert run(job, tell)[0] == answer
    if fields:
        assert run(job, f"fikit.before(job, {{}}) and {tell}")[0] == answer


def test_an_error_before_a_sites_rules_is_named_and_stops_nothing() -> None:
    call = """(function()
      job = setmetatable({}, { __index = function() error("made for a test") end })
      return fikit.before(job, {}) + fikit.asked(job).gpus
    end)()"""
    printed = lua(f"print({call})")
    assert printed[-1] == "0"
    assert "made for a test" in printed[0]
