"""Slurm's configuration is read as Slurm reads it, and the doctor calls right what is right, in every spelling."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from fikit.checks import access, slurm
from fikit.checks.check import Check
from fikit.slurm import config as slurm_config

pytestmark = pytest.mark.starts_processes

BASE = """
ClusterName=Site
GresTypes=gpu,shard
SelectType=select/cons_tres
JobSubmitPlugins=lua
CliFilterPlugins=lua
PrologFlags=Alloc
NodeName=gpu[1-2] Gres=gpu:h200:2,shard:h200:282
PartitionName=all Nodes=ALL
"""
GRES = "Name=gpu Type=h200 File=/dev/nvidia[0-1]\nName=shard Count=282\n"
HOST = socket.gethostname().partition(".")[0]


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without slurmctld."""
    monkeypatch.setattr(slurm_config, "_told", lambda what, file: [])


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "slurm.conf").write_text(BASE)
    (tmp_path / "gres.conf").write_text(GRES)
    return tmp_path / "slurm.conf"


def findings(path: Path) -> dict[str, Check]:
    return {check.name: check for check in slurm.configuration(path)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PrologFlags=Alloc", "PrologFlags=Contain"),
        ("PrologFlags=Alloc", "PrologFlags=Serial,X11"),
        ("PrologFlags=Alloc", "PrologFlags=RunInJob"),
        ("PrologFlags=Alloc", "PrologFlags=NoHold,DeferBatch"),
        ("PrologFlags=Alloc", "prologflags = alloc"),
        ("JobSubmitPlugins=lua", "JobSubmitPlugins=job_submit/lua"),
        ("JobSubmitPlugins=lua", 'JobSubmitPlugins="all_partitions,job_submit/lua"'),
        ("CliFilterPlugins=lua", "CliFilterPlugins=cli_filter/lua,user_defaults"),
        ("GresTypes=gpu,shard", 'GresTypes = "gpu,shard"'),
        ("GresTypes=gpu,shard", "GresTypes=gpu,\\\nshard"),
        ("GresTypes=gpu,shard", "GresTypes=gpu,\\  \nnic,\\\nshard # all of them"),
        ("GresTypes=gpu,shard", "\tGRESTYPES\t=\tshard,gpu\t"),
        ("GresTypes=gpu,shard", "GresTypes=gpu,shard#no blank before the comment"),
        ("GresTypes=gpu,shard", "GresTypes=none\nGresTypes=gpu,shard"),
        ("ClusterName=Site", 'ClusterName=Site\nLaunchParameters="a#b"'),
        ("SelectType=select/cons_tres", 'selecttype="select/cons_tres"'),
        ("NodeName=gpu[1-2] Gres=", "NodeName=gpu[1-2] CPUs=4 \\\n   Gres="),
        ("NodeName=gpu[1-2] Gres=", "NODENAME=gpu[1-2] gres = "),
        ("NodeName=gpu[1-2] Gres=gpu:h200:2,shard:h200:282", "NodeName=DEFAULT Gres=gpu:h200:2,shard:h200:282\nNodeName=gpu[1-2]"),
        ("NodeName=gpu[1-2] Gres=gpu:h200:2,shard:h200:282", 'NodeName=gpu[1-2] Gres="gpu:h200:2(s:0-1),shard:h200:282"'),
    ],
)  # fmt: skip
def test_right_configuration_in_other_spellings_is_right(conf: Path, old: str, new: str) -> None:
    assert old in BASE
    conf.write_text(BASE.replace(old, new))
    ours = {name: found for name, found in findings(conf).items() if name not in {"plugstack.conf", "job_submit.lua", "cli_filter.lua"}}  # fmt: skip
    assert {name: found for name, found in ours.items() if found.status != "ok"} == {}
    assert {"GresTypes", "SelectType", "JobSubmitPlugins", "CliFilterPlugins", "PrologFlags", "shards"} <= set(ours)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("PrologFlags=Alloc", "PrologFlags=Serial,DeferBatch", "PrologFlags"),
        ("GresTypes=gpu,shard", "#GresTypes=gpu,shard", "GresTypes"),
        ("GresTypes=gpu,shard", "GresTypes=gpu #,shard", "GresTypes"),
        ("GresTypes=gpu,shard", "GresTypes=gpu, shard", "GresTypes"),  # Slurm reads up to the blank
        ("GresTypes=gpu,shard", "GresTypes=gpu,\\ # and\nshards", "GresTypes"),
        ("JobSubmitPlugins=lua", "JobSubmitPlugins=job_submit/luasandbox", "JobSubmitPlugins"),
        ("SelectType=select/cons_tres", "SelectType=select/linear", "SelectType"),
        ("PartitionName=all", "PartitionName=DEFAULT OverSubscribe=EXCLUSIVE\nPartitionName=all", "partitions"),
        ("PartitionName=all Nodes=ALL", 'PartitionName=all \\\n Nodes=ALL Shared = "Exclusive"', "partitions"),
        ("shard:h200:282", "shard:282", "shards"),
    ],
)
def test_wrong_configuration_is_wrong_in_every_spelling(conf: Path, old: str, new: str, name: str) -> None:
    conf.write_text(BASE.replace(old, new))
    assert findings(conf)[name].status != "ok"


