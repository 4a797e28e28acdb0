"""What slurmctld makes of a sharing job's request, in every form in which Slurm's releases write it: one GPU becomes shards,
and what was said for each GPU, or is the site's default for each, is said for that one."""

from __future__ import annotations

from pathlib import Path

import pytest
from lua_module import ask, carried, lua, modify, quote, submit, submitted

pytestmark = pytest.mark.starts_processes

LOW = {"fikit-priority": "low"}
GPU: dict[str, object] = {"tres_per_node": "gres:gpu:1"}
ONE_NODE = {"max_nodes": "1"}
SHARDS = {"tres_per_node": "gres:shard:4", **ONE_NODE}
NEWER = {"tres_per_node": "gres/shard:4"}  # since 23.11


@pytest.mark.parametrize(
    ("job", "changed"),
    [
        ({"tres_per_node": "gres:gpu:1,gres:gpu:1"}, {}),  # --gres and --gpus-per-node
        ({"tres_per_job": "gres/gpu:1"}, {**NEWER, "tres_per_job": ""}),
        ({"tres_per_job": "gres/gpu:1,gres/nic:2"}, {**NEWER, "tres_per_job": "gres/nic:2"}),
        ({"tres_per_socket": "gres:gpu:1"}, {"tres_per_socket": "", "sockets_per_node": "65534"}),
        (
            {"tres_per_socket": "gres:gpu:1", "sockets_per_node": 1},
            {"tres_per_socket": "", "sockets_per_node": "65534"},
        ),
        ({"tres_per_task": "gres:gpu:1"}, {"tres_per_task": ""}),
        ({"tres_per_task": "cpu=2,gres/gpu=1", "num_tasks": 1}, {**NEWER, "tres_per_task": "cpu=2"}),
        (
            {"tres_per_task": "gres/gpu=1", "tres_bind": "gres/gpu:per_task:1"},
            {**NEWER, "tres_per_task": "", "tres_bind": ""},
        ),
        ({**GPU, "tres_bind": "gpu:closest"}, {"tres_bind": ""}),
        ({**GPU, "tres_bind": "gres/nic:per_task:1+gres/gpu:map:0"}, {"tres_bind": "gres/nic:per_task:1"}),
        ({**GPU, "mem_per_tres": "gres:gpu:4096"}, {"mem_per_tres": "", "min_mem_per_node": "4096"}),
        ({**GPU, "mem_per_tres": "gres/gpu:4096"}, {"mem_per_tres": "", "min_mem_per_node": "4096"}),
        ({**GPU, "cpus_per_tres": "gres:gpu:4"}, {"cpus_per_tres": "", "min_cpus": "4"}),
        ({**GPU, "cpus_per_tres": "gres/gpu:4", "min_cpus": 6}, {"cpus_per_tres": "", "min_cpus": "6"}),
        (
            {**GPU, "cpus_per_tres": "gres/gpu:4", "num_tasks": 1},
            {"cpus_per_tres": "", "min_cpus": "4", "cpus_per_task": "4"},
        ),
        (
            {**GPU, "cpus_per_tres": "gres/gpu:4", "num_tasks": 3},
            {"cpus_per_tres": "", "min_cpus": "6", "cpus_per_task": "2"},
        ),
        (
            {**GPU, "cpus_per_tres": "gres:gpu:4", "ntasks_per_node": 2},
            {"cpus_per_tres": "", "min_cpus": "4", "cpus_per_task": "2"},
        ),
        ({**GPU, "pn_min_cpus": 3, "num_tasks": 1}, {"min_cpus": "3", "cpus_per_task": "3"}),
        ({**GPU, "pn_min_cpus": 65534, "num_tasks": 1}, {}),
        ({**GPU, "ntasks_per_tres": 2}, {"ntasks_per_tres": "65534", "num_tasks": "2"}),
        ({**GPU, "ntasks_per_tres": 2, "num_tasks": 2}, {"ntasks_per_tres": "65534"}),
        ({**GPU, "ntasks_per_tres": 65534}, {}),
        ({**GPU, "min_nodes": 1, "max_nodes": 2}, {}),
        ({**GPU, "num_tasks": 4, "ntasks_per_node": 4}, {}),
    ],
)
def test_one_gpu_in_any_form_becomes_shards_on_one_node(job: dict[str, object], changed: dict[str, str]) -> None:
    assert submitted(LOW, job) == dict(sorted({**SHARDS, **changed}.items()))
    assert submitted({}, job) == {}, "without fikit"


