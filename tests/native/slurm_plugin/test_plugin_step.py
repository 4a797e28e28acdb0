"""A step of the SPANK plugin: what its tasks find in their environment, and who prints the summary. Job 12 of user 33."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from daemon_in_thread import as_nobody
from fikitd.store.records import JobRecord
from plugin_fake import HAVE_HEADERS, Node, answering, environment, load, set_job_option, set_step

pytestmark = pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev")

BATCH, EXTERN = 0xFFFFFFFB, 0xFFFFFFFC
REMOTE = 2  # S_CTX_REMOTE
LINE = "fikit: job 12 high: 3 kernels"


@pytest.fixture
def node(cc: Callable[..., Path], tmp_path: Path) -> Iterator[Node]:
    """A node on which job 12 has a record and the shim is where it should be."""
    (tmp_path / "shim.so").touch()
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"shim={tmp_path}/shim.so")) as node:
        node.answer = f"ok\n{LINE}\n".encode()
        set_job_option(node.plugin, "fikit-priority", "high")
        node.prolog()
        yield node


def given(node: Node, *options: tuple[str, str]) -> None:
    """Slurm hands options of the step to the plugin."""
    ctypes.c_int.in_dll(node.plugin, "fake_context").value = REMOTE
    node.plugin.fikit_args_register(None)
    for name, value in options:
        node.plugin.fake_give(name.encode(), value.encode())


def without_options(node: Node) -> None:
    """The job's prolog, which found a GPU and no option of ours."""
    set_job_option(node.plugin, "", "")
    node.prolog()
    assert not node.record.exists()


def start(node: Node, step: int = 0, tasks: int = 1, **env: str) -> dict[str, str]:
    """A step's first task up to its exec; its environment."""
    set_step(node.plugin, step, tasks)
    environment(node.plugin, env)
    node.post_opt()
    node.task_init()
    return environment(node.plugin)


def test_managed_task_gets_the_shim_and_the_socket(node: Node, tmp_path: Path) -> None:
    env = start(node, LD_PRELOAD="/mine.so", HOME="/root")
    assert env == {
        "HOME": "/root",
        "FIKIT_SOCKET": f"{node.run_dir}/fikitd.sock",
        "LD_PRELOAD": f"{tmp_path}/shim.so:/mine.so",
    }


def test_task_of_a_job_without_record_is_untouched(node: Node) -> None:
    node.record.unlink()
    assert start(node, HOME="/root", SLURM_GPUS="1") == {"HOME": "/root", "SLURM_GPUS": "1"}


def test_record_of_another_user_manages_nobody(node: Node) -> None:
    node.record.write_text(node.record.read_text().replace("uid=33", "uid=34"))
    assert start(node, HOME="/root") == {"HOME": "/root"}


def test_extern_step_is_left_alone(node: Node) -> None:
    assert start(node, EXTERN, SLURM_JOB_NAME="x") == {"SLURM_JOB_NAME": "x"}
    assert JobRecord.read(node.record).name == ""


def test_missing_shim_is_one_line_and_no_preload(node: Node, tmp_path: Path) -> None:
    (tmp_path / "shim.so").unlink()
    assert start(node) == {}
    assert node.log().count("\n") == 1
    assert f"couldn't read {tmp_path}/shim.so" in node.log()


@pytest.mark.parametrize("separator", [" ", ":"])
def test_shim_at_a_path_that_no_preload_list_can_name_is_one_line_and_no_preload(
    cc: Callable[..., Path], tmp_path: Path, separator: str
) -> None:
    shim = tmp_path / f"my{separator}shim.so"
    shim.touch()
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"shim={shim}")) as node:
        set_job_option(node.plugin, "fikit-priority", "high")
        node.prolog()
        assert start(node) == {}
        assert node.log().count("\n") == 1
        assert f"couldn't preload {shim}: ld.so divides" in node.log()


