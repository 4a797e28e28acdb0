"""The driver's semantics: one expectations file for the emulated GPU and for real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.gpu.earlier.conformance import HERE, PROGRAMS, SOURCES, expected, lines, result, said

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


RESULTS = sorted((HERE / "results").glob("*.txt"))


def unexplained(text: str) -> list[str]:
    """The lines of a device's file that say something else than is expected and no reason, or a reason and nothing else."""
    wanted = dict(line.split() for line in lines())
    found = []
    for line in text.splitlines():
        observation, _, reason = line.partition("#")
        if not observation:
            continue
        name, value = observation.split()
        if bool(reason.strip()) == (wanted.get(name) == value):
            found.append(line)
    return found


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_what_a_real_device_says_otherwise_is_explained(file: Path) -> None:
    text = file.read_text()
    assert unexplained(text) == []
    assert all(f"# {key}: " in text for key in ("device", "driver", "date"))
    named = {line.removeprefix("# unsaid: ").split()[0] for line in text.splitlines()}
    assert {line.split()[0] for line in lines()} <= named, "what the device was not asked for is named, too"


def test_a_device_that_differs_without_a_word_is_seen() -> None:
    name, value = lines()[0].split()
    assert unexplained(f"# device: X\n{name} {value}\n{name} 99\n{name} {value} # why\n{name} 99 # why") == [
        f"{name} 99", f"{name} {value} # why",
    ]  # fmt: skip


def test_a_run_becomes_the_file_of_its_device() -> None:
    seen = {program: expected(program) for program in PROGRAMS} | {"events": expected("events") | {"elapsed": "1"}}
    del seen["events"]["copied"]
    conformance = {"said": seen, "different": {"events": {"error": "it hung"}}}
    gpu = {"name": "Model", "driver": "NVRM version: Kernel Module  580.1.2", "cuda_version": 12080}
    text = result({"date": "2026-01-02T03:04", "settings": {"gpu": gpu}, "parts": {"conformance": conformance}})
    for line in (
        "# device: Model",
        "# driver: 580.1.2, CUDA 12.8",
        "# date: 2026-01-02",
        "# failed: it hung",
        "# unsaid: events.copied",
    ):
        assert line in text.splitlines()
    assert unexplained(text) == ["events.elapsed 1  # "]