@pytest.mark.parametrize(
    "include", ["include site-%c.conf", "Include   {0}/site-site.conf", "INCLUDE site-site.conf # ours"]
)
def test_included_files_are_read_and_may_have_the_clusters_name_in_theirs(conf: Path, include: str) -> None:
    head, _, rest = BASE.partition("GresTypes")
    (conf.parent / "site-site.conf").write_text("GresTypes" + rest)
    conf.write_text(head + include.replace("{0}", str(conf.parent)) + "\n")
    assert findings(conf)["GresTypes"].status == findings(conf)["shards"].status == "ok"


def test_a_circle_of_includes_and_a_file_that_is_not_there_end(conf: Path) -> None:
    conf.write_text(BASE + "include slurm.conf\ninclude nowhere.conf\n")
    assert findings(conf)["GresTypes"].status == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "Name=gpu CPUs=0-3 File=/dev/nvidia0\nName=gpu Cores=4-7 File=/dev/nvidia1\nName=shard Count=282\n",
        "name = gpu type = h200 \\\n file=/dev/nvidia[0-1]\nNAME=shard COUNT=282\n",
        'Name="gpu" Type="h200" File=/dev/nvidia[0-1]\nName=shard Count="282"\n',
        "AutoDetect=nvml\nName=gpu File=/dev/nvidia0\nName=shard Count=282\n",
        f"NodeName={HOST} Name=gpu Type=h200 File=/dev/nvidia[0-1]\nNodeName={HOST} Name=shard Count=282\n"
        "NodeName=other[1-9] Name=gpu File=/dev/nvidia0\nNodeName=other[1-9] Name=shard Count=7\n",
        f"NodeName=a,{HOST},b Name=gpu Type=h200 File=/dev/nvidia[0-1]\nName=shard Count=282\nNodeName=other Name=shard Count=9\n",
        "Include more.conf\n",
    ],
)
def test_right_gres_conf_is_right(conf: Path, text: str) -> None:
    (conf.parent / "more.conf").write_text(GRES)
    (conf.parent / "gres.conf").write_text(text)
    conf.write_text(BASE.replace("NodeName=gpu[1-2]", f"NodeName={HOST}"))
    assert findings(conf)["gres.conf"].status == "ok", findings(conf)["gres.conf"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"NodeName={HOST} Name=gpu File=/dev/nvidia0\nName=shard Count=282\nNodeName=other Name=gpu Type=h200\n", "neither Type="),
        (f"NodeName={HOST} Name=gpu Type=h200 File=/dev/nvidia0\nNodeName=other Name=shard Count=282\n", "no line Name=shard"),
        (f"NodeName={HOST} Name=gpu Type=h200 File=/dev/nvidia0\nNodeName={HOST} Name=shard Count=7\nNodeName=o Name=shard Count=282\n", "it has 7 shards"),
        ("Name=gpu Type=h200 File=/dev/nvidia0\nName=shard Count=1K\n", "it has 1024 shards"),
        ("Name=gpu Type=h200 \\\nMultipleFiles=/dev/a,/dev/b\nName=shard Count=282\n", "MultipleFiles"),
        ("Name=gpu \\\nFile=/dev/nvidia0 # Type=h200\nName=shard Count=282\n", "neither Type="),
    ],
)  # fmt: skip
def test_wrong_gres_conf_is_wrong_where_the_line_is_this_nodes(conf: Path, text: str, found: str) -> None:
    (conf.parent / "gres.conf").write_text(text)
    conf.write_text(
        BASE.replace("NodeName=gpu[1-2]", f"NodeName={HOST} Gres=gpu:h200:2,shard:h200:282\nNodeName=other")
    )
    assert findings(conf)["gres.conf"].status == "fail"
    assert found in findings(conf)["gres.conf"].found