def test_variables_of_the_request_stay_as_without_fikit(node: Node) -> None:
    asked = {
        "SLURM_GPUS": "1",
        "SLURM_GPUS_PER_NODE": "1",
        "SLURM_TRES_PER_TASK": "gres:gpu:1",
        "SLURM_CPUS_PER_GPU": "2",
    }
    env = start(node, SLURM_SHARDS_ON_NODE="4", SLURM_MEM_PER_NODE="100", **asked)
    assert {name: env.get(name) for name in asked} == asked
    assert env["SLURM_SHARDS_ON_NODE"] == "4"
    assert env["SLURM_MEM_PER_NODE"] == "100"


def test_memory_that_was_asked_for_each_gpu_is_said_once(node: Node) -> None:
    env = start(node, SLURM_SHARDS_ON_NODE="4", SLURM_MEM_PER_GPU="100", SLURM_MEM_PER_NODE="100")
    assert "SLURM_MEM_PER_NODE" not in env
    assert env["SLURM_MEM_PER_GPU"] == "100"
    assert start(node, SLURM_MEM_PER_GPU="100", SLURM_MEM_PER_NODE="100")["SLURM_MEM_PER_NODE"] == "100", (
        "shares nothing"
    )


def test_memory_that_nobody_asked_for_is_in_no_variable(node: Node) -> None:
    env = start(node, SLURM_SHARDS_ON_NODE="4", FIKIT_MEMORY_BY_DEFAULT="1", SLURM_MEM_PER_NODE="100")
    assert not {"SLURM_MEM_PER_NODE", "FIKIT_MEMORY_BY_DEFAULT"} & set(env)


def test_job_with_shards_and_no_option_is_admitted_by_its_first_step(node: Node) -> None:
    without_options(node)
    env = start(node, SLURM_SHARDS_ON_NODE="4", SLURM_STEP_GPUS="1", SLURM_JOB_NAME="x")
    record = JobRecord.read(node.record)
    assert (record.uid, record.gid, record.priority, record.gpus, record.name) == (33, 44, 5, "1", "x")
    assert "LD_PRELOAD" in env
    node.epilog()
    assert [path.name for path in node.run_dir.glob("*/*")] == []


def test_job_with_a_gpu_of_its_own_and_no_option_is_untouched(node: Node) -> None:
    without_options(node)
    assert start(node, SLURM_STEP_GPUS="1") == {"SLURM_STEP_GPUS": "1"}
    node.epilog()
    assert [path.name for path in node.run_dir.glob("*/*")] == []


@pytest.mark.parametrize("step", [BATCH, 0])
def test_no_option_and_no_variable_of_a_step_comes_into_a_record(node: Node, step: int) -> None:
    without_options(node)
    given(node, ("fikit-priority", "0"), ("fikit-max-delay", "1us"), ("fikit-max-slowdown", "0%"), ("fikit-mem", "1G"))
    start(node, step, SLURM_SHARDS_ON_NODE="4", SLURM_JOB_GPUS="1" if step == BATCH else "0,1,2,3", SLURM_STEP_GPUS="0,1,2,3", FIKIT_PRIORITY="0",
          FIKIT_MEASURE="1", _SLURM_SPANK_OPTION_fikit_fikit_priority="0")  # fmt: skip
    record = JobRecord.read(node.record)
    assert (record.priority, record.gpus, record.measure, record.mem_bytes) == (5, "1", False, 0)
    assert (record.max_delay_ns, record.max_slowdown) == (None, None)


def test_a_job_without_a_gpu_gets_no_record_by_a_variable(node: Node) -> None:
    set_job_option(node.plugin, "", "")
    node.prolog(gpus=None)
    assert "LD_PRELOAD" not in start(node, SLURM_SHARDS_ON_NODE="4", SLURM_JOB_GPUS="0", SLURM_STEP_GPUS="0")
    assert not node.record.exists()


