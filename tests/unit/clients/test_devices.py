"""Which GPU a client shares: the record of its job decides, whatever the client says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fikitd.base.protocol import Device
from fikitd.gpus import devices as module
from fikitd.gpus.devices import ASK_AGAIN_S, STALE_S, Devices, NotItsGpu, uuids_of
from fikitd.gpus.nvml import NoNvml
from fikitd.store.records import JobRecord


def uuid(number: int, kind: str = "GPU") -> str:
    return f"{kind}-{number:08x}-0405-0607-0809-0a0b0c0d0e0f"


def gpu(index: int, number: int | None = None, **facts: Any) -> dict[str, Any]:
    return {
        "name": "H100", "uuid": uuid(index if number is None else number), "index": index, "minor": index, "mig": False,
        "memory_bytes": 2**36, "processes": [], **facts,
    }  # fmt: skip


TWO = [gpu(0), gpu(1)]
SPLIT = [gpu(0, 7, mig=True, uuid=uuid(7, "MIG")), gpu(0, 8, mig=True, uuid=uuid(8, "MIG"))]
ELSEWISE = [gpu(0, minor=1), gpu(1, minor=0)]


class Nvml:
    def __init__(self, *answers: list[dict[str, Any]] | str) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.now_s = 0.0
        self.devices = Devices(self._ask, lambda: self.now_s)

    async def _ask(self) -> list[dict[str, Any]]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            raise NoNvml(answer)
        return answer

    def place(self, gpus: str, claimed: str, in_use: Sequence[str] = (), **facts: Any) -> str:
        record = JobRecord(**{"job": "12", "uid": 5, "gid": 5, "priority": 8, "gpus": gpus, **facts})
        return asyncio.run(self.devices.place(record, Device("H100", claimed, 2**36), lambda place: place in in_use))


def test_a_client_shares_the_gpu_that_slurm_gave_its_job() -> None:
    nvml = Nvml(TWO)
    assert nvml.place("1", uuid(1)) == uuid(1)
    assert nvml.place("0,1", uuid(0)) == uuid(0)
    assert nvml.asked == 1


@pytest.mark.parametrize(("gpus", "claimed"), [("0", uuid(1)), ("1", uuid(0)), ("0", uuid(99)), ("0,1", uuid(99))])
def test_a_gpu_that_is_not_the_jobs_is_refused_in_one_sentence(gpus: str, claimed: str) -> None:
    with pytest.raises(NotItsGpu) as refused:
        Nvml(TWO).place(gpus, claimed)
    assert str(refused.value) == (
        f"{claimed} is not a GPU of job 12, to which Slurm gave {gpus}: leave CUDA_VISIBLE_DEVICES as Slurm sets it"
    )


@pytest.mark.parametrize("kind", ["GPU", "MIG"])
def test_uuids_in_the_record_need_no_nvml(kind: str) -> None:
    nvml = Nvml("NVML Shared Library Not Found")
    assert nvml.place(uuid(3, kind), uuid(3, kind)) == uuid(3, kind)
    with pytest.raises(NotItsGpu):
        nvml.place(uuid(3, kind), uuid(4, kind))
    assert nvml.asked == 0


def test_a_client_that_calls_its_instance_a_gpu_shares_it_all_the_same() -> None:
    nvml = Nvml("none")
    assert nvml.place(uuid(3, "MIG"), uuid(3, "GPU")) == nvml.place(uuid(3, "MIG"), uuid(3, "MIG"))


@pytest.mark.parametrize("answer", ["NVML Shared Library Not Found", SPLIT, ELSEWISE, []])
def test_where_numbers_cannot_be_told_a_lie_about_the_gpu_changes_nothing(answer: list[dict[str, Any]] | str) -> None:
    nvml = Nvml(answer)
    victim, liar = nvml.place("1", uuid(8)), nvml.place("0", uuid(8))
    assert victim != liar
    assert liar == nvml.place("0", uuid(7)) == nvml.place("0", uuid(99))


def test_several_gpus_that_cannot_be_told_are_never_those_of_another_set() -> None:
    nvml = Nvml("none")
    assert nvml.place("0,1", uuid(8)) not in {nvml.place("1", uuid(8)), nvml.place("0", uuid(8)), uuid(8)}
    assert nvml.place("0,1", uuid(8)) != nvml.place("0,1", uuid(7))


def test_clients_that_came_before_nvml_answered_and_later_ones_share() -> None:
    nvml = Nvml("not yet", TWO)
    before = nvml.place("1", uuid(1))
    nvml.now_s = ASK_AGAIN_S
    assert nvml.place("1", uuid(1), in_use=[before]) == before
    assert nvml.place("1", uuid(1)) == uuid(1)
    with pytest.raises(NotItsGpu):
        nvml.place("0", uuid(1), in_use=[before])


def test_an_old_answer_refuses_nobody() -> None:
    nvml = Nvml(TWO, [gpu(0, 5), gpu(1)])
    nvml.place("1", uuid(1))
    nvml.now_s = STALE_S
    assert nvml.place("0", uuid(5)) == uuid(5)
    assert nvml.asked == 2


def test_nvml_that_does_not_answer_is_asked_again_after_a_while_only() -> None:
    nvml = Nvml("NVML Shared Library Not Found")
    for _ in range(3):
        nvml.place("0", uuid(0))
    assert nvml.asked == 1
    nvml.now_s = ASK_AGAIN_S
    nvml.place("0", uuid(0))
    assert nvml.asked == 2


def test_nvml_that_hangs_delays_a_hello_by_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs() -> list[dict[str, Any]]:
        await asyncio.sleep(3600)
        return []

    async def place() -> str:
        devices = Devices(hangs)
        try:
            record = JobRecord(job="12", uid=5, gid=5, priority=8, gpus="0")
            return await devices.place(record, Device("H100", uuid(0), 2**36))
        finally:
            await devices.stop()

    monkeypatch.setattr(module, "LEARN_S", 0.01)
    assert asyncio.run(place()) == "0 of SLURM_JOB_GPUS"


@pytest.mark.parametrize("facts", [{"gpus": ""}, {"gpus": "0", "pid": 77}])
def test_a_record_of_fikit_run_leaves_the_choice_to_its_own_user(facts: dict[str, Any]) -> None:
    nvml = Nvml(TWO)
    assert nvml.place(**{"claimed": uuid(1), **facts}) == uuid(1)
    assert nvml.asked == 0


@pytest.mark.parametrize("names", [["x"], ["-1"], ["0", "x"], ["2"], ["999999"], ["GPU-abc"], ["MIG-GPU-1/2/3"], []])
def test_what_is_no_known_name_of_a_gpu_is_not_certain(names: list[str]) -> None:
    assert uuids_of(names, TWO) is None


@pytest.mark.parametrize(("gpus", "asked"), [("", 0), (uuid(3), 0), ("0", 1)])
def test_nvml_is_asked_as_soon_as_a_job_is_there_whose_gpus_have_numbers(gpus: str, asked: int) -> None:
    nvml = Nvml(TWO)

    async def announce() -> None:
        for _ in range(3):
            nvml.devices.expect(lambda: [JobRecord(job="12", uid=5, gid=5, priority=8, gpus=gpus)])
            await asyncio.sleep(0)

    asyncio.run(announce())
    assert nvml.asked == asked