@pytest.mark.parametrize(
    ("hosts", "names"),
    [("gpu1", ["gpu1"]), ("a,b", ["a", "b"]), ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]), ("n[08-10,x]", ["n08", "n09", "n10", "nx"]),
     ("r[1-2]n[1-2],login", ["r1n1", "r1n2", "r2n1", "r2n2", "login"])],
)  # fmt: skip
def test_host_lists_are_expanded_as_slurm_does(hosts: str, names: list[str]) -> None:
    assert list(slurm_config.names_of(hosts)) == names


def test_a_node_that_slurm_calls_otherwise_is_this_machine() -> None:
    nodes = [{"nodename": "n[1-2]", "nodehostname": f"other,{HOST}.example.org"}]
    assert slurm_config.own_names(nodes) >= {HOST.lower(), "n2"}
    assert "n1" not in slurm_config.own_names(nodes)


CONFIG = """\
Configuration data as of 2026-11-25T02:00:00
AccountingStorageEnforce = none
CliFilterPlugins        = lua
GresTypes               = gpu,shard
JobSubmitPlugins        = (null)
PrologFlags             = Alloc,Contain,X11
SelectType              = select/cons_tres

Slurmctld(primary) at node1 is UP
"""
NODES = "NodeName=gpu1 Arch=x86_64 CPUTot=2 Gres=gpu:h200:2(S:0-1),shard:h200:282(S:0-1) NodeHostName=gpu1 OS=Linux 6.1.0 #1 SMP Comment=a=b\n"  # fmt: skip
PARTITIONS = "PartitionName=all AllowGroups=ALL Nodes=gpu1 OverSubscribe=EXCLUSIVE OverTimeLimit=NONE\n"
TOLD = {"config": CONFIG, "node": NODES, "partition": PARTITIONS}


@pytest.fixture
def slurmctld(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers."""
    monkeypatch.setattr(slurm_config, "_told", lambda what, file: TOLD[what].splitlines())


@pytest.mark.usefixtures("slurmctld")
def test_slurms_own_word_counts_before_the_text(conf: Path) -> None:
    conf.write_text("GresTypes=gpu\nJobSubmitPlugins=lua\nNodeName=x Gres=gpu:2\n")
    found = findings(conf)
    assert {found[name].status for name in ("GresTypes", "CliFilterPlugins", "PrologFlags", "SelectType", "shards")} == {"ok"}  # fmt: skip
    assert found["partitions"].found.startswith("all gives")
    # What the file has and slurmctld does not is not in force yet.
    assert found["JobSubmitPlugins"].status == "fail"
    assert found["JobSubmitPlugins"].advice == "restart slurmctld and the slurmds"


@pytest.mark.usefixtures("slurmctld")
def test_a_node_without_any_file_of_slurms_is_told_by_slurmctld(tmp_path: Path) -> None:
    found = findings(tmp_path / "slurm.conf")
    assert found["GresTypes"].status == found["shards"].status == "ok"
    assert "gres.conf" not in found


def test_a_configless_node_has_what_slurmctld_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but job_submit.lua, which stays where slurmctld is."""
    monkeypatch.setattr(slurm_config, "CONFIGLESS", tmp_path / "slurm.conf")
    monkeypatch.setattr(slurm_config, "DEFAULT_PATH", tmp_path / "none" / "slurm.conf")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    (tmp_path / "slurm.conf").write_text(BASE)
    (tmp_path / "gres.conf").write_text(GRES)
    assert slurm_config.path() == tmp_path / "slurm.conf"
    found = findings(slurm_config.path())
    assert found["GresTypes"].status == found["gres.conf"].status == "ok"
    assert "job_submit.lua" not in found
    assert found["cli_filter.lua"].status == "fail"
    # slurmctld's own place for plugstack.conf is on its host.
    monkeypatch.setattr(slurm_config, "_told", lambda what, file: [f"{line} " for line in [*TOLD[what].splitlines(), "PlugStackConfig = /its/own"]])  # fmt: skip
    assert str(tmp_path / "plugstack.conf") in findings(slurm_config.path())["plugstack.conf"].found


def test_slurms_default_is_right_without_a_line(conf: Path) -> None:
    read = slurm_config.read(conf)
    without = slurm_config.SlurmConfig({}, read.nodes, read.partitions, read.source, {})
    assert slurm.setting("SelectType", ("cons_tres",), without, (23, 2, 1)).status == "fail"
    assert slurm.setting("SelectType", ("cons_tres",), without, (23, 11, 0)).status == "ok"


@pytest.mark.parametrize("word", ["limits", "safe", "wckeys", "qos", "Associations", "all"])
def test_what_enforces_associations_by_another_word_enforces_them(word: str) -> None:
    rules = access.fikit_toml.AccessConfig(rule=[{"account": "bio"}])
    assert access.enforced(rules, {"accountingstorageenforce": word}, "slurm.conf").status == "ok"
