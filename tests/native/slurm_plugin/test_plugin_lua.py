"""The Lua module for job_submit, run against a fake slurm table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fikitd.base import priorities, quantities
from fikitd.config import fikit_toml
from lua_module import LUA, NO_VALUE, ask, lua, modify, submit
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
        {"mem_per_tres": "gres:gpu:16384"},
        {"min_mem_per_cpu": 4096, "min_cpus": 1, "cpus_per_tres": "gres:gpu:4"},
    ],
)
def test_memory_on_the_host_where_the_site_allows_it_leaves_the_shards_as_they_are(
    job: dict[str, object], tmp_path: Path
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(OVERSUBSCRIBE)
    done = submit(HOST, {**ONE_GPU, **job}, TEST_CONFIG=str(config))
    assert (done.code, done.per_node, done.said) == (0, "gres:shard:8", [])


SHARES_ONE = {"tres_per_node": "gres:shard:8", "user_id": 7}


@pytest.mark.parametrize(
    ("change", "job", "said"),
    [
        ({"min_mem_per_node": 16383}, {"min_mem_per_node": 20000}, "needs 16384 MiB of host memory, and the job asks for 16383"),
        ({"min_mem_per_cpu": 4095}, {"min_mem_per_node": 20000, "min_cpus": 4}, "asks for 16380"),
        ({"min_cpus": 3}, {"min_mem_per_cpu": 4096, "min_cpus": 4}, "asks for 12288"),
        ({"min_cpus": 3, "min_mem_per_cpu": 5000}, {"min_mem_per_node": 20000, "min_cpus": 4}, "asks for 15000"),
        ({"min_mem_per_node": 16384}, {"min_mem_per_node": 20000}, None),
        ({"min_mem_per_node": 0}, {"min_mem_per_node": 20000}, None),
        ({"min_mem_per_node": NO_VALUE * 2**32, "min_cpus": NO_VALUE}, {"min_mem_per_node": 100}, None),
        ({"min_cpus": 1}, {"min_mem_per_node": 20000, "min_cpus": 4}, None),
        ({"min_cpus": 1}, {}, None),
    ],
)  # fmt: skip
def test_a_job_that_was_let_in_keeps_as_much_memory_as_it_may_have_on_the_host(
    change: dict[str, object], job: dict[str, object], said: str | None
) -> None:
    done = modify(change, HOST, {**SHARES_ONE, **job}, 7)
    assert (done.code, len(done.said)) == ((0, 0) if said is None else (-1, 1))
    assert said is None or said in done.said[0]
    assert modify(change, HOST, {**SHARES_ONE, **job}, 0).code == 0, "an operator"
    assert modify(change, {"fikit-mem": "8G"}, {**SHARES_ONE, **job}, 7).code == 0
    assert modify(change, {}, {"user_id": 7, **job}, 7).code == 0


@pytest.mark.parametrize(
    ("options", "job", "said"),
    [
        ({"fikit-mem": ""}, {}, "--fikit-mem-host=16G needs --fikit-mem"),
        ({"fikit-priority": "high"}, {}, "--fikit-mem-host=16G is for jobs below high"),
        ({"fikit-priority": "auto:1-5"}, {}, "--fikit-mem-host=16G is for jobs below high"),
        ({"fikit-mem": "16G", "fikit-mem-host": "33G"}, {}, "--fikit-mem-host=33G is more than the 32 GiB of host memory"),
        ({"fikit-mem": "7G"}, {}, "--fikit-mem-host=16G is more than --fikit-mem=7G allows here, where a job has at most 3 times its --fikit-mem in all: ask for at most 14G, or"),
        ({}, {"min_mem_per_node": 16383}, "--fikit-mem-host=16G needs 16384 MiB of host memory, and the job asks for 16383: ask for at "
                                          "least --mem=16384M"),
        ({}, {"min_mem_per_cpu": 4095, "min_cpus": 4}, "and the job asks for 16380"),
        ({}, {"min_mem_per_cpu": 4095, "min_cpus": 1, "cpus_per_tres": "gres:gpu:4"}, "and the job asks for 16380"),
        ({}, {"mem_per_tres": "gres:gpu:16383"}, "and the job asks for 16383"),
        ({"fikit-measure": "(null)", "fikit-mem": "7G"}, {}, "is more than --fikit-mem=7G allows here"),
        ({"fikit-mem": "1M", "fikit-mem-host": "32G"}, {}, "--fikit-mem-host=32G is more than --fikit-mem=1M allows here, where a job has at most 3 times its --fikit-mem in all: ask for at most 2M, or"),
        ({"fikit-mem": "3K", "fikit-mem-host": "7K"}, {}, "ask for at most 6K, or"),
        *(({"fikit-mem-host": text}, {}, f"--fikit-mem-host={text} is not valid: use a size") for text in ("much", "0", "-1G", "1e99", "16 G", "1.5G", "9" * 17)),
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


@pytest.mark.parametrize(
    ("typed", "variables", "said"),
    [
        ({"fikit-mem": "7G"}, {"FIKIT_MEM_HOST": "16G"}, "FIKIT_MEM_HOST=16G is more than --fikit-mem=7G allows here"),
        ({"fikit-mem-host": "16G"}, {"FIKIT_MEM": "7G"}, "--fikit-mem-host=16G is more than FIKIT_MEM=7G allows here, where a job has at most 3 times its FIKIT_MEM in all"),
        ({"fikit-priority": "low"}, {"FIKIT_MEM_HOST": "16G"}, "FIKIT_MEM_HOST=16G needs --fikit-mem: say"),
        ({"fikit-mem": "8G"}, {"FIKIT_MEM_HOST": "16G", "FIKIT_PRIORITY": "high"}, "FIKIT_MEM_HOST=16G is for jobs below high: ask for a lower FIKIT_PRIORITY, or leave it out"),
        ({"fikit-priority": "low"}, {"FIKIT_MEM": "17G"}, "FIKIT_MEM=17G is more than the 16 GiB of a GPU here"),
        ({}, {"FIKIT_MEM": "lots"}, "FIKIT_MEM=lots is not valid: use a size"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_the_user_wrote(
    typed: dict[str, str], variables: dict[str, str], said: str, tmp_path: Path
) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(OVERSUBSCRIBE)
    names = [name.removeprefix("FIKIT_").lower() for name in variables]
    words = f"FIKIT_VARIABLES={' '.join(names)}" if typed else "FIKIT_ONLY_WISHED=1"
    sent = [f"_SLURM_SPANK_OPTION_fikit_{name.lower()}={text}" for name, text in variables.items()]
    sent += [f"_SLURM_SPANK_OPTION_fikit_{name.replace('-', '_')}={text}" for name, text in typed.items()]
    done = submit({}, {**ONE_GPU, "spank_job_env": [*sent, words]}, TEST_CONFIG=str(config))
    assert (done.code, len(done.said)) == (-1, 1)
    assert done.said[0].startswith(f"fikit: {said}")


def test_variables_of_a_job_that_met_no_plugin_are_named_too() -> None:
    job = {**ONE_GPU, "script": "#!/bin/sh", "environment": {"FIKIT_MEM_HOST": "much"}}
    assert submit({}, job).said[0].startswith("fikit: FIKIT_MEM_HOST=much is not valid")


SLURM_CONF = """\
DefMemPerNode=16384
PartitionName=of_all Nodes=ALL
PartitionName=small Nodes=ALL DefMemPerCPU=4096
PartitionName=gpu Nodes=ALL DefMemPerGPU=100
PartitionName=less Nodes=ALL DefMemPerNode=9000
PartitionName=whole Nodes=ALL DefMemPerNode=UNLIMITED
PartitionName=DEFAULT DefMemPerNode=20000
PartitionName=late Nodes=ALL DefMemPerCPU=4096
"""


@pytest.mark.parametrize(
    ("job", "gets"),
    [
        ({"partition": "of_all"}, None),
        ({"partition": "small", "min_cpus": 4}, None),
        ({"partition": "small", "min_cpus": 3}, 12288),
        ({"partition": "gpu"}, 100),
        ({"partition": "less"}, 9000),
        ({"partition": "less,of_all"}, None),
        ({"partition": "late", "min_cpus": 3}, 12288),
        ({"partition": "less,whole"}, None),
        ({"partition": "less", "min_mem_per_node": 0}, None),
        ({"partition": "less", "min_mem_per_node": 20000}, None),
    ],
)
def test_memory_on_the_host_fits_into_what_slurm_gives_a_job_that_does_not_say(
    job: dict[str, object], gets: int | None, tmp_path: Path
) -> None:
    config, slurm_conf = tmp_path / "fikit.toml", tmp_path / "slurm.conf"
    config.write_text(OVERSUBSCRIBE)
    slurm_conf.write_text(SLURM_CONF)
    done = submit(HOST, {**ONE_GPU, **job}, TEST_CONFIG=str(config), SLURM_CONF=str(slurm_conf))
    assert done.code == (0 if gets is None else -1), done.said
    if gets is not None:
        assert (
            f"needs 16384 MiB of host memory, and the job gets {gets} where it does not ask: ask for at least --mem=16384M"
            in done.said[0]
        )


def test_a_measured_job_without_a_priority_is_below_high(tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(OVERSUBSCRIBE.replace("[slurm]", '[slurm]\ndefault_priority = "high"'))
    done = submit({**HOST, "fikit-measure": "(null)"}, ONE_GPU, TEST_CONFIG=str(config))
    assert (done.code, done.per_node, done.said) == (0, "gres:gpu:1", [])
    assert submit(HOST, ONE_GPU, TEST_CONFIG=str(config)).code == -1


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("allow = true", "allow"),
        ('allow = "higher"', "allow"),
        ('allow = "lower"\nhost_gib = -1', "host_gib"),
        ('allow = "lower"\nhost_gib = "64"', "host_gib"),
        ('allow = "lower"\nmax_factor = 1.5', "max_factor"),
        ('allow = "lower"\nmax_factor = 17', "max_factor"),
        ('allow = "lower"\nepoch_s = 0', "epoch_s"),
        ('alow = "lower"', "alow"),
    ],
)
def test_nobody_has_memory_on_the_host_by_a_section_with_a_mistake(line: str, key: str, tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(f"[oversubscribe]\n{line}\n")
    with pytest.raises(fikit_toml.ConfigError, match=f'"?{key}"? in \\[oversubscribe\\]'):
        fikit_toml.load(config)
    done = submit(HOST, ONE_GPU, TEST_CONFIG=str(config))
    assert done.code == -1
    assert (
        f"--fikit-mem-host=16G cannot be had while this site's fikit.toml has a wrong {key} in [oversubscribe]"
        in done.said[0]
    )
    assert submit(HIGH, ONE_GPU, TEST_CONFIG=str(config)).code == 0, "others do not ask for it"


@pytest.mark.parametrize("text", ["", OVERSUBSCRIBE.replace("max_factor = 3", "max_factor = 1")])
def test_memory_on_the_host_is_not_allowed_unless_the_site_says_so(text: str, tmp_path: Path) -> None:
    config = tmp_path / "fikit.toml"
    config.write_text(text)
    done = submit(HOST, ONE_GPU, TEST_CONFIG=str(config))
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
