"""MIG instances of the emulated GPU as devices: for the driver, for NVML, and for fikit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_process import SOURCE, Fikitd, Runner, eventually, usual_daemon

from fikitd import paths

Env = Callable[..., dict[str, str]]
GIB = 2**30
MODEL = '[device]\nname = "Emulated H200"\nmemory = "141GiB"\nmig = ["3g.71gb", "1g.18gb"]\n'

DRIVER = """
import ctypes, json, uuid
cuda = ctypes.CDLL("libcuda.so.1")
result, count, devices = cuda.cuInit(0), ctypes.c_int(), []
cuda.cuDeviceGetCount(ctypes.byref(count))
for device in range(count.value):
    name, raw, memory = ctypes.create_string_buffer(128), (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
    bus = ctypes.create_string_buffer(32)
    assert cuda.cuDeviceGetName(name, 128, device) == 0 and cuda.cuDeviceGetUuid_v2(raw, device) == 0
    assert cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0
    assert cuda.cuDeviceGetPCIBusId(bus, 32, device) == 0
    devices.append([name.value.decode(), "MIG-" + str(uuid.UUID(bytes=bytes(raw))), memory.value, bus.value.decode()])
print(json.dumps([result, devices]))
"""

SURVEY = """
import json, pynvml as nvml
nvml.nvmlInit()
found = []
for number in range(nvml.nvmlDeviceGetCount()):
    gpu = nvml.nvmlDeviceGetHandleByIndex(number)
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1] and not nvml.nvmlDeviceIsMigDeviceHandle(gpu)
    try:
        nvml.nvmlDeviceGetUtilizationRates(gpu)
        assert False, "no utilisation where MIG is on"
    except nvml.NVMLError_NotSupported:
        pass
    instances = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue
        assert nvml.nvmlDeviceIsMigDeviceHandle(one)
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(one)
        assert nvml.nvmlDeviceGetUUID(parent) == nvml.nvmlDeviceGetUUID(gpu)
        same = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(one))
        assert nvml.nvmlDeviceGetGpuInstanceId(same) == nvml.nvmlDeviceGetGpuInstanceId(one)
        instances.append({
            "name": nvml.nvmlDeviceGetName(one), "uuid": nvml.nvmlDeviceGetUUID(one),
            "total": nvml.nvmlDeviceGetMemoryInfo(one).total, "used": nvml.nvmlDeviceGetMemoryInfo(one).used,
            "ids": [nvml.nvmlDeviceGetGpuInstanceId(one), nvml.nvmlDeviceGetComputeInstanceId(one)],
            "pids": [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(one)],
        })
    found.append({
        "name": nvml.nvmlDeviceGetName(gpu), "uuid": nvml.nvmlDeviceGetUUID(gpu), "instances": instances,
        "total": nvml.nvmlDeviceGetMemoryInfo(gpu).total,
        "processes": [[p.pid, p.gpuInstanceId, p.computeInstanceId] for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)],
    })
