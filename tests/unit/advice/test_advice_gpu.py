"""The rule about which GPU: where the job would start now on several. Situations are one literal each."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from fikit.advice import gpu_rules
from fikit.advice.facts import Busy
from fikit.api.advice import Advice
from test_advice_rules import H, facts, gpu, neighbour, said, situation

BUSY = {"busy": Busy(0.9, "name"), "priority": 1}


def advice(*gpus: Any, **more: Any) -> Advice | None:
    return gpu_rules.another_gpu(situation(facts(*gpus, **more)))


def on(node: str, index: int, *there: Any, **more: Any) -> Any:
    return replace(gpu(index, *there), node=node, **more)


def test_an_idle_gpu_on_another_node_is_named_with_the_line_to_type() -> None:
    found = advice(on("n1", 0, neighbour("7", 10 * H, **BUSY)), on("n2", 0))
    assert found is not None
    assert (found.rule, found.line) == ("another GPU", "sbatch --nodelist=n2 j.sh")
    assert "it ends in 60 min on n2:0, where nobody is" in found.text
    assert "sooner than on n1:0, beside job 7, where Slurm may put it as well" in found.text
    assert (found.figure["gpu"], found.figure["instead_of"]) == ("n2:0", "n1:0")
    assert found.figure["end_s"] == H
    assert found.figure["sooner_s"] > 0


def test_it_is_one_of_the_rules() -> None:
    assert "another GPU" in said(facts(on("n1", 0, neighbour("7", 10 * H, **BUSY)), on("n2", 0)))


def test_where_the_node_has_a_worse_gpu_the_type_tells_them_apart() -> None:
    crowd = neighbour("7", 10 * H, **BUSY)
    found = advice(on("n1", 0, crowd), on("n1", 1, type="a100"))
    assert found is not None
    assert found.line == "sbatch --nodelist=n1 --gres=gpu:a100:1 j.sh"


def test_where_nothing_tells_them_apart_slurm_decides_and_there_is_no_line() -> None:
    found = advice(on("n1", 0, neighbour("7", 10 * H, **BUSY)), on("n1", 1))
    assert found is not None
    assert found.line == ""
    assert found.text.endswith("; which of the node's it gets, Slurm decides")


def test_a_waiting_job_is_told_to_slurm_and_a_running_one_stays() -> None:
    gpus = on("n1", 0, neighbour("7", 10 * H, **BUSY)), on("n2", 0)
    waiting = advice(*gpus, request={"script": None, "job": "12"})
    assert waiting is not None
    assert waiting.line == "scontrol update JobId=12 ReqNodeList=n2"
    assert advice(*gpus, request={"script": None, "job": "12", "running": True}) is None


@pytest.mark.parametrize(
    "gpus",
    [
        (on("n1", 0), on("n2", 0)),
        (on("n1", 0, neighbour("7", 10 * H, **BUSY)),),
        (on("n1", 0), on("n2", 0, neighbour("7", inf, 14))),  # no room
        (on("n1", 0), on("n2", 0, neighbour("7", H, 0, whole=True))),
    ],
)
def test_where_there_is_no_choice_or_no_difference_nothing_is_said(gpus: Any) -> None:
    assert advice(*gpus) is None


def test_a_job_that_has_a_gpu_alone_gets_none_of_it() -> None:
    assert advice(on("n1", 0, neighbour("7", 10 * H, **BUSY)), on("n2", 0), request={"shares": False}) is None
