"""The Lua module for job_submit and cli_filter, run against a fake slurm table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fikitd.peaks import Peaks
from fikitd.profiles import ProfileStore
from lua_module import LUA, ask, lua, quote, submit
from plugin_fake import SHARES, TIMES

from fikitd import priorities, quantities

HIGH = {"fikit-priority": "high"}


@pytest.mark.parametrize(
    ("job", "node"),
    [
        ({"tres_per_node": "gres:gpu:1"}, "gres:shard:4"),
        ({"tres_per_node": "gres/gpu:1"}, "gres:shard:4"),
        ({"tres_per_node": "gres:gpu"}, "gres:shard:4"),
        ({"tres_per_node": "gres:gpu:h200:1"}, "gres:shard:h200:4"),
        ({"tres_per_node": "gres:gpu:h200"}, "gres:shard:h200:4"),
        ({"tres_per_node": "gres:gpu:1g.18gb"}, "gres:shard:1g.18gb:4"),
        ({"tres_per_node": "gres/gpu:3g.71gb:1"}, "gres:shard:3g.71gb:4"),
        ({"tres_per_node": "gres:gpu:1,gres:nic:2"}, "gres:shard:4,gres:nic:2"),
        ({"tres_per_job": "gres:gpu:1"}, "gres:shard:4"),
        ({"tres_per_task": "gres/gpu=1", "num_tasks": 1}, "gres:shard:4"),
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


def filtered(options: dict[str, object], **env: str) -> dict[str, str]:
    """cli_filter on a client's options: those that changed."""
    defaults = {
        "type": "srun",
        "nodes": "1-0",
        "ntasks": "1",
        "jobid": "unset",
        "spank": {"fikit": {"fikit-measure": "unset"}},
    }
    full = {**defaults, **options}
    names = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
    printed = lua(f"""
      local options = {quote(full)}
      print(fikit.cli_filter(options))
      for _, name in ipairs({{"gres", "gpus", "gpus-per-node", "gpus-per-task"}}) do print(tostring(options[name])) end
    """, **env)  # fmt: skip
    assert printed[0] == "0", "the client never refuses"
    return {name: value for name, value in zip(names, printed[1:], strict=True) if value != str(full.get(name, "nil"))}


def spank(**options: str) -> dict[str, object]:
    return {"fikit": {"fikit-measure": "unset", **{k.replace("_", "-"): v for k, v in options.items()}}}


def test_srun_asks_for_what_its_job_gets() -> None:
    high = spank(fikit_priority="high")
    assert filtered({"gres": "gres:gpu:1", "spank": high}) == {"gres": "shard:4"}
    assert filtered({"gpus": "1", "spank": high}) == {"gres": "shard:4", "gpus": ""}
    assert filtered({"gpus-per-node": "a100:1", "spank": high}) == {"gres": "shard:a100:4", "gpus-per-node": ""}
    assert filtered({"gpus-per-task": "1", "spank": high}) == {"gres": "shard:4", "gpus-per-task": ""}
    assert filtered({"gres": "gres:gpu:1"}, FIKIT_PRIORITY="low", FIKIT_MEM="2G") == {"gres": "shard:2"}


def test_client_leaves_alone_what_is_not_shared_and_what_slurmctld_refuses() -> None:
    assert filtered({"gres": "gres:gpu:1"}) == {}
    assert filtered({"gres": "gres:gpu:1", "spank": spank(fikit_measure="set")}) == {}
    assert filtered({"gres": "gres:gpu:1"}, FIKIT_MEASURE="1", FIKIT_PRIORITY="high") == {}
    assert filtered({"gres": "gres:gpu:2", "spank": spank(fikit_priority="high")}) == {}
    assert filtered({"gres": "gres:gpu:1", "spank": spank(fikit_priority="urgent")}) == {}
    assert filtered({"gres": "gres:gpu:1", "exclusive": "exclusive"}, FIKIT_PRIORITY="high") == {}


def test_step_inside_a_sharing_job_gets_the_jobs_shards() -> None:
    step = {"jobid": "7", "nodes": "1", "gres": "gres:gpu:1", "spank": spank(fikit_priority="low")}
    assert filtered(step, SLURM_SHARDS_ON_NODE="6") == {"gres": "shard:6"}
    nested = {"type": "sbatch", "jobid": None, "gres": "gres:gpu:1", "spank": spank(fikit_priority="low")}
    assert filtered(nested, SLURM_SHARDS_ON_NODE="6") == {"gres": "shard:4"}, "a new job is no step"


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