def test_tasks_alone_ask_in_the_field_that_knows_the_releases_spelling() -> None:
    done = submitted(LOW, {"ntasks_per_tres": 2, "num_tasks": 2})
    assert done == dict(sorted({**ONE_NODE, "gres": "shard:4", "ntasks_per_tres": "65534"}.items()))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"tres_per_node": "gres/gpu:a100:1,gres/gpu:h100:1"}, "instead of 2 GPUs"),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, "instead of 2 GPUs"),
        ({"tres_per_task": "cpu=1,gres/gpu=1", "num_tasks": 3}, "instead of 3 GPUs"),
        ({"ntasks_per_tres": 2, "num_tasks": 4}, "instead of 2 GPUs"),
        ({"mem_per_tres": "gres:gpu:4096"}, "needs a GPU"),
        ({**GPU, "tres_freq": "gpu:medium"}, "leave --gpu-freq or --fikit-priority out"),
        ({**GPU, "min_nodes": 2, "max_nodes": 4}, "--nodes=1 instead of 2"),
        ({**GPU, "num_tasks": 5, "ntasks_per_node": 2}, "--nodes=1 instead of 3"),
    ],
)
def test_what_is_not_one_gpu_is_one_sentence_and_for_a_wish_stays(job: dict[str, object], words: str) -> None:
    done = submit(LOW, job)
    assert done.code == -1
    assert words in done.said[0]
    assert len(done.said) == 1
    rest = {**job, "script": "#!/bin/sh", "environment": {"FIKIT_PRIORITY": "low"}}
    assert submitted({}, rest) == {}


PJ = "SelectTypeParameters=CR_Core,MULTIPLE_SHARING_GRES_PJ\n"
DOORS: list[tuple[dict[str, object], str]] = [
    ({"tres_per_node": "gres:shard:g0:4,gres:shard:g1:4"}, "shards of g0 and of g1 may be on two GPUs"),
    ({"tres_per_node": "gres/shard:g0:4", "tres_per_job": "gres/shard:g1:4"}, "may be on two GPUs"),
    ({"tres_per_node": "gres:shard:4,gres:shard:g1:4"}, "may be on two GPUs"),
    (
        {"tres_per_task": "gres/shard:4", "num_tasks": 2, "bitflags": 2.0**38 + 4},
        "for each of 2 tasks may be on several GPUs here",
    ),
    ({"tres_per_socket": "gres/shard:4", "sockets_per_node": 2, "bitflags": 2.0**38}, "may be on several GPUs here"),
    ({"tres_per_node": "gres:shard:17"}, "17 shards are more than the 16 of a GPU here"),
    ({"tres_per_task": "gres/shard:9", "num_tasks": 2}, "18 shards are more than the 16 of a GPU here"),
]


@pytest.mark.parametrize(("job", "words"), DOORS)
@pytest.mark.parametrize("options", [{}, LOW])
def test_shards_that_may_be_on_several_gpus_are_refused(
    options: dict[str, str], job: dict[str, object], words: str
) -> None:
    """A part of such a job would run unmanaged, at full speed beside a high job; 22.05 lets one wait for ever."""
    done = submit(options, job)
    assert done.code == -1
    assert words in done.said[0]
    assert len(done.said) == 1