def test_a_batch_job_that_starts_without_a_prolog_has_the_lowest_priority(node: Node) -> None:
    node.record.unlink()
    given(node, ("fikit-priority", "high"), ("fikit-mem", "2G"), ("fikit-max-slowdown", "1%"))
    start(node, BATCH, SLURM_SHARDS_ON_NODE="4", SLURM_JOB_GPUS="1")
    record = JobRecord.read(node.record)
    assert (record.priority, record.mem_bytes, record.max_slowdown, record.gpus) == (9, 0, None, "1")
    assert "no prolog ran for job 12" in node.log()


@pytest.mark.parametrize("option", [("fikit-priority", "high"), ("fikit-measure", "(null)")])
def test_steps_of_a_job_leave_what_the_prolog_wrote(node: Node, option: tuple[str, str]) -> None:
    set_job_option(node.plugin, *option)
    node.prolog(gpus="2", restart=3, sluid="s0ABCDEFGHJKMN")
    before = JobRecord.read(node.record)
    given(node, ("fikit-priority", "0"), ("fikit-mem", "9G"))
    for step in (BATCH, 0, 1):
        gpus = "2" if step == BATCH else "7"  # slurmstepd says it to a batch step; to another one anybody may
        start(node, step, SLURM_SHARDS_ON_NODE="4", SLURM_JOB_GPUS=gpus, SLURM_STEP_GPUS="7", SLURM_JOB_NAME="n")
    assert JobRecord.read(node.record) == replace(before, name="n", batch=True)


@pytest.mark.parametrize(
    ("prolog", "step", "all_"),
    [
        ("1", "0,1", "1,0"),
        ("1", "1", "1"),
        ("11", "1,11", "11,1"),
        ("1", "0;rm", "1"),
        ("1", ",,", "1"),
        ("1", "9" * 300, "1"),
    ],
)
def test_batch_step_adds_the_gpus_that_slurm_does_not_tell_a_prolog(
    node: Node, prolog: str, step: str, all_: str
) -> None:
    """Of a job with shards of two types a prolog hears the last type's only."""
    set_job_option(node.plugin, "fikit-priority", "low")
    node.prolog(gpus=prolog)
    start(node, BATCH, SLURM_SHARDS_ON_NODE="4", SLURM_JOB_GPUS=step)
    assert JobRecord.read(node.record).gpus == all_


def test_first_step_adds_the_jobs_name(node: Node) -> None:
    start(node, BATCH, SLURM_JOB_NAME="train")
    start(node, 0, SLURM_JOB_NAME="other")
    assert JobRecord.read(node.record).name == "train"


def test_a_long_name_is_cut_between_two_characters(node: Node) -> None:
    start(node, BATCH, SLURM_JOB_NAME="x" + "größe" * 30)
    assert JobRecord.read(node.record).name == ("x" + "größe" * 30).encode()[:128].decode(errors="ignore")
    assert node.record.read_bytes().decode()


def test_the_batch_step_says_which_task_of_an_array_the_job_is(node: Node) -> None:
    start(node, BATCH, SLURM_ARRAY_JOB_ID="10", SLURM_ARRAY_TASK_ID="3")
    start(node, 0, SLURM_JOB_NAME="train", SLURM_ARRAY_JOB_ID="77", SLURM_ARRAY_TASK_ID="1")
    record = JobRecord.read(node.record)
    assert (record.array, record.name) == ("10_3", "train")


def test_a_script_cannot_make_its_job_a_task_of_another_array(node: Node) -> None:
    start(node, BATCH)
    start(node, 0, SLURM_ARRAY_JOB_ID="77", SLURM_ARRAY_TASK_ID="1")
    assert JobRecord.read(node.record).array == ""


