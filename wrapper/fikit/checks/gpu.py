"""The GPUs that a program on this machine would see: the real driver's and the emulated one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fikit.checks import host_memory, mps
from fikit.checks.check import Check, fail, ok, warn
from fikit.slurm import elf
from fikit.wording import mig
from fikitd import paths

# Run in a process of its own: a driver that misbehaves must not take the doctor with it.
ASK_DRIVER = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
status = cuda.cuInit(0)
assert status == 0, f"cuInit returned {status}"
version, count, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
cuda.cuDriverGetVersion(ctypes.byref(version))
cuda.cuDeviceGetCount(ctypes.byref(count))
names = []
for index in range(count.value):
    cuda.cuDeviceGetName(name, 256, index)
    names.append(name.value.decode(errors="replace"))
with open("/proc/self/maps") as maps:
    libraries = [line.split(maxsplit=5)[5].strip() for line in maps if "/libcuda.so" in line]
print(json.dumps({"version": version.value, "names": names, "library": libraries[0]}))
"""

ASK_NVML = """
import json, pynvml
pynvml.nvmlInit()
modes, capabilities, instances = [], [], []
for index in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        modes.append(pynvml.nvmlDeviceGetComputeMode(gpu))
    except pynvml.NVMLError_NotSupported:
        modes.append(0)
    try:
        capabilities.append(pynvml.nvmlDeviceGetCudaComputeCapability(gpu)[0])
    except pynvml.NVMLError:
        capabilities.append(None)
    try:
        places = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if pynvml.nvmlDeviceGetMigMode(gpu)[0] else 0
    except pynvml.NVMLError:
        continue
    found = []
    for place in range(places):
        try:
            one = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except pynvml.NVMLError_NotFound:
            continue
        found.append([pynvml.nvmlDeviceGetName(one), pynvml.nvmlDeviceGetUUID(one)])
    if places:
        instances.append([index, found])
print(json.dumps({"modes": modes, "capabilities": capabilities, "instances": instances}))
"""
# What NVML's compute modes other than 0 (default) mean for sharing.
MODES = {1: "one thread only", 2: "no process at all", 3: "one process at a time"}
EXCLUSIVE_PROCESS = 3
VOLTA = 7  # compute capability, from which on MPS keeps its clients' memory apart


def area() -> Iterator[Check]:
    machine = _machine_env()
    answer, reason = _ask(ASK_DRIVER, machine)
    yield driver(answer, reason)
    if answer is not None:
        yield from calls(Path(answer["library"]))
        yield from sharing(machine)
        yield from host_memory.area()
    yield from mps.area(has_gpu=answer is not None)
    if (paths.emulator_dir() / "libcuda.so.1").is_file():
        yield emulator()


def driver(answer: dict[str, Any] | None, reason: str) -> Check:
    """The machine's own CUDA driver; a place without one is fine for everything but real work."""
    if answer is None:
        return warn("CUDA driver", f"no GPU here: {reason}", "only the emulated GPU can be used (fikit run --emulated)")
    return ok("CUDA driver", f"version {_version(answer)}: {', '.join(answer['names']) or 'no devices'}")


def calls(library: Path) -> Iterator[Check]:
    """Calls of a driver that is newer than the shim. It stands in for the driver in programs that are linked with
    that, so they find none of these there and do not start; programs that look them up have them."""
    try:
        missing = {name for name in elf.exported(library) - elf.exported(paths.shim()) if re.match(r"cu[A-Z]", name)}
    except (OSError, ValueError):
        return  # the shim's absence is spoken of elsewhere, and what this driver is made of is its own affair
    if missing:
        names = sorted(missing)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield warn("driver calls", f"{library} has {', '.join(names[:3])}{more}, which the shim does not know",
                   "programs that are linked with these do not start in fikit's jobs, and new ways to launch are not held: install a newer fikit")  # fmt: skip


