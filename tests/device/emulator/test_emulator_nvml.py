"""libnvidia-ml.so.1 of the emulator, as nvidia-ml-py, gpustat and nvitop see it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import ROOT, SOURCES, driver_flags, finish, say_go, start, stats

Env = Callable[..., dict[str, str]]
MIB = 1 << 20
CONTEXT = 64 * MIB  # default.toml's context_memory
SAMPLE_PERIOD_S = 0.25  # the longest that the model's utilisation looks back

SURVEY = """
import json, pynvml as nvml
nvml.nvmlInit()
devices = []
for index in range(nvml.nvmlDeviceGetCount()):
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2)
    pci = nvml.nvmlDeviceGetPciInfo(device)
    rates = nvml.nvmlDeviceGetUtilizationRates(device)
    assert nvml.nvmlDeviceGetMemoryInfo(device).used == memory.used
    for same in (nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(device)),
                 nvml.nvmlDeviceGetHandleByPciBusId(pci.busId), nvml.nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy)):
        assert nvml.nvmlDeviceGetIndex(same) == index
    try:
        busy = {s.pid: s.smUtil for s in nvml.nvmlDeviceGetProcessUtilization(device, 0)}
    except nvml.NVMLError_NotFound:
        busy = {}
    devices.append({
        "name": nvml.nvmlDeviceGetName(device), "uuid": nvml.nvmlDeviceGetUUID(device), "bus": pci.busIdLegacy,
        "capability": nvml.nvmlDeviceGetCudaComputeCapability(device),
        "total": memory.total, "used": memory.used, "free": memory.free,
        "clocks_khz": [1000 * nvml.nvmlDeviceGetClockInfo(device, c) for c in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)],
        "mig": nvml.nvmlDeviceGetMigMode(device), "mode": nvml.nvmlDeviceGetComputeMode(device),
        "gpu": rates.gpu, "memory": rates.memory, "busy": busy,
        "processes": {p.pid: p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(device)},
        "graphics": nvml.nvmlDeviceGetGraphicsRunningProcesses(device),
    })
print(json.dumps({"driver": nvml.nvmlSystemGetDriverVersion(), "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
                  "devices": devices}))
nvml.nvmlShutdown()
"""

# The same facts from the driver; it also shows both libraries in one process.
DRIVER = """
import ctypes, json, uuid
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
number, count = ctypes.c_int(), ctypes.c_int()
def attribute(which, device):
    assert cuda.cuDeviceGetAttribute(ctypes.byref(number), which, device) == 0
    return number.value
