"""The clients' half of the Lua module: what srun, sbatch and salloc ask for, against fake options of Slurm's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from fikitd.profiles.memory_history import MemoryHistory, file_name
from fikitd.profiles.profile_store import ProfileStore
from lua_module import CLIENT, LUA, UNSET, client, filtered, lua, quote, spank

pytestmark = pytest.mark.starts_processes

LOW = {"spank": spank(fikit_priority="low")}
GPU = {"gres": "gres:gpu:1"}


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        (GPU, {"gres": "shard:4"}),
        ({"gres": "gres/gpu:h200:1"}, {"gres": "shard:h200:4"}),
        ({"gres": "gres:gpu:1,gres:nic:2"}, {"gres": "shard:4,gres:nic:2"}),
        ({"gpus": "1"}, {"gres": "shard:4", "gpus": "reset"}),
        ({"gpus-per-node": "a100:1"}, {"gres": "shard:a100:4", "gpus-per-node": "reset"}),
        ({"gpus-per-task": "1"}, {"gres": "shard:4", "gpus-per-task": "reset"}),
        ({"gpus-per-socket": "1"}, {"gres": "shard:4", "gpus-per-socket": "reset", "sockets-per-node": "reset"}),
        ({"tres-per-task": "gres/gpu=1"}, {"gres": "shard:4", "tres-per-task": "reset"}),
        ({"tres-per-task": "cpu=2,gres/gpu:1"}, {"gres": "shard:4", "tres-per-task": "cpu=2"}),
        ({**GPU, "mem-per-gpu": "4G"}, {"gres": "shard:4", "mem-per-gpu": "reset", "mem": "4096M"}),
        ({**GPU, "mem-per-gpu": "100M"}, {"gres": "shard:4", "mem-per-gpu": "reset", "mem": "100M"}),
        ({**GPU, "cpus-per-gpu": "3"}, {"gres": "shard:4", "cpus-per-gpu": "reset", "mincpus": "3"}),
        ({**GPU, "ntasks-per-gpu": "2"}, {"gres": "shard:4", "ntasks-per-gpu": "reset", "ntasks": "2"}),
        ({**GPU, "ntasks-per-tres": "2"}, {"gres": "shard:4", "ntasks-per-tres": "reset", "ntasks": "2"}),
        ({"ntasks": "2", "ntasks-per-gpu": "2"}, {"gres": "shard:4", "ntasks-per-gpu": "reset"}),
        ({**GPU, "gpu-bind": "closest"}, {"gres": "shard:4", "gpu-bind": "reset"}),
        ({**GPU, "tres-bind": "gres/gpu:per_task:1"}, {"gres": "shard:4", "tres-bind": "reset"}),
        ({**GPU, "tres-bind": "gres/nic:per_task:1"}, {"gres": "shard:4"}),
    ],
)
def test_srun_asks_for_what_its_job_gets(asked: dict[str, object], changed: dict[str, str]) -> None:
    assert filtered({**asked, **LOW}) == changed
    assert filtered(asked, FIKIT_PRIORITY="low") == changed, "a wish"
    assert filtered(asked) == {}, "without fikit"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (GPU, ["asked 4;per_node=gres:gpu:1"]),
        ({"gres": "gres/gpu:h200:1,gres/nic:2"}, ["asked 4;per_node=gres/gpu:h200:1,gres/nic:2"]),
        ({"gpus": "a100:1"}, ["asked 4;per_job=gpu:a100:1"]),
        ({"gpus-per-task": "1"}, ["asked 4;per_task=gpu:1"]),
        ({"ntasks-per-gpu": "1"}, ["asked 4;per_node=gpu:1"]),
        ({**GPU, "type": "sbatch"}, []),
        ({**GPU, "jobid": "7"}, []),
        ({"gres": "gres:shard:4"}, []),
    ],
)
def test_srun_tells_what_it_was_asked_for(asked: dict[str, object], said: list[str]) -> None:
    assert [line for line in client({**asked, **LOW}) if line.startswith("asked ")] == said
    assert not any(line.startswith("asked ") for line in client(asked)), "without fikit"


@pytest.mark.parametrize(
    "asked",
    [
        {"gres": "gres:gpu:2"},
        {"gres": "gres:gpu:a100:1,gres:gpu:h100:1"},
        {"gpus": "a100:1,h100:1"},
        {"gpus-per-task": "1", "ntasks": "2"},
        {"gpus-per-socket": "1", "sockets-per-node": "2"},
        {"tres-per-task": "gres/gpu=1", "ntasks": "2"},
        {"ntasks": "4", "ntasks-per-gpu": "2"},
        {**GPU, "gpu-freq": "medium"},
        {**GPU, "nodes": "2"},
        {**GPU, "ntasks": "2", "ntasks-per-node": "1"},
        {**GPU, "exclusive": "exclusive"},
        {"gres": "gres:shard:4", "mem-per-gpu": "1G"},
        {},
    ],
)
def test_client_leaves_alone_what_slurmctld_refuses(asked: dict[str, object]) -> None:
    assert filtered({**asked, **LOW}) == {}
    assert filtered(asked, FIKIT_PRIORITY="low") == {}


def test_client_leaves_alone_what_is_not_shared() -> None:
    assert filtered({**GPU, "spank": spank(fikit_measure="set")}) == {}
    assert filtered(GPU, FIKIT_MEASURE="1", FIKIT_PRIORITY="high") == {}
    assert filtered({**GPU, "spank": spank(fikit_priority="urgent")}) == {}


@pytest.mark.parametrize("kind", ["sbatch", "salloc", "scrontab"])
def test_what_sbatch_and_salloc_ask_for_stays_as_it_was_typed(kind: str) -> None:
    asked = {"type": kind, "jobid": None, "gpus": "1", "mem-per-gpu": "4G", **LOW}
    assert filtered(asked) == {}
    assert filtered(asked, SLURM_SHARDS_ON_NODE="6", SLURM_JOB_ID="7") == {}, "a new job is no step"


def test_where_options_cannot_be_taken_back_texts_are_emptied_and_numbers_said() -> None:
    assert filtered({"gpus": "1", **LOW}, native=False) == {"gres": "shard:4", "gpus": ""}
    [line] = client({**GPU, "mem-per-gpu": "4G", **LOW}, native=False)
    assert "say --mem, --cpus-per-task and --ntasks instead" in line


def test_a_step_of_its_own_cpus_has_those_of_its_gpu() -> None:
    asked = {**GPU, "cpus-per-gpu": "3", "exact": "set"}
    changed = {"gres": "shard:4", "cpus-per-gpu": "reset", "mincpus": "3"}
    assert filtered({**asked, **LOW}) == {**changed, "cpus-per-task": "3"}
    assert filtered({**asked, "ntasks": "2", **LOW}) == {**changed, "cpus-per-task": "2"}
    assert filtered({**asked, "exact": "unset", **LOW}) == changed
    step = {"jobid": "7", "cpus-per-gpu": "4", "exact": "set"}
    inside = {"SLURM_JOB_ID": "7", "SLURM_SHARDS_ON_NODE": "6"}
    assert filtered(step, **inside) == {"cpus-per-gpu": "reset", "cpus-per-task": "4"}


@pytest.mark.parametrize(
    ("asked", "exported"),
    [
        ({"gpus-per-node": "1", "mem-per-gpu": "1G"}, ["SLURM_GPUS_PER_NODE=1", "SLURM_MEM_PER_GPU=1024"]),
        ({"gpus": "a100:1", "mem": "1G"}, ["SLURM_GPUS=a100:1"]),
        (
            {"gpus-per-task": "1", "mem": "1G"},
            ["SLURM_TRES_BIND=gres/gpu:per_task:1", "SLURM_TRES_PER_TASK=gres/gpu=1"],
        ),
        ({**GPU, "gpu-bind": "closest", "mem": "1G"}, ["SLURM_TRES_BIND=gres/gpu:closest"]),
        (GPU, ["FIKIT_MEMORY_BY_DEFAULT=1"]),
    ],
)
def test_variables_of_the_request_go_on_to_the_tasks(asked: dict[str, object], exported: list[str]) -> None:
    assert [line for line in client({**asked, **LOW}) if "export " in line] == [f"export {it}" for it in exported]
    assert not [line for line in client(asked) if "export " in line], "without fikit"


STEP = {"jobid": "7", "nodes": "1"}
INSIDE = {"SLURM_JOB_ID": "7", "SLURM_SHARDS_ON_NODE": "6", "SLURMD_NODENAME": "n1"}


def test_memory_that_nobody_asked_for_is_in_no_variable_of_a_step(tmp_path: Path) -> None:
    assert client(STEP, **INSIDE) == ["export FIKIT_MEMORY_BY_DEFAULT=1"]
    assert client({**STEP, "mem": "1G"}, **INSIDE) == []
    assert client(STEP) == [], "no sharing job"


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        (GPU, {"gres": "shard:6"}),
        ({"gpus": "1"}, {"gres": "shard:6", "gpus": "reset"}),
        ({"gpus-per-node": "1"}, {"gres": "shard:6", "gpus-per-node": "reset"}),
        ({"gpus-per-task": "1"}, {"gres": "shard:6", "gpus-per-task": "reset"}),
        ({"gpus-per-socket": "1"}, {"gres": "shard:6", "gpus-per-socket": "reset", "sockets-per-node": "reset"}),
        ({"tres-per-task": "gres/gpu:1"}, {"gres": "shard:6", "tres-per-task": "reset"}),
        (
            {"gpus": "1", "mem-per-gpu": "1G"},
            {"gres": "shard:6", "gpus": "reset", "mem-per-gpu": "reset", "mem": "1024M"},
        ),
        ({"cpus-per-gpu": "4"}, {"cpus-per-gpu": "reset"}),
        ({"gpu-bind": "single:1"}, {"gpu-bind": "reset"}),
        ({"gpu-freq": "high"}, {"gpu-freq": "reset"}),
        ({"gres": "gres:nic:1"}, {}),
        ({"gres": "none"}, {}),
        ({"gpus": "2"}, {}),
        ({"gpus-per-task": "1", "ntasks": "2"}, {}),
        ({}, {}),
    ],
)
def test_step_of_a_sharing_job_gets_the_jobs_shards(asked: dict[str, object], changed: dict[str, str]) -> None:
    assert filtered({**STEP, **asked}, **INSIDE) == changed
    assert filtered({**STEP, **asked}, SLURM_JOB_ID="7", SLURMD_NODENAME="n1") == {}, "a job that does not share"


@pytest.fixture
def scontrol(tmp_path: Path) -> dict[str, str]:
    """A PATH whose scontrol knows job 8 with 5 shards, job 9 with a GPU of its own, and 10, of which component 1 shares."""
    script = tmp_path / "scontrol"
    script.write_text(
        """#!/bin/sh
        echo "$4" >>"$0.asked"
        case $4 in
          8) echo "JobId=8 JobName=a TresPerNode=gres:shard:5 NtasksPerTRES:0" ;;
          9) echo "JobId=9 JobName=b TresPerNode=gres/gpu:1" ;;
          10) echo "JobId=10 HetJobId=10 HetJobOffset=0 TresPerNode=gres/gpu:1"
              echo "JobId=11 HetJobId=10 HetJobOffset=1 TresPerNode=gres/shard:h200:3" ;;
          12) echo "JobId=12 HetJobId=12 HetJobOffset=0 TresPerNode=gres/shard:2"
              echo "JobId=13 HetJobId=12 HetJobOffset=1 TresPerNode=gres/shard:3" ;;
        esac
        """
    )
    script.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("job", "further", "gres"),
    [
        ("8", {}, "shard:5"),
        ("9", {}, None),
        ("10", {}, None),
        ("10", {"het-group": "0"}, None),
        ("10", {"het-group": "1"}, "shard:3"),
        ("12", {"het-group": "0,1"}, ""),
        ("404", {}, None),
        ("8;id", {}, None),
    ],
)
def test_step_from_outside_gets_what_its_job_has(
    scontrol: dict[str, str], job: str, further: dict[str, str], gres: str | None
) -> None:
    wanted = {} if gres is None else {"gres": gres}
    assert filtered({**GPU, **further, "jobid": job}, **scontrol) == wanted
    assert filtered({**GPU, **further, "jobid": job}, **scontrol, **INSIDE) == wanted, "from inside another job"


def test_step_in_sallocs_shell_asks_slurm_only_if_the_job_can_share(scontrol: dict[str, str], tmp_path: Path) -> None:
    inside = {**scontrol, "SLURM_JOB_ID": "8"}
    assert filtered({**GPU, "jobid": "8", **LOW}, **inside) == {"gres": "shard:5"}
    (tmp_path / "scontrol.asked").unlink()
    assert filtered({**GPU, "jobid": "8"}, **inside) == {}
    assert filtered({"jobid": "404", "gres": "gres:nic:1"}, **inside) == {}
    assert not (tmp_path / "scontrol.asked").exists()


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
    return filtered({**GPU, **LOW, **options}, TEST_CONFIG=config)["gres"]


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


NAMES = [
    "train", "a.b-c_d", ".hidden", "..", ".", "-x", "a/b", "../train", "a b", "100%", "%2F", "%", "ä", "日本語", "it's", "$(id)",
    "x" * 64, "x" * 128, "x" * 129, "x" * 1000, "ä" * 64, "ä" * 65, "x" + "ä" * 64, "日" * 43, "xx" + "日" * 43, "a\tb", "\udcff",
]  # fmt: skip


def test_a_jobs_name_has_the_file_that_fikitd_gives_it(tmp_path: Path) -> None:
    file = tmp_path / "names"
    file.write_bytes(b"\0".join(name.encode(errors="surrogateescape") for name in NAMES) + b"\0")
    printed = lua(f"""
      local client = dofile("{LUA}/fikit_client.lua")
      for name in io.open("{file}", "rb"):read("*a"):gmatch("([^%z]*)%z") do print(client.file_name(name)) end
    """)  # fmt: skip
    assert printed == [file_name(name) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_jobs_name_can_be_read_back_from_its_files(name: str) -> None:
    made = file_name(name)
    assert re.fullmatch(r"(?!\.)[A-Za-z0-9._%-]{1,200}", made)
    if len(name.encode(errors="surrogateescape")) <= 60:
        assert unquote_to_bytes(made) == name.encode(errors="surrogateescape")


@pytest.mark.parametrize("name", ["a/b", "a b", "../train", "100%", "ä", "x" * 300, "it's; id"])
@pytest.mark.parametrize("kind", ["srun", "sbatch"])
def test_memory_is_learnt_for_jobs_of_any_name(remembering: Path, kind: str, name: str) -> None:
    MemoryHistory(ProfileStore(remembering.parents[1])).remember(os.getuid(), name, "12", 5 * 2**30)
    config = str(remembering.parents[2] / "fikit.toml")
    said = client({**GPU, **LOW, "type": kind, "job-name": name}, TEST_CONFIG=config)
    assert ("gres=shard:6" if kind == "srun" else f"usual={5 * 2**30}") in said


@pytest.mark.parametrize(
    ("kind", "asked", "name"),
    [
        ("sbatch", {}, "sbatch"),
        ("sbatch", {"wrap": "python train.py"}, "wrap"),
        ("sbatch", {"argv": {1: "/home/me/train.sh", 2: "--fast"}}, "train.sh"),
        ("sbatch", {"job-name": "mine", "wrap": "true"}, "mine"),
        ("salloc", {}, "interactive"),
        ("salloc", {"argv": {1: "bash"}}, "interactive"),
    ],
)
def test_a_job_that_is_not_named_has_the_name_that_slurm_gives_it(
    remembering: Path, kind: str, asked: dict[str, object], name: str
) -> None:
    (remembering / name).write_text("7 9663676416\n")
    config = str(remembering.parents[2] / "fikit.toml")
    assert client({**GPU, **LOW, "type": kind, "jobid": None, **asked}, TEST_CONFIG=config) == ["usual=9663676416"]


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
    MemoryHistory(ProfileStore(own.parent)).remember(os.getuid(), "train", "12", 5 * 2**30)
    assert shards(remembering, **{"job-name": "train"}) == "shard:6"


def test_a_site_may_have_any_characters_in_its_paths(remembering: Path) -> None:
    odd = remembering.parents[2] / "a 'b' $(touch x) *"
    (remembering.parents[1]).rename(odd)
    toml = remembering.parents[2] / "fikit.toml"
    toml.write_text(toml.read_text().replace(f"{remembering.parents[1]}", str(odd)))
    (odd / str(os.getuid()) / ".memory" / "train").write_text("7 9663676416\n")
    assert shards(remembering, **{"job-name": "train"}) == "shard:10"


def test_the_file_that_fikitd_writes_is_the_one_that_is_read(remembering: Path) -> None:
    MemoryHistory(ProfileStore(remembering.parents[1])).remember(os.getuid(), "train", "12", 5 * 2**30)
    assert shards(remembering, **{"job-name": "train"}) == "shard:6"


def test_sbatch_says_what_jobs_of_its_name_needed(remembering: Path) -> None:
    (remembering / "train").write_text("7 9663676416\n")
    config = str(remembering.parents[2] / "fikit.toml")
    asked = {"type": "sbatch", **GPU, **LOW, "job-name": "train"}
    assert client(asked, TEST_CONFIG=config) == ["usual=9663676416"]
    assert client({**asked, "spank": spank(fikit_mem="3G")}, TEST_CONFIG=config) == []
    assert client({**asked, "job-name": "other"}, TEST_CONFIG=config) == []
    assert client({**asked, "spank": {"fikit": {}}}, TEST_CONFIG=config) == []


@pytest.mark.parametrize("loaded", [True, False])
def test_the_lua_speaks_to_the_plugin_that_slurm_has_loaded(
    loaded: bool, cc: Callable[..., Path], tmp_path: Path
) -> None:
    """Beside the Lua files lies another copy, with variables of its own: what an srun was asked for was told to nobody there."""
    (tmp_path / "empty.c").write_text("int fikit_nothing;\n")
    plugin = tmp_path / "spank_fikit.so"
    plugin.write_bytes(cc(tmp_path / "empty.c", "-shared", "-fPIC").read_bytes())
    load = f"package.loadlib({quote(str(plugin))}, '*')\n" if loaded else ""
    says_from = CLIENT.replace("function(_, name)", "function(path, name) print('from ' .. path)")
    printed = lua(load + says_from % (quote({**UNSET, **LOW, "gpus": "1"}), "true"))
    assert {line for line in printed if line.startswith("from ")} == {f"from {plugin if loaded else LUA / plugin.name}"}
    assert any(line.startswith("asked ") for line in printed)
