"""What the emulator's tests share: their C programs, partners that start together, emuctl's answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests/device/programs/emulator"
MODEL = ROOT / "emulator/device_model"


def model_flags(cc: Callable[..., Path]) -> tuple[str, ...]:
    """Flags that compile a C++ test program with the device model, whose sources are compiled once for all of them."""
    common = ("-std=c++20", f"-I{ROOT / 'emulator'}", "-pthread")
    first, *others = sorted(MODEL.glob("*.cpp"))
    return (*common, str(cc(first, *common, "-shared", "-fPIC", *map(str, others))))


def run_case(model: Path, case: str) -> None:
    """One case of a C++ test program of the device model; the program says what is wrong."""
    done = subprocess.run([model, case], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def cases_of(model: Path) -> list[str]:
    """All cases that the program has."""
    return subprocess.run([model], capture_output=True, text=True, check=True).stdout.split()


def driver_flags(native: Path) -> tuple[str, ...]:
    """Flags that link a test program to the emulated driver, as one with DT_NEEDED libcuda.so.1."""
    return (f"-L{native / 'emulator'}", "-l:libcuda.so.1", "-pthread")


def stats(native: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    """The devices of `emuctl stats --json`."""
    out = subprocess.run(
        [native / "bin/emuctl", "stats", "--json"], env=env, check=True, capture_output=True, text=True
    )
    devices: list[dict[str, Any]] = json.loads(out.stdout)["devices"]
    return devices


def kernels(native: Path, env: dict[str, str]) -> int:
    """How many kernels the one device has completed, of all processes."""
    (device,) = stats(native, env)
    return sum(p["kernels"] for p in device["processes"])


class Partner(subprocess.Popen[str]):
    """A process that says one word when it is ready and then may wait for its stdin."""

    first_word: str


def start(program: Path, *arguments: object, env: dict[str, str], quiet: bool = False) -> Partner:
    """Run it until it says its first word; `quiet`: without its standard error."""
    command = [str(program), *map(str, arguments)]
    stderr = subprocess.DEVNULL if quiet else None
    partner = Partner(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert partner.stdout is not None
    partner.first_word = partner.stdout.readline().strip()
    return partner


def say_go(partner: subprocess.Popen[str]) -> None:
    """Let a waiting partner go on, without waiting for what it does."""
    assert partner.stdin is not None
    partner.stdin.write("\n")
    partner.stdin.flush()


def start_together(program: Path, *arguments: object, env: dict[str, str]) -> list[Partner]:
    """Two of them, both at work before anybody waits for either."""
    partners = [start(program, *arguments, env=env) for _ in range(2)]
    for partner in partners:
        say_go(partner)
    return partners


def finish(partner: Partner) -> str:
    """Let a waiting partner go on, and return the rest of what it says."""
    out, _ = partner.communicate("\n", timeout=60)
    assert partner.returncode == 0
    return out


def run_script(script: str, env: dict[str, str], cwd: Path | None = None) -> None:
    """Run a Python client, which has to find every call that it makes."""
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr, "a call that the emulator should have"