@pytest.fixture
def remembering(tmp_path: Path) -> Path:
    """A site whose profile directory is a test's own; returns the user's directory of peaks."""
    (tmp_path / "fikit.toml").write_text(
        f'[other]\nprofile_dir = "/elsewhere"\n[daemon] # ours\nprofile_dir = "{tmp_path}/profiles"  # shared\n'
        "[slurm]\ndefault_share_gib = 4 # GiB\ngpu_memory_gib = 16\n"
    )
    peaks = tmp_path / "profiles" / str(os.getuid()) / ".memory"
    peaks.mkdir(parents=True)
    return peaks


def shards(site: Path, **options: object) -> object:
    config = str(site.parents[2] / "fikit.toml")
    return filtered({"gres": "gres:gpu:1", "spank": spank(fikit_priority="low"), **options}, TEST_CONFIG=config)["gres"]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("7 9663676416\n", "shard:10"),  # 9 GiB and a tenth
        ("7 9663676416\n8 1\n", "shard:10"),
        ("1 1\n", "shard:1"),
        ("1 99999999999999\n", "shard:16"),
        ("", "shard:4"),
        ("nonsense\n-3\n", "shard:4"),
        pytest.param("1 " + "9" * 400 + "\n", "shard:4", id="no number of bytes"),
    ],
)
def test_a_job_that_does_not_say_gets_what_its_like_needed(remembering: Path, text: str, share: str) -> None:
    (remembering / "train").write_text(text)
    assert shards(remembering, **{"job-name": "train"}) == share
    assert shards(remembering, **{"job-name": "other"}) == "shard:4"
    assert shards(remembering, **{"job-name": None, "argv": {0: "/home/me/train", 1: "--fast"}}) == share
    assert shards(remembering, **{"job-name": "unset", "argv": {1: "train"}}) == share


def test_profile_name_and_fikit_mem_go_before_the_jobs_name(remembering: Path) -> None:
    (remembering / "train").write_text("7 9663676416\n")
    (remembering / "resnet").write_text("7 1073741824\n")
    assert shards(remembering, **{"job-name": "train", "spank": spank(fikit_profile="resnet")}) == "shard:2"
    assert shards(remembering, **{"job-name": "train", "spank": spank(fikit_mem="3G")}) == "shard:3"


@pytest.mark.parametrize("name", ["../train", "..", ".", "", "a/b", "x" * 65, "a b"])
def test_a_jobs_name_is_no_path(remembering: Path, name: str) -> None:
    (remembering.parent / "train").write_text("7 9663676416\n")
    assert shards(remembering, **{"job-name": name}) == "shard:4"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_what_another_user_put_into_a_directory_of_ones_name_is_not_read(remembering: Path) -> None:
    (remembering / "train").write_text("7 9663676416\n")
    own = remembering.parent
    for uid in (4321, os.getuid()):
        os.chown(own, uid, uid)
        expected = "shard:4" if uid == 4321 else "shard:10"
        assert shards(remembering, **{"job-name": "train"}) == expected
    own.rename(own.with_name("elsewhere"))
    own.symlink_to(own.with_name("elsewhere"))
    assert shards(remembering, **{"job-name": "train"}) == "shard:4", "a link to one's own may be anybody's"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_whose_name_somebody_else_has_taken_is_remembered_all_the_same(remembering: Path) -> None:
    own = remembering.parent
    os.chown(own, 4321, 4321)
    Peaks(ProfileStore(own.parent)).remember(os.getuid(), "train", "12", 5 * 2**30)
    assert shards(remembering, **{"job-name": "train"}) == "shard:6"


def test_a_site_may_have_any_characters_in_its_paths(remembering: Path) -> None:
    odd = remembering.parents[2] / "a 'b' $(touch x) *"
    (remembering.parents[1]).rename(odd)
    toml = remembering.parents[2] / "fikit.toml"
    toml.write_text(toml.read_text().replace(f"{remembering.parents[1]}", str(odd)))
    (odd / str(os.getuid()) / ".memory" / "train").write_text("7 9663676416\n")
    assert shards(remembering, **{"job-name": "train"}) == "shard:10"


def test_the_file_that_fikitd_writes_is_the_one_that_is_read(remembering: Path) -> None:
    Peaks(ProfileStore(remembering.parents[1])).remember(os.getuid(), "train", "12", 5 * 2**30)
    assert shards(remembering, **{"job-name": "train"}) == "shard:6"
