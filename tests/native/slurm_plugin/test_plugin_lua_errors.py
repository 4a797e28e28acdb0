"""An error in fikit's Lua: Slurm would let the job through unasked, so it is caught, named in slurmctld's log, and gives nobody anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from lua_module import SITE, carried, lua, quote

pytestmark = pytest.mark.starts_processes

RULES = '[access]\nhighest_priority = "normal"\n'
GPU, SHARDS = {"tres_per_node": "gres:gpu:1"}, {"tres_per_node": "gres:shard:4"}


@dataclass(frozen=True)
class Decided:
    code: int
    per_node: str
    said: list[str]
    logged: list[str]


def decided(call: str, site: Path) -> Decided:
    """What became of `job`, of which one field cannot be read."""
    printed = lua(f"print({call}) print(job.tres_per_node)", **{SITE: str(site)})
    *lines, code, per_node = printed
    logged = [line for line in lines if line.startswith("log: ")]
    return Decided(int(code), per_node, [line for line in lines if line not in logged], logged)


def broken(job: dict[str, object], field: str) -> str:
    """Lua for a job as Slurm hands it over, one field of which raises an error."""
    return (
        f"setmetatable({quote(job)}, {{ __index = function(_, key) assert(key ~= '{field}', 'made for a test') end }})"
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "fikit.toml"
    path.write_text(RULES)
    return path


HIGH = {"fikit-priority": "high"}


def submitted(
    job: dict[str, object], site: Path, field: str = "min_nodes", options: dict[str, str] | None = None
) -> Decided:
    full = {"spank_job_env": carried(HIGH if options is None else options), **job}
    return decided(f"(function() job = {broken(full, field)} return fikit.job_submit(job, {{}}) end)()", site)


@pytest.mark.parametrize("field", ["min_nodes", "account", "environment"])
def test_an_error_gives_nobody_a_priority_that_the_site_forbids(site: Path, field: str) -> None:
    done = submitted({**SHARDS, "script": "#!/bin/sh"}, site, field)
    assert done.code == -1
    assert len(done.said) == 1
    assert "tell your administrator" in done.said[0]


def test_what_has_no_shards_and_no_options_goes_on_as_it_is(site: Path) -> None:
    done = submitted(GPU, site, options={})
    assert (done.code, done.per_node, done.said) == (0, "gres:gpu:1", [])


def test_what_nobody_could_approve_comes_into_no_record(site: Path) -> None:
    """The prolog writes the options of a job that keeps its GPU, too."""
    done = submitted(GPU, site)
    assert (done.code, len(done.said)) == (-1, 1)


def test_where_everybody_may_all_nobody_is_refused(site: Path) -> None:
    site.write_text("")
    done = submitted(SHARDS, site)
    assert (done.code, done.per_node, done.said) == (0, "gres:shard:4", [])


@pytest.mark.parametrize("job", [GPU, SHARDS])
def test_slurmctlds_log_names_the_error_once(site: Path, job: dict[str, object]) -> None:
    done = submitted(job, site)
    assert len(done.logged) == 1
    assert "an error in fikit's Lua: " in done.logged[0]
    assert "made for a test" in done.logged[0]


def test_an_error_moves_no_sharing_job(site: Path) -> None:
    record = {"user_id": 7, "spank_job_env": carried({"fikit-priority": "high"}), **SHARDS}
    call = f"(function() job = {broken(record, 'account')} return fikit.job_modify({{ qos = 'other' }}, job, {{}}, 7) end)()"
    done = decided(call, site)
    assert done.code == -1
    assert "made for a test" in done.logged[0]


def test_a_client_submits_whatever_happens(site: Path) -> None:
    call = "(function() job = { tres_per_node = 'x', gres = 'gpu:1', spank = 5 } return fikit.cli_filter(job) end)()"
    done = decided(call, site)
    assert done.code == 0
    assert "the job is submitted as it is" in done.logged[0]


@pytest.mark.parametrize("gres", [":", "gres::1", "=4", "gres:shard:4,:", ",,"])
def test_no_spelling_of_a_request_is_an_error(site: Path, gres: str) -> None:
    assert submitted({"tres_per_node": gres}, site, "no_such_field").logged == []
