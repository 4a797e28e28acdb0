"""The doctor on QOS: which of them hold every sharing job."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikit.checks import qos

pytestmark = pytest.mark.starts_processes

SLURMDBD = {"accountingstoragetype": "accounting_storage/slurmdbd"}


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("normal|\n", ""),
        ("normal|\ngpuqos|gres/gpu=1\nbig|cpu=4,gres/gpu:h200=2\n", "gpuqos, big"),
        ("any|cpu=1,gres/gpu=0,gres/shard=1,gres/gpumem=4\n", ""),
    ],
)
def test_a_qos_that_wants_a_whole_gpu_of_each_job_is_named(listed: str, names: str) -> None:
    found = qos.check(listed)
    assert found.status == ("warn" if names else "ok")
    assert names in found.found


def test_where_nobody_can_be_asked_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qos, "SYSTEM_PATH", str(tmp_path))
    assert list(qos.area({})) == []
    assert list(qos.area(SLURMDBD)) == []
    for lines in ("exit 1", "exec sleep 30"):
        monkeypatch.setattr(qos, "SACCTMGR_S", 0.2)
        program(tmp_path, lines)
        assert list(qos.area(SLURMDBD)) == []


def test_slurms_own_word_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qos, "SYSTEM_PATH", str(tmp_path))
    program(tmp_path, "[ $6 = format=Name,MinTRESPerJob ] && echo 'gpuqos|gres/gpu=1'")
    assert [(found.name, found.status) for found in qos.area(SLURMDBD)] == [("QOS", "warn")]


def program(directory: Path, lines: str) -> None:
    (directory / "sacctmgr").write_text(f"#!/bin/sh\n{lines}\n")
    (directory / "sacctmgr").chmod(0o755)