def test_tasks_with_shards_of_their_own_are_refused_where_slurm_may_spread_them(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    job = {"tres_per_task": "gres/shard:4", "num_tasks": 2}
    conf.write_text("SelectTypeParameters=CR_Core\n")
    assert submit({}, job, SLURM_CONF=str(conf)).code == 0
    assert submit({}, {**job, "num_tasks": 1, "bitflags": 2.0**38}, SLURM_CONF=str(conf)).code == 0
    conf.write_text(PJ)
    assert submit({}, job, SLURM_CONF=str(conf)).code == -1


@pytest.mark.parametrize(("job", "words"), DOORS[:4])
def test_a_waiting_job_does_not_come_to_have_shards_of_several_gpus(job: dict[str, object], words: str) -> None:
    record = {"user_id": 1000, "bitflags": job.get("bitflags", 0)}
    done = modify(job, LOW, record, 1000)
    assert done.code == -1
    assert words in done.said[0]


@pytest.mark.parametrize("who", [1000, 0])
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("gres:gpu:1", "gres:shard:4"),
        ("gres/gpu:a100:1", "gres/shard:a100:4"),
        ("gres:gpu:g1:1,gres:nic:1", "gres:shard:g1:4,gres:nic:1"),
        ("gres:shard:6", "gres:shard:6"),
    ],
)
def test_a_waiting_job_that_comes_to_ask_for_a_gpu_gets_shards(who: int, asked: str, given: str) -> None:
    """Slurm 26.05 gave it the whole GPU, and its programs stayed low."""
    job = {"user_id": 1000, "tres_per_node": "gres:shard:4"}
    done = modify({"tres_per_node": asked}, LOW, job, who)
    assert (done.code, done.per_node) == (0, given)
    without = modify({"tres_per_node": "gres:gpu:1"}, {}, {"user_id": 1000, "tres_per_node": "gres:gpu:2"}, who)
    assert (without.code, without.per_node) == (0, "gres:gpu:1")


@pytest.mark.parametrize("who", [1000, 0])
def test_a_waiting_job_that_shares_comes_to_have_no_second_gpu(who: int) -> None:
    done = modify({"tres_per_node": "gres:gpu:2"}, LOW, {"user_id": 1000, "tres_per_node": "gres:shard:4"}, who)
    assert done.code == -1
    assert "a job that shares its GPU gets one" in done.said[0]


@pytest.mark.parametrize("word", ["inf", "nan", "0x1", "1e3"])
def test_a_word_that_is_no_count_of_slurms_is_a_type(word: str) -> None:
    assert submitted(LOW, {"tres_per_node": f"gres:gpu:{word}"})["tres_per_node"] == f"gres:shard:{word}:4"


def test_a_count_with_a_unit_is_a_count() -> None:
    assert "instead of 1024 GPUs" in submit(LOW, {"tres_per_node": "gres:gpu:1k"}).said[0]


def test_shards_that_the_client_asked_for_stay_and_get_one_node() -> None:
    assert submitted(LOW, {"tres_per_node": "gres:shard:6", "max_nodes": 2}) == ONE_NODE
    assert submitted({}, {"tres_per_node": "gres:shard:6", "max_nodes": 2}) == {}


def test_what_jobs_of_its_name_needed_comes_from_the_client() -> None:
    carried = {0: "_SLURM_SPANK_OPTION_fikit_fikit_priority=low", 1: "FIKIT_USUAL_MEM=6442450944"}
    assert submitted({}, {**GPU, "spank_job_env": carried})["tres_per_node"] == "gres:shard:7", "6 GiB and a tenth"
    more = {**carried, 1: "FIKIT_USUAL_MEM=99999999999999"}
    assert submitted({}, {**GPU, "spank_job_env": more})["tres_per_node"] == "gres:shard:16", "a GPU has no more"
    said = {**more, 2: "_SLURM_SPANK_OPTION_fikit_fikit_mem=2G"}
    assert submitted({}, {**GPU, "spank_job_env": said})["tres_per_node"] == "gres:shard:2"


SLURM_CONF = """\
# DefCpuPerGPU=99
defcpupergpu=2
DefMemPerGPU = 200 # MB
PartitionName=plain Nodes=ALL
PartitionName=DEFAULT DefMemPerGPU=300
PartitionName=own Nodes=ALL \\
  State=UP DefCpuPerGPU="5"
Include more.conf
partitionname=half DefMemPerGPU=50 # DefCpuPerGPU=7
"""
MORE = "PartitionName=huge Default=YES \\\n DefCpuPerGPU=8 DefMemPerGPU=9000\n"


