"""The driver's semantics: one expectations file for the emulated GPU and for real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.gpu.conformance import PROGRAMS, SOURCES, expected, lines, said

Env = Callable[..., dict[str, str]]


def observed(program: Path, env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr, "a call that the emulator should have"
    return said(done.stdout)


@pytest.fixture(scope="module")
def build(native: Path, cc: Callable[..., Path]) -> Callable[[str], Path]:
    """Compile a program against the name libcuda.so.1; which driver that is, the environment says when it runs."""
    return lambda name: cc(SOURCES[name], f"-L{native / 'emulator'}", "-l:libcuda.so.1", "-pthread")


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
    assert {line.split(".")[0] for line in lines()} == set(PROGRAMS)
