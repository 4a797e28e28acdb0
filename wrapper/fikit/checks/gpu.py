"""The GPUs that a program on this machine would see: the real driver's and the emulated one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from fikit.checks.check import Check, fail, ok, warn
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
print(json.dumps({"version": version.value, "names": names}))
"""


def area() -> Iterator[Check]:
    yield driver()
    if (paths.emulator_dir() / "libcuda.so.1").is_file():
        yield emulator()


def driver() -> Check:
    """The machine's own CUDA driver; a place without one is fine for everything but real work."""
    inside_emulator = [str(paths.emulator_dir()), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    libraries = ":".join(p for p in inside_emulator[1:] if p and p != inside_emulator[0])
    answer, reason = _ask({**os.environ, "LD_LIBRARY_PATH": libraries})
    if answer is None:
        return warn("CUDA driver", f"no GPU here: {reason}", "only the emulated GPU can be used (fikit run --emulated)")
    return ok("CUDA driver", f"version {_version(answer)}: {', '.join(answer['names']) or 'no devices'}")


def emulator() -> Check:
    name = f"doctor-{os.getpid()}"
    env = {**os.environ, "LD_LIBRARY_PATH": str(paths.emulator_dir()), "EMUCUDA_NAME": name}
    env.pop("EMUCUDA_CONFIG", None)
    answer, reason = _ask(env)
    subprocess.run([paths.emuctl(), "reset"], env=env, check=False, capture_output=True, timeout=10)
    if answer is None:
        return fail(
            "emulated GPU", f"it does not answer: {reason}", "run `make build`; see whether /dev/shm is writable"
        )
    return ok("emulated GPU", ", ".join(answer["names"]))


def _ask(env: dict[str, str]) -> tuple[dict[str, list[str]] | None, str]:
    """What the libcuda.so.1 that `env` leads to answers, or None and why."""
    env = {k: v for k, v in env.items() if k not in ("LD_PRELOAD", "FIKIT_SOCKET", "CUDA_VISIBLE_DEVICES")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK_DRIVER], env=env, capture_output=True, text=True, check=False, timeout=20
        )
    except subprocess.TimeoutExpired:
        return None, "the driver did not answer within 20 s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1].split(": ", 1)[-1] if lines else f"it ended with exit code {done.returncode}"
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer, ""


def _version(answer: dict[str, list[str]]) -> str:
    number = int(str(answer["version"]))
    return f"{number // 1000}.{number % 1000 // 10}"