@pytest.fixture
def slurm_conf(tmp_path: Path) -> str:
    (tmp_path / "slurm.conf").write_text(SLURM_CONF)
    (tmp_path / "more.conf").write_text(MORE)
    return str(tmp_path / "slurm.conf")


@pytest.mark.parametrize(
    ("partition", "cpus", "mem"),
    [
        ("plain", 2, 200),
        ("own", 5, 300),
        ("half", 2, 50),
        ("huge", 8, 9000),
        ("plain,own,huge", 8, 9000),
        ("half,own", 5, 300),
        ("unknown", 2, 200),
        (None, 8, 9000),
    ],
)
def test_a_sharing_job_gets_its_partitions_defaults_of_one_gpu(
    slurm_conf: str, partition: str | None, cpus: int, mem: int
) -> None:
    partitions = {"huge": {"name": "huge", "flag_default": 1, "max_share": 1}}
    job = {**GPU, "partition": partition}
    wanted = dict(sorted({**SHARDS, "min_cpus": str(cpus), "min_mem_per_node": str(mem)}.items()))
    assert submitted(LOW, job, partitions, SLURM_CONF=slurm_conf) == wanted
    assert submitted({}, job, partitions, SLURM_CONF=slurm_conf) == {}, "Slurm gives others theirs"


def test_what_a_job_says_itself_goes_before_the_defaults(slurm_conf: str) -> None:
    for said in ({"min_mem_per_node": 77}, {"min_mem_per_cpu": 77}, {"min_mem_per_node": 0}):
        assert submitted(LOW, {**GPU, **said}, SLURM_CONF=slurm_conf) == dict(
            sorted({**SHARDS, "min_cpus": "2"}.items())
        )
    said = submitted(LOW, {**GPU, "cpus_per_task": 1}, SLURM_CONF=slurm_conf)
    assert said == dict(sorted({**SHARDS, "min_mem_per_node": "200"}.items()))
    own = submitted(LOW, {**GPU, "mem_per_tres": "gres:gpu:7", "cpus_per_tres": "gres:gpu:1"}, SLURM_CONF=slurm_conf)
    assert (own["min_mem_per_node"], own["min_cpus"]) == ("7", "1")


def test_memory_by_default_is_marked_in_a_batch_jobs_environment(slurm_conf: str) -> None:
    def mark(**job: object) -> str | None:
        [line] = lua(f"""
          local job = {quote({**GPU, "script": "#!/bin/sh", "environment": {}, "spank_job_env": carried(LOW), **job})}
          fikit.job_submit(job, {{}})
          print(job.environment.FIKIT_MEMORY_BY_DEFAULT)
        """, SLURM_CONF=slurm_conf)  # fmt: skip
        return line

    assert mark() == "1"
    assert mark(min_mem_per_node=5) == "nil"
    assert mark(mem_per_tres="gres:gpu:5") == "nil", "SLURM_MEM_PER_GPU says it"


def test_shards_made_by_the_client_get_the_defaults_too(slurm_conf: str) -> None:
    done = submitted(LOW, {"tres_per_node": "gres:shard:4"}, SLURM_CONF=slurm_conf)
    assert done == {**ONE_NODE, "min_cpus": "2", "min_mem_per_node": "200"}


def test_files_that_include_each_other_or_cannot_be_read_are_no_error(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("Include slurm.conf\nInclude /nowhere/at/all\nDefCpuPerGPU=3\n")
    done = ask(LOW, GPU, {}, SLURM_CONF=str(conf))
    assert (done.code, done.logged) == (0, "")
    assert submitted(LOW, GPU, SLURM_CONF=str(conf))["min_cpus"] == "3"
    assert submitted(LOW, GPU, SLURM_CONF="/nowhere/slurm.conf") == SHARDS