@pytest.mark.parametrize("number", ["", "-1", "1\nuid=0", "0x10", " 1", "4294967295", "99999999999", "9" * 300, "one"])
@pytest.mark.parametrize("variable", ["SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"])
def test_an_array_without_a_number_is_none(node: Node, variable: str, number: str) -> None:
    before = node.record.read_text()
    start(node, 0, **{"SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "3", variable: number})
    assert node.record.read_text() == before


@pytest.mark.parametrize("name", ["SLURM_JOB_ID_HET_GROUP_", "SLURM_JOB_ID_PACK_GROUP_"])
@pytest.mark.parametrize(("numbers", "component"), [((12, 13), "12+0"), ((10, 11, 12), "10+2")])
def test_a_step_says_which_component_of_a_heterogeneous_job_the_job_is(
    node: Node, name: str, numbers: tuple[int, ...], component: str
) -> None:
    start(node, 0, **{f"{name}{group}": str(number) for group, number in enumerate(numbers)})
    assert JobRecord.read(node.record).het == component
    start(node, 1, **{f"{name}0": "77", f"{name}1": "12"})
    assert JobRecord.read(node.record).het == component, "said once"


def test_a_job_that_is_started_from_a_heterogeneous_one_is_none_of_its_components(node: Node) -> None:
    before = node.record.read_text()
    start(node, 0, SLURM_JOB_ID_HET_GROUP_0="10", SLURM_JOB_ID_HET_GROUP_1="11")
    start(node, 0, SLURM_JOB_ID_HET_GROUP_1="12")
    start(node, 0, SLURM_JOB_ID_HET_GROUP_0="10\nuid=0", SLURM_JOB_ID_HET_GROUP_1="12")
    assert node.record.read_text() == before


def test_a_script_cannot_make_its_job_a_component_of_another(node: Node) -> None:
    start(node, BATCH)
    start(node, 0, SLURM_JOB_ID_HET_GROUP_0="77", SLURM_JOB_ID_HET_GROUP_1="12")
    assert JobRecord.read(node.record).het == ""


def test_summary_comes_when_the_last_task_ends(node: Node) -> None:
    start(node, step=0, tasks=3)
    for expected in ("", "", LINE + "\n"):
        node.task_exit()
        assert node.log() == expected
    assert node.heard[-1] == "summary 12 0"


def test_batch_script_reports_once_for_all_its_steps(cc: Callable[..., Path], node: Node, tmp_path: Path) -> None:
    start(node, BATCH)
    inner = Node(load(cc, tmp_path / "slurmstepd-0"), node.run_dir, f"shim={tmp_path}/shim.so")
    start(inner, 0)
    inner.task_exit()
    assert inner.log() == ""
    node.task_exit()
    assert node.log() == LINE + "\n"
    assert node.heard[-1] == "summary 12 batch"


def test_summary_is_shown_as_text(node: Node) -> None:
    start(node)
    node.answer = b"ok\nfikit: job 12 \x1b[2J\x07\xc2\x9b31m caf\xc3\xa9 \xff\r%s%n\nforged\n"
    node.task_exit()
    assert node.log() == "fikit: job 12 [2J31m café ?%s%n\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_what_another_user_serves_is_not_asked(cc: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "shim.so").touch()
    other = Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"shim={tmp_path}/shim.so")
    with answering(other, listen=as_nobody) as node:
        node.answer = f"ok\n{LINE}\n".encode()
        JobRecord(job="12", uid=33, gid=33, priority=1).write(node.run_dir)
        start(node)
        node.task_exit()
        assert node.heard == []
        assert node.log() == ""


def test_empty_summary_and_report_off_print_nothing(cc: Callable[..., Path], node: Node, tmp_path: Path) -> None:
    node.answer = b"ok\n"
    start(node)
    node.task_exit()
    node.answer = f"ok\n{LINE}\n".encode()
    off = Node(load(cc, tmp_path / "slurmstepd-1"), node.run_dir, f"shim={tmp_path}/shim.so", "report=off")
    start(off)
    off.task_exit()
    assert node.log() + off.log() == ""
