"""The Lua module for job_submit, run against a fake slurm table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fikitd.base import priorities, quantities
from lua_module import LUA, ask, lua, submit
from plugin_fake import SHARES, TIMES

pytestmark = pytest.mark.starts_processes

HIGH = {"fikit-priority": "high"}


@pytest.mark.parametrize(
    ("job", "node"),
    [
        ({"tres_per_node": "gres:gpu:1"}, "gres:shard:4"),
        ({"tres_per_node": "gres/gpu:1"}, "gres/shard:4"),
        ({"tres_per_node": "gres:gpu"}, "gres:shard:4"),
        ({"tres_per_node": "gres:gpu:h200:1"}, "gres:shard:h200:4"),
        ({"tres_per_node": "gres:gpu:h200"}, "gres:shard:h200:4"),
        ({"tres_per_node": "gres:gpu:1g.18gb"}, "gres:shard:1g.18gb:4"),
        ({"tres_per_node": "gres/gpu:3g.71gb:1"}, "gres/shard:3g.71gb:4"),
        ({"tres_per_node": "gres:gpu:1,gres:nic:2"}, "gres:shard:4,gres:nic:2"),
        ({"tres_per_job": "gres:gpu:1"}, "gres:shard:4"),
        ({"tres_per_task": "gres/gpu=1", "num_tasks": 1}, "gres/shard:4"),
    ],
)
def test_one_gpu_of_a_sharing_job_becomes_shards(job: dict[str, object], node: str) -> None:
    done = submit(HIGH, job)
    assert (done.code, done.per_node, done.said) == (0, node, [])
    assert {done.per_job, done.per_task} <= {"", "nil"}


@pytest.mark.parametrize(
    ("mem", "shards"), [("20G", 20), ("512M", 1), ("4097", 5), ("4096", 4), ("1T", 1024), ("3GiB", 3)]
)
def test_memory_decides_the_shards(mem: str, shards: int, tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(
        "[daemon]\ngpu_memory_gib = 1\n[slurm] # ours\ngpu_memory_gib = 2_000 # big\ndefault_share_gib=7\n"
    )
    job = {"tres_per_node": "gres:gpu:1"}
    assert submit({"fikit-mem": mem}, job, TEST_CONFIG=str(config)).per_node == f"gres:shard:{shards}"
    assert submit(HIGH, job, TEST_CONFIG=str(config)).per_node == "gres:shard:7"


def test_a_job_that_names_no_memory_is_never_refused_for_it(tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text("[slurm]\ngpu_memory_gib = 2\n")
    done = submit(HIGH, {"tres_per_node": "gres:gpu:1"}, TEST_CONFIG=str(config))
    assert (done.code, done.per_node, done.said) == (0, "gres:shard:2", []), "the default share is 4 GiB"


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({}, {"tres_per_node": "gres:gpu:1"}),
        ({}, {"tres_per_node": "gres:gpu:4", "min_nodes": 3}),
        ({}, {}),
        (HIGH, {"tres_per_node": "gres:shard:6"}),
        ({"fikit-mem": "6G"}, {"tres_per_node": "gres:shard:6"}),
        ({"fikit-measure": "(null)"}, {"tres_per_node": "gres:gpu:1"}),
        ({"fikit-measure": "(null)", **HIGH}, {"tres_per_node": "gres:gpu:1"}),
    ],
)
def test_other_jobs_are_untouched(options: dict[str, str], job: dict[str, object]) -> None:
    done = submit(options, job)
    assert (done.code, done.per_node, done.said) == (0, str(job.get("tres_per_node", "nil")), [])
    assert (done.per_job, done.per_task) == ("nil", "nil")


OVERSUBSCRIBE = '[slurm]\ngpu_memory_gib = 16\n[oversubscribe]\nallow = "lower"\nhost_gib = 32\nmax_factor = 3\n'
HOST = {"fikit-mem": "8G", "fikit-mem-host": "16G"}
ONE_GPU = {"tres_per_node": "gres:gpu:1"}


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"min_mem_per_node": 16384},
        {"min_mem_per_cpu": 4096, "min_cpus": 4},
        {"min_mem_per_cpu": 64},
        {"min_mem_per_node": 0},
    ],
)
def test_memory_on_the_host_where_the_site_allows_it_leaves_the_shards_as_they_are(
    job: dict[str, object], tmp_path: Path
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(OVERSUBSCRIBE)
    done = submit(HOST, {**ONE_GPU, **job}, TEST_CONFIG=str(config))
    assert (done.code, done.per_node, done.said) == (0, "gres:shard:8", [])


@pytest.mark.parametrize(
    ("options", "job", "said"),
    [
        ({"fikit-mem": ""}, {}, "--fikit-mem-host=16G needs --fikit-mem"),
        ({"fikit-priority": "high"}, {}, "--fikit-mem-host=16G is for jobs below high"),
        ({"fikit-priority": "auto:1-5"}, {}, "--fikit-mem-host=16G is for jobs below high"),
        ({"fikit-mem": "16G", "fikit-mem-host": "33G"}, {}, "--fikit-mem-host=33G is more than the 32 GiB of host memory"),
        ({"fikit-mem": "7G"}, {}, "--fikit-mem-host=16G and --fikit-mem=7G are 3.29 times what stays on the GPU, and 3 times are"),
        ({}, {"min_mem_per_node": 16383}, "--fikit-mem-host=16G needs 16384 MiB of host memory, and the job asks for 16383: ask for at "
                                          "least --mem=16384M"),
        ({}, {"min_mem_per_cpu": 4095, "min_cpus": 4}, "and the job asks for 16380"),
        ({"fikit-mem-host": "much"}, {}, "--fikit-mem-host=much is not valid: use a size"),
    ],
)  # fmt: skip
def test_memory_on_the_host_is_refused_in_one_sentence_with_the_numbers(
    options: dict[str, str], job: dict[str, object], said: str, tmp_path: Path
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(OVERSUBSCRIBE)
    asked = {name: text for name, text in {**HOST, **options}.items() if text}
    done = submit(asked, {**ONE_GPU, **job}, TEST_CONFIG=str(config))
    assert (done.code, len(done.said)) == (-1, 1)
    assert said in done.said[0]


def test_memory_on_the_host_is_not_allowed_unless_the_site_says_so() -> None:
    done = submit(HOST, ONE_GPU)
    assert done.code == -1
    assert "--fikit-mem-host=16G is not allowed here" in done.said[0]


@pytest.mark.parametrize(
    ("options", "job", "words"),
    [
        (HIGH, {"tres_per_node": "gres:gpu:2"}, "--gres=gpu:1 instead of 2 GPUs"),
        (HIGH, {"tres_per_job": "gres:gpu:3"}, "instead of 3 GPUs"),
        (HIGH, {"tres_per_task": "gres:gpu:1", "num_tasks": 4}, "instead of 4 GPUs"),
        (HIGH, {}, "--fikit-priority needs a GPU"),
        ({"fikit-mem": "2G"}, {}, "--fikit-mem needs a GPU"),
        ({"fikit-measure": "(null)"}, {}, "--gres=gpu:1"),
        ({"fikit-measure": "(null)"}, {"tres_per_node": "gres:shard:4"}, "alone on its GPU"),
        (HIGH, {"tres_per_node": "gres:gpu:1", "min_nodes": 2}, "--nodes=1 instead of 2"),
        ({"fikit-mem": "17G"}, {"tres_per_node": "gres:gpu:1"}, "more than the 16 GiB"),
        ({"fikit-mem": "8G"}, {"tres_per_node": "gres:shard:4"}, "more than the 4 shards, of 1 GiB each"),
        (HIGH, {"tres_per_node": "gres:gpu:1", "shared": 0}, "leave --exclusive or --fikit-priority out"),
        ({"fikit-priority": "urgent"}, {"tres_per_node": "gres:gpu:1"}, "use high, normal, low"),
        ({"fikit-priority": "auto:high"}, {"tres_per_node": "gres:gpu:1"}, "auto or auto:LOW-HIGH"),
        ({"fikit-mem": "lots"}, {"tres_per_node": "gres:gpu:1"}, "use a size"),
        ({"fikit-max-slowdown": "5%"}, {}, "--fikit-max-slowdown needs a GPU"),
        ({"fikit-max-delay": "1ms"}, {"tres_per_node": "gres:gpu:2"}, "or leave --fikit-max-delay out"),
        ({"fikit-max-slowdown": "5"}, {"tres_per_node": "gres:gpu:1"}, "use a share of 0 to 100 %"),
        ({"fikit-max-delay": "200"}, {"tres_per_node": "gres:gpu:1"}, "use a time such as 200us"),
    ],
)
def test_refusal_is_one_sentence_and_changes_nothing(
    options: dict[str, str], job: dict[str, object], words: str
) -> None:
    done = submit(options, job)
    assert done.code == -1
    assert len(done.said) == 1
    assert words in done.said[0]
    assert done.per_node == str(job.get("tres_per_node", "nil"))


@pytest.mark.parametrize("text", SHARES)
def test_shares_are_those_of_the_plugin_and_of_fikitd(text: str) -> None:
    code = submit({"fikit-max-slowdown": text}, {"tres_per_node": "gres:gpu:1"}).code
    assert (code == 0) == (not text or is_read(quantities.share, text)), "an empty value is none"


@pytest.mark.parametrize("text", TIMES)
def test_times_are_those_of_the_plugin_and_of_fikitd(text: str) -> None:
    code = submit({"fikit-max-delay": text}, {"tres_per_node": "gres:gpu:1"}).code
    assert (code == 0) == (not text or is_read(quantities.nanoseconds, text))


def is_read(read: Callable[[str], float], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def test_environment_counts_for_jobs_that_never_met_the_plugin() -> None:
    rest = {
        "script": "#!/bin/sh",
        "environment": {"FIKIT_PRIORITY": "low", "FIKIT_MEM": "6G"},
        "tres_per_node": "gres:gpu:1",
    }
    assert submit({}, rest).per_node == "gres:shard:6"
    assert submit({"fikit-mem": "2G"}, rest).per_node == "gres:shard:2", "the option beats the environment"
    measured = {**rest, "environment": {"FIKIT_MEASURE": "1"}}
    assert submit({}, measured).per_node == "gres:gpu:1"
    assert submit({}, {**rest, "environment": {"FIKIT_MEASURE": "0"}}).per_node == "gres:gpu:1"


def test_a_wish_stays_one_where_the_job_has_its_node_alone() -> None:
    rest = {"script": "#!/bin/sh", "environment": {"FIKIT_PRIORITY": "low"}, "tres_per_node": "gres:gpu:1", "shared": 0}
    assert submit({}, rest).per_node == "gres:gpu:1"


WHOLE: dict[str, object] = {
    "some": {"name": "some", "flag_default": 1, "max_share": 4},
    "whole": {"name": "whole", "flag_default": 0, "max_share": 0},
    "huge": {"name": "huge", "flag_default": 0, "max_share": 0},
}


@pytest.mark.parametrize(
    ("partition", "refused"),
    [
        (None, None),
        ("some", None),
        ("unknown", None),
        ("whole", "whole"),
        ("some,huge", "huge"),
        ("whole,huge", "whole"),
    ],
)
def test_nobody_shares_where_every_job_has_whole_nodes(partition: str | None, refused: str | None) -> None:
    done = ask(HIGH, {"tres_per_node": "gres:gpu:1", "partition": partition}, WHOLE)
    sentence = (
        "fikit: partition {} gives every job whole nodes, where no job shares a GPU: leave it or --fikit-priority out"
    )
    assert (done.code, done.said) == ((-1, [sentence.format(refused)]) if refused else (0, []))


def test_where_every_job_has_whole_nodes_a_wish_for_a_gpu_is_one_for_the_whole_gpu() -> None:
    job = {"script": "#!/bin/sh", "environment": {"FIKIT_PRIORITY": "low"}, "partition": "whole"}
    assert ask({}, {**job, "tres_per_node": "gres:gpu:1"}, WHOLE).per_node == "gres:gpu:1"
    asked = ask({}, {**job, "tres_per_node": "gres:shard:4"}, WHOLE)
    assert asked.code == -1, "the client's cli_filter has asked for shards"
    assert asked.said[0].endswith("leave it or FIKIT_PRIORITY out")


@pytest.mark.parametrize("gres", ["", "gres:gpu:2"])
@pytest.mark.parametrize("variable", ["FIKIT_PRIORITY=low", "FIKIT_MEASURE=1"])
def test_variables_alone_are_wishes_where_a_gpu_cannot_be_shared(gres: str, variable: str) -> None:
    name, value = variable.split("=")
    rest = {"script": "#!/bin/sh", "environment": {name: value}, "tres_per_node": gres}
    assert submit({}, rest).per_node == gres
    option = {name.lower().replace("_", "-"): value}
    carried = {0: f"_SLURM_SPANK_OPTION_fikit_{name.lower()}={value}", 1: "FIKIT_ONLY_WISHED=1"}
    by_plugin = {**rest, "environment": {}, "spank_job_env": carried}
    assert submit({}, by_plugin).per_node == gres
    if not (gres and name == "FIKIT_MEASURE"):
        assert submit(option, rest).code != 0, "a typed option is refused"


@pytest.mark.parametrize("gres", ["", "gres:gpu:2"])
def test_further_components_of_a_heterogeneous_job_need_not_share(gres: str) -> None:
    server, client = {"het_job_offset": 0, "tres_per_node": gres}, {"het_job_offset": 1, "tres_per_node": gres}
    assert submit(HIGH, server).code == -1
    assert (submit(HIGH, client).code, submit(HIGH, client).per_node) == (0, gres)
    assert submit(HIGH, {**client, "tres_per_node": "gres:gpu:1"}).per_node == "gres:shard:4"


def test_priority_table_is_the_one_of_fikitd() -> None:
    printed = lua("for name, number in pairs(fikit.priorities) do print(name .. ' ' .. number) end")
    assert {line.split()[0]: int(line.split()[1]) for line in printed} == priorities.NAMES


@pytest.mark.parametrize("script", ["job_submit.lua", "cli_filter.lua"])
def test_example_scripts_define_what_slurm_calls(script: str) -> None:
    wanted = {
        "job_submit.lua": ("slurm_job_submit", "slurm_job_modify"),
        "cli_filter.lua": ("slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit"),
    }[script]
    printed = lua(f"dofile('{LUA / script}') " + " ".join(f"print(type({name}))" for name in wanted))
    assert printed == ["function"] * len(wanted)