cuda.cuDeviceGetCount(ctypes.byref(count))
devices = []
for device in range(count.value):
    name, bus, raw = (ctypes.create_string_buffer(64) for _ in range(3))
    total = ctypes.c_size_t()
    cuda.cuDeviceGetName(name, 64, device)
    cuda.cuDeviceGetPCIBusId(bus, 64, device)
    cuda.cuDeviceGetUuid_v2(raw, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    devices.append({"name": name.value.decode(), "uuid": f"GPU-{uuid.UUID(bytes=raw.raw[:16])}",
                    "bus": bus.value.decode(), "capability": [attribute(75, device), attribute(76, device)],
                    "total": total.value, "clocks_khz": [attribute(13, device), attribute(36, device)]})
cuda.cuDriverGetVersion(ctypes.byref(number))
print(json.dumps({"cuda": number.value, "devices": devices}))
"""


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


def run(script: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def survey(env: dict[str, str]) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = json.loads(run(SURVEY, env))["devices"]
    return devices


@contextmanager
def saturating(client: Path, env: dict[str, str]) -> Iterator[int]:
    """Pid of a process that holds 1 GiB and has kept the device busy for longer than the sample period.

    Its kernels last 20 s, so that the device stays busy on a machine that has no time for the process.
    """
    busy = start(client, "forever", 20_000_000, env=env)
    try:
        time.sleep(SAMPLE_PERIOD_S)
        yield busy.pid
    finally:
        busy.kill()
        busy.communicate()


def test_unused_devices_are_those_of_the_driver(native: Path, emulator_env: Env, tmp_path: Path) -> None:
    config = tmp_path / "two.toml"
    config.write_text('[device]\nname = "Emulated X"\ncount = 2\nmemory = "3GiB"\ncompute_capability = "8.6"\n')
    env = emulator_env(EMUCUDA_CONFIG=str(config))
    seen = json.loads(run(SURVEY, env))
    driver = json.loads(run(DRIVER, env))
    assert [{key: device[key] for key in driver["devices"][0]} for device in seen["devices"]] == driver["devices"]
    assert [device["name"] for device in seen["devices"]] == ["Emulated X"] * 2
    assert seen["cuda"] == driver["cuda"]
    assert "emulated" in seen["driver"]
    for device in seen["devices"]:
        assert (device["used"], device["free"], device["gpu"]) == (0, 3 << 30, 0)
        assert (device["processes"], device["busy"], device["graphics"]) == ({}, {}, [])
        assert (device["mig"], device["mode"]) == ([0, 0], 0)
    assert stats(native, env) == [], "looking at a device must not create it"


def test_memory_is_of_the_device_and_of_each_process(client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holders = [start(client, "hold", mib, env=env) for mib in (1000, 200)]
    assert [holder.first_word for holder in holders] == ["holding"] * 2
    (device,) = survey(env)
    assert device["processes"] == {str(h.pid): mib * MIB + CONTEXT for h, mib in zip(holders, (1000, 200), strict=True)}
    assert device["used"] == 1200 * MIB + 2 * CONTEXT
    assert device["used"] + device["free"] == device["total"]
    assert (device["gpu"], device["busy"]) == (0, {})
    finish(holders[0])
    (device,) = survey(env)
    assert device["used"] == 200 * MIB + CONTEXT
    finish(holders[1])


def test_utilisation_is_the_busy_time_of_the_last_moment(client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    idle = start(client, "hold", 1, env=env)
    with saturating(client, env) as pid:
        (device,) = survey(env)
        assert (device["gpu"], device["memory"]) == (100, 0)
        assert device["busy"] == {str(pid): 100}
        assert set(device["processes"]) == {str(pid), str(idle.pid)}
    time.sleep(SAMPLE_PERIOD_S)
    (device,) = survey(env)
    assert (device["gpu"], device["busy"]) == (0, {})
    finish(idle)


def test_what_people_look_at_is_asked_for_apart(client: Path, emulator_env: Env) -> None:
    """`fikit top` shows of every GPU how busy it is and whose processes are there; fikitd itself does not ask."""
    env = emulator_env()

    def told(*options: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "fikitd.gpu_processes", *options]
        (gpu,) = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
        return dict(gpu)

    with saturating(client, env) as pid:
        seen = told("--view")
        assert (seen["use"], seen["held_bytes"]) == (1.0, 1024 * MIB + CONTEXT)
        assert seen["owners"] == {str(pid): {"job": None, "uid": os.getuid()}}
        assert seen["power_w"] is None or seen["power_w"] > 0
        assert not {"use", "held_bytes", "owners", "power_w"} & set(told())


def test_monitor_stays_alive_over_a_reset(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    script = (
        "import pynvml as nvml, sys\nnvml.nvmlInit()\ndevice = nvml.nvmlDeviceGetHandleByIndex(0)\n"
        "for line in sys.stdin: print(nvml.nvmlDeviceGetMemoryInfo(device).used >> 20, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", script], env=env, stdin=-1, stdout=-1, text=True) as monitor:
        assert monitor.stdin is not None
        assert monitor.stdout is not None
        seen = []
        for mib in (10, 20):
            holder = start(client, "hold", mib, env=env)
            say_go(monitor)
            seen.append(int(monitor.stdout.readline()))
            subprocess.run([native / "bin/emuctl", "reset"], env=env, check=True)
            finish(holder)
        monitor.stdin.close()
    assert seen == [10 + 64, 20 + 64]


def test_device_that_is_just_being_created_reads_as_unused(native: Path, emulator_env: Env) -> None:
    env = emulator_env()
    unfinished = Path(f"/dev/shm/emucuda.{os.getuid()}.{env['EMUCUDA_NAME']}.0")
    unfinished.touch()
    (device,) = survey(env)
    assert device["used"] == 0
    assert stats(native, env) == []


def test_lost_device_says_so_until_it_is_back(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holder = start(client, "hold", 1, env=env)
    subprocess.run([native / "bin/emuctl", "lose", "0"], env=env, check=True)
    done = subprocess.run([sys.executable, "-c", SURVEY], env=env, capture_output=True, text=True, check=False)
    assert "NVMLError_GpuIsLost" in done.stderr
    subprocess.run([native / "bin/emuctl", "clear"], env=env, check=True, capture_output=True)
    finish(holder)
    (device,) = survey(env)
    assert device["used"] == 0


LOST = """
import pynvml as nvml
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
print(nvml.nvmlDeviceGetName(device), nvml.nvmlDeviceGetUUID(device)[:4])  # who it was is still known
for what, *arguments in (("MemoryInfo",), ("UtilizationRates",), ("ComputeRunningProcesses",), ("PowerUsage",),
                         ("Temperature", 0), ("ClockInfo", 0), ("PerformanceState",), ("ComputeMode",)):
    try:
        getattr(nvml, "nvmlDeviceGet" + what)(device, *arguments)
    except nvml.NVMLError_GpuIsLost:
        continue
    raise SystemExit(what + " answers")
try:
    nvml.nvmlEventSetCreate()
except nvml.NVMLError_NotSupported:
    print("no events")
"""


def test_lost_device_keeps_only_its_name(native: Path, client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holder = start(client, "hold", 1, env=env)
    subprocess.run([native / "bin/emuctl", "lose"], env=env, check=True)
    assert run(LOST, env).split("\n")[:2] == ["Emulated GPU GPU-", "no events"]
    finish(holder)


@pytest.mark.parametrize("monitor", ["gpustat", "nvitop"])
def test_monitors_show_a_lost_device_without_figures(
    native: Path, client: Path, emulator_env: Env, monitor: str
) -> None:
    pytest.importorskip(monitor)
    env = emulator_env()
    holder = start(client, "hold", 1, env=env)
    subprocess.run([native / "bin/emuctl", "lose"], env=env, check=True)
    options = ["--once", "--ascii"] if monitor == "nvitop" else []
    command = [sys.executable, "-m", monitor, *options]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Emulated GPU" in done.stdout
    assert not re.search(r"16384|40 ?°?C|100 ?W", done.stdout)
    finish(holder)


PROTOCOL = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlErrorString.restype = ctypes.c_char_p
number, device, small = ctypes.c_uint(), ctypes.c_void_p(), ctypes.create_string_buffer(4)
# Before nvmlInit: 1 for emulated functions and for the others.
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 1
assert nvml.nvmlDeviceGetSerial(None, small, 4) == 1
assert nvml.nvmlShutdown() == 1
assert nvml.nvmlInit_v2() == nvml.nvmlInit_v2() == nvml.nvmlShutdown() == 0  # users are counted
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(ctypes.c_void_p())) == 2
assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-none", ctypes.byref(ctypes.c_void_p())) == 6
assert nvml.nvmlDeviceGetIndex(ctypes.c_void_p(64), ctypes.byref(number)) == 2
assert nvml.nvmlDeviceGetIndex(device, None) == 2
assert nvml.nvmlDeviceGetName(device, small, 4) == 7
assert nvml.nvmlDeviceGetSerial(device, small, 4) == 3
assert nvml.nvmlSystemGetProcessName(0x7fffffff, small, 4) == 6
memory = (ctypes.c_uint64 * 5)()
assert nvml.nvmlDeviceGetMemoryInfo_v2(device, memory) == 25
# Lists: how many there are, then the list.
count, records = ctypes.c_uint(0), (ctypes.c_uint64 * 30)()
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), None) == 7 and count.value == 2
count.value = 1
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), records) == 7 and count.value == 2
count.value = 10
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), records) == 0 and count.value == 2
assert {records[0] & 0xffffffff, records[3] & 0xffffffff} == {int(pid) for pid in sys.argv[1:]}
assert nvml.nvmlErrorString(3) == b"Not Supported" and nvml.nvmlErrorString(12345) == b"Unknown Error"
assert nvml.nvmlShutdown() == 0 and nvml.nvmlDeviceGetIndex(device, ctypes.byref(number)) == 1
"""


def test_result_codes_and_lists(client: Path, emulator_env: Env) -> None:
    env = emulator_env()
    holders = [start(client, "hold", 1, env=env) for _ in range(2)]
    pids = [str(holder.pid) for holder in holders]
    done = subprocess.run(
        [sys.executable, "-c", PROTOCOL, *pids], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    for holder in holders:
        finish(holder)


def test_bad_model_file_is_one_sentence_and_no_driver(emulator_env: Env, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[device]\nnmae = 'Emulated'\n")
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env=emulator_env(EMUCUDA_CONFIG=str(tmp_path / "bad.toml")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Driver Not Loaded" in done.stderr
    assert "unknown key 'nmae'" in done.stderr.splitlines()[0]


def test_segment_of_another_version_is_one_sentence(emulator_env: Env) -> None:
    env = emulator_env()
    Path(f"/dev/shm/emucuda.{os.getuid()}.{env['EMUCUDA_NAME']}.0").write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", SURVEY], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("another version of the emulator made it") == 1


def test_listed_names_are_exported_and_nothing_else(native: Path) -> None:
    library = native / "emulator/libnvidia-ml.so.1"
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in out.splitlines()}
    assert exported == set((ROOT / "emulator/libnvml/symbols.txt").read_text().split())


def test_needs_no_cxx_runtime_of_the_program(native: Path) -> None:
    out = subprocess.run(
        ["readelf", "-d", native / "emulator/libnvidia-ml.so.1"], check=True, capture_output=True, text=True
    ).stdout
    assert "libstdc++" not in out
    assert "Library soname: [libnvidia-ml.so.1]" in out


def test_gpustat_shows_a_running_program(client: Path, emulator_env: Env) -> None:
    pytest.importorskip("gpustat")
    env = emulator_env()
    with saturating(client, env) as pid:
        out = subprocess.run(
            [sys.executable, "-m", "gpustat", "--json"], env=env, check=True, capture_output=True, text=True
        )
    (gpu,) = json.loads(out.stdout)["gpus"]
    assert "Emulated" in gpu["name"]
    assert (gpu["memory.used"], gpu["memory.total"]) == (1024 + 64, 16384)
    assert gpu["utilization.gpu"] == 100
    assert [(p["pid"], p["gpu_memory_usage"]) for p in gpu["processes"]] == [(pid, 1024 + 64)]


def test_nvitop_shows_a_running_program(client: Path, emulator_env: Env) -> None:
    pytest.importorskip("nvitop")
    env = emulator_env()
    with saturating(client, env) as pid:
        out = subprocess.run(
            [sys.executable, "-m", "nvitop", "--once", "--ascii"], env=env, check=True, capture_output=True, text=True
        )
    assert out.stderr == ""
    assert "Emulated GPU" in out.stdout
    assert "1088MiB / 16384MiB" in out.stdout
    (line,) = [line.split() for line in out.stdout.splitlines() if str(pid) in line.split()]
    assert "1088MiB" in line
    assert "100" in line
