"""The doctor says where sharing jobs are packed on the first GPU, and what this release of Slurm can do about it."""

from __future__ import annotations

import pytest
from fikit.checks import spread
from fikit.checks.check import Check
from fikit.slurm.config import Line, SlurmConfig

FOUR: Line = {"nodename": "gpu1", "gres": "gpu:h200:4,shard:h200:564"}
ONE: Line = {"nodename": "old", "gres": "gpu:1,shard:32"}
OLD, NEW = (22, 5, 8), (24, 11, 5)


def checked(
    version: tuple[int, ...], parameters: str = "CR_Core_Memory", nodes: tuple[Line, ...] = (FOUR,), **partition: str
) -> list[Check]:
    settings = {"selecttypeparameters": parameters}
    return list(
        spread.area(SlurmConfig(settings, nodes, [{"partitionname": "p", **partition}], "slurmctld", {}), version)
    )


@pytest.mark.parametrize(
    ("version", "parameters", "status", "says"),
    [
        (NEW, "CR_Core_Memory", "warn", "first GPU with room"),
        (NEW, "CR_Core_Memory,LL_SHARED_GRES", "ok", "least loaded GPU"),
        (NEW, "cr_core,ll_shared_gres", "ok", "least loaded GPU"),
        (OLD, "CR_Core_Memory", "ok", "says what to do"),
    ],
)
def test_a_node_of_several_gpus(version: tuple[int, ...], parameters: str, status: str, says: str) -> None:
    (check,) = checked(version, parameters)
    assert check.status == status
    assert says in check.found
    assert bool(check.advice) == (status == "warn")


def test_an_old_slurm_that_spreads_over_nodes_is_told_apart() -> None:
    assert "over nodes in p" in checked(OLD, lln="YES")[0].found
    assert "over nodes" not in checked(OLD, lln="NO")[0].found


@pytest.mark.parametrize("nodes", [(), (ONE,), ({"nodename": "x", "gres": "gpu:4"},)])
def test_where_nothing_can_be_packed_nothing_is_said(nodes: tuple[Line, ...]) -> None:
    assert checked(NEW, nodes=nodes) == []