def sharing(env: dict[str, str]) -> Iterator[Check]:
    """What NVML says about sharing the machine's GPUs: who may use them at a time, and whether they are split."""
    answer, reason = _ask(ASK_NVML, env)
    if answer is None:
        yield warn("compute mode", f"NVML does not answer: {reason}",
                   "see with `nvidia-smi -q -d COMPUTE` that it is Default; without NVML nobody sees programs that go around fikit")  # fmt: skip
        return
    under_mps = mps.wanted()
    yield compute_modes(answer["modes"], under_mps)
    if under_mps:
        yield from too_old(answer["capabilities"])
    if answer["instances"]:
        yield instances(answer["instances"])


def instances(split: list[tuple[int, list[tuple[str, str]]]]) -> Check:
    """The MIG instances of the GPUs, as NVML numbers these, that are split: name and UUID of each."""
    empty = [str(index) for index, found in split if not found]
    if empty:
        return fail("MIG", f"GPU {', '.join(empty)} is split into no instance, so that no program can use it",
                    f"make instances (`nvidia-smi mig -i {','.join(empty)} -cgi ... -C`), or `nvidia-smi -i {','.join(empty)} -mig 0`")  # fmt: skip
    there = "; ".join(f"GPU {index}: " + ", ".join(" ".join(one) for one in found) for index, found in split)
    return ok("MIG", f"{there}; {mig.NOT_TOLD}, so of jobs that have one to themselves it is not known")


def compute_modes(modes: list[int], under_mps: bool) -> Check:
    """What the compute modes of all GPUs, as NVML numbers them, mean for sharing."""
    closed = {index: MODES.get(mode, f"unknown mode {mode}") for index, mode in enumerate(modes) if mode != 0}
    if not closed:
        return ok("compute mode", "every GPU admits several processes")
    admits = "; ".join(f"GPU {index} admits {who}" for index, who in closed.items())
    default = f"`nvidia-smi -i {','.join(map(str, closed))} -c DEFAULT` as root"
    if under_mps and all(modes[index] == EXCLUSIVE_PROCESS for index in closed):
        return warn("compute mode", f"{admits}, which is its MPS server: every program outside of MPS fails there",
                    "leave it, as NVIDIA's recipe for MPS has it, where nothing is to go around MPS; "
                    f"else {default}, with which programs that find no place in MPS run as well")  # fmt: skip
    return fail("compute mode", admits, f"nothing can share it: {default}")


def too_old(capabilities: list[int | None]) -> Iterator[Check]:
    """GPUs whose MPS has one address space for all of its clients."""
    before = [str(index) for index, major in enumerate(capabilities) if major is not None and major < VOLTA]
    if before:
        yield fail("MPS", f"GPU {', '.join(before)} is older than Volta: its MPS lets each client read and write the others' memory, and takes 16 of them",
                   'set [gpu] mps = "off"')  # fmt: skip


def emulator() -> Check:
    name = f"doctor-{os.getpid()}"
    env = {**os.environ, "LD_LIBRARY_PATH": str(paths.emulator_dir()), "EMUCUDA_NAME": name}
    env.pop("EMUCUDA_CONFIG", None)
    answer, reason = _ask(ASK_DRIVER, env)
    subprocess.run([paths.emuctl(), "reset"], env=env, check=False, capture_output=True, timeout=10)
    if answer is None:
        return fail(
            "emulated GPU", f"it does not answer: {reason}", "run `make build`; see whether /dev/shm is writable"
        )
    return ok("emulated GPU", ", ".join(answer["names"]))


def _machine_env() -> dict[str, str]:
    """This environment without the emulated GPU."""
    libraries = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p and p != str(paths.emulator_dir())]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}


def _ask(script: str, env: dict[str, str]) -> tuple[dict[str, Any] | None, str]:
    """What the libraries that `env` leads to answer to a script, or None and why."""
    env = {k: v for k, v in env.items() if k not in ("LD_PRELOAD", "FIKIT_SOCKET", "CUDA_VISIBLE_DEVICES")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False, timeout=20
        )
    except subprocess.TimeoutExpired:
        return None, "the driver did not answer within 20 s"
    except OSError as error:
        return None, f"{sys.executable} could not be run: {error.strerror}"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1].split(": ", 1)[-1] if lines else f"it ended with exit code {done.returncode}"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer, ""


def _version(answer: dict[str, Any]) -> str:
    number = int(answer["version"])
    return f"{number // 1000}.{number % 1000 // 10}"
