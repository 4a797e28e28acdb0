"""The driver's semantics: one expectations file for the emulated GPU and for real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted(source.stem for source in HERE.glob("*.c"))
Env = Callable[..., dict[str, str]]


def expected(program: str) -> dict[str, str]:
    lines = (HERE / "expectations.txt").read_text().splitlines()
    named = (line.split() for line in lines if line and not line.startswith("#"))
    return {name.removeprefix(f"{program}."): value for name, value in named if name.startswith(f"{program}.")}


def observed(program: Path, env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr, "a call that the emulator should have"
    pairs = [line.split() for line in done.stdout.splitlines()]
    assert len({name for name, _ in pairs}) == len(pairs), "an observation's name is used twice"
    return dict(pairs)


@pytest.fixture(scope="module")
def build(native: Path, cc: Callable[..., Path]) -> Callable[[str], Path]:
    """Compile a program against the name libcuda.so.1; which driver that is, the environment says when it runs."""
    return lambda name: cc(HERE / f"{name}.c", f"-L{native / 'emulator'}", "-l:libcuda.so.1", "-pthread")


@pytest.mark.parametrize("program", PROGRAMS)
def test_emulated_gpu(build: Callable[[str], Path], emulator_env: Env, program: str) -> None:
    assert observed(build(program), emulator_env()) == expected(program)


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU here")
@pytest.mark.parametrize("program", PROGRAMS)
def test_real_gpu(build: Callable[[str], Path], program: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EMUCUDA_", "LD_PRELOAD"))}
    assert observed(build(program), env) == expected(program)


def test_every_expectation_is_of_a_program() -> None:
    lines = (HERE / "expectations.txt").read_text().splitlines()
    assert {line.split(".")[0] for line in lines if line and not line.startswith("#")} == set(PROGRAMS)