print(json.dumps(found))
"""


@pytest.fixture
def env(tmp_path: Path, emulator_env: Env) -> Env:
    """Of a set of devices that are split."""
    model = tmp_path / "mig.toml"
    model.write_text(MODEL)
    return lambda **more: emulator_env(EMUCUDA_CONFIG=str(model), **more)


def printed(program: str, env: dict[str, str]) -> Any:
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def survey(env: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = printed(SURVEY, env)
    return found


def test_nvml_has_the_gpu_and_its_instances(env: Env) -> None:
    [gpu] = survey(env())
    assert (gpu["name"], gpu["total"]) == ("Emulated H200", 141 * GIB)
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", gpu["uuid"])
    first, second = gpu["instances"]
    assert (first["name"], first["total"], first["ids"]) == ("Emulated H200 MIG 3g.71gb", 71 * GIB, [1, 0])
    assert (second["name"], second["total"], second["ids"]) == ("Emulated H200 MIG 1g.18gb", 18 * GIB, [2, 0])
    assert all(re.fullmatch(r"MIG-[0-9a-f-]{36}", instance["uuid"]) for instance in gpu["instances"])
    assert len({gpu["uuid"], first["uuid"], second["uuid"]}) == 3


def test_a_program_sees_one_instance_by_its_name_in_nvml(env: Env) -> None:
    [gpu] = survey(env())
    for instance in gpu["instances"]:
        result, [device] = printed(DRIVER, env(CUDA_VISIBLE_DEVICES=instance["uuid"]))
        assert (result, device[:3]) == (0, [instance["name"], instance["uuid"], instance["total"]])
        assert device[3] == "0000:01:00.0", "the GPU's"
    first, second = (instance["uuid"] for instance in gpu["instances"])
    for visible in ({}, {"CUDA_VISIBLE_DEVICES": f"{first},{second}"}, {"CUDA_VISIBLE_DEVICES": "0,1"}):
        assert [device[1] for device in printed(DRIVER, env(**visible))[1]] == [first], visible
    assert printed(DRIVER, env(CUDA_VISIBLE_DEVICES=gpu["uuid"])) == [100, []], "of a GPU that is split"


@pytest.mark.parametrize(
    ("mig", "sentence"),
    [
        ('["3g.71gb", "4g.71gb"]', "must fit into seven slices and the device's memory"),
        ('["7g.10gb", "1g.10gb"]', "must fit into seven slices and the device's memory"),
        ('["3g"]', 'must look like "3g.71gb"'),
        ('["03g.71gb"]', 'must look like "3g.71gb"'),
        ("[3]", 'must look like "3g.71gb"'),
        ('"3g.71gb"', "must be a list of instances"),
    ],
)
def test_what_cannot_be_is_one_sentence(env: Env, tmp_path: Path, mig: str, sentence: str) -> None:
    (tmp_path / "mig.toml").write_text(re.sub("mig = .*", f"mig = {mig}", MODEL))
    done = subprocess.run([sys.executable, "-c", DRIVER], env=env(), capture_output=True, text=True, check=False)
    assert sentence in done.stderr
    assert "line 4" in done.stderr


daemon = pytest.fixture(usual_daemon)


def test_jobs_of_two_instances_are_apart_and_each_is_known_by_its_instance(
    daemon: Fikitd, env: Env, cc: Callable[..., Path]
) -> None:
    [gpu] = survey(env())
    runner = Runner(daemon, cc(SOURCE), paths.shim(), env())
    jobs = {}
    for instance, priority in zip(gpu["instances"], (1, 8), strict=True):
        runner.env["CUDA_VISIBLE_DEVICES"] = instance["uuid"]
        job, process = runner.start(20, 200_000, "hold", priority=priority)
        jobs[job] = (instance, process)
    eventually(lambda: len(daemon.control.node()["clients"]) == 2)
    [gpu] = survey(env())
    pids = {process.pid for _, process in jobs.values()}
    assert {tuple(row) for row in gpu["processes"]} == {
        (process.pid, instance["ids"][0], 0) for instance, process in jobs.values()
    }
    asked = subprocess.run(
        [sys.executable, "-m", "fikitd.gpu_processes"], env=env(), capture_output=True, text=True, check=True
    )
    seen = {device["uuid"]: device["processes"] for device in json.loads(asked.stdout)}
    assert seen == {instance["uuid"]: [process.pid] for instance, process in jobs.values()}
    node = daemon.control.node()
    assert {client["pid"]: client["gpu"] for client in node["clients"]} == {
        process.pid: instance["uuid"] for instance, process in jobs.values()
    }
    assert {client["pid"] for client in node["clients"]} == pids
    for job, (instance, process) in jobs.items():
        _, err = process.communicate("x", timeout=60)
        assert process.returncode == 0, err
        runner.end(job)
        report = daemon.report(job)
        assert (report["device"]["name"], report["device"]["uuid"]) == (instance["name"], instance["uuid"])
        assert report["device"]["emulated"]
        assert report["wait"]["count"] == 0, "nobody is above it on its instance"
