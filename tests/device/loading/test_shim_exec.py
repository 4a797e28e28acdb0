"""LD_PRELOAD has no $ in any program, and every program that it starts gets a library that its loader can load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon

from fikitd import paths

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"
WAYS = (
    "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve", "posix_spawn", "posix_spawnp", "system",
    "vfork execve", "vfork execvp", "vfork execl",
)  # fmt: skip


def run(command: list[str | Path], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def entry(shim: Path) -> str:
    """What a job's LD_PRELOAD says."""
    return paths.preload_entry(shim)


@pytest.fixture(scope="module")
def starts(cc: Compile) -> Path:
    return cc(SOURCES / "shim_starts.c")


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    "back",
    [
        'eval "$(env | grep ^LD_PRELOAD=)"',
        'env | grep ^LD_PRELOAD= >"$1"; . "$1"',
        'eval "$(export -p | grep LD_PRELOAD)"',
        'eval "$(tr "\\0" "\\n" </proc/self/environ | grep ^LD_PRELOAD=)"',
        'sh -uc "LD_PRELOAD=$LD_PRELOAD true"',
        'eval "eval LD_PRELOAD=$LD_PRELOAD"',
    ],
)
def test_strict_script_reads_its_environment_back(
    *, shell: str, back: str, entry: str, shim: Path, shim_env: Environment, program_of_32_bits: Path, tmp_path: Path
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    script = f'set -eu; {back}; {back}; echo "$LD_PRELOAD"; {program_of_32_bits}'
    done = run([shell, "-c", script, shell, tmp_path / "environment"], shim_env(LD_PRELOAD=f"{entry}:libm.so.6"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{shim}:libm.so.6\nfine\n", "")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["entry", "path"])
def test_program_of_32_bits_is_started_silently_in_every_way(
    *, way: str, form: str, starts: Path, program_of_32_bits: Path, entry: str, shim: Path, shim_env: Environment
) -> None:
    preload = {"entry": entry, "path": str(shim)}[form]
    env = shim_env(
        LD_PRELOAD=f"libm.so.6 {preload}:libdl.so.2", PATH=f"{program_of_32_bits.parent}:{os.environ['PATH']}"
    )
    done = run([starts, way, program_of_32_bits, "say"], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"libm.so.6 {shim}:libdl.so.2\nfine\n", "")


def test_grandchildren_are_managed(
    *,
    starts: Path,
    cc: Compile,
    entry: str,
    shim_env: Environment,
    daemon: StartDaemon,
    musl_program: Path,
    program_of_32_bits: Path,
) -> None:
    fikitd, last = daemon(), cc(SOURCES / "shim_loads.c")
    code = f"import os; os.execv('/bin/sh', ['sh', '-c', 'exec {program_of_32_bits} {musl_program} {last} name'])"
    done = run([sys.executable, "-c", code], shim_env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\nfine\n", "")
    assert fikitd.page().launches() == 1


@pytest.mark.parametrize("variables", [1000, 100_000])
def test_very_many_variables_and_very_long_lists_pass_as_they_are(
    variables: int, starts: Path, entry: str, shim_env: Environment
) -> None:
    many = {f"V{number}": "x" for number in range(min(variables, 10_000))}
    preload = f"{entry}:libm.so.6" if variables == 1000 else f"{entry}{':libm.so.6' * 400}"
    done = run([starts, "execve", "/bin/true"], shim_env(LD_PRELOAD=preload, **many))
    assert (done.returncode, done.stderr) == (0, "")


def test_other_entries_and_other_environments_stay(starts: Path, shim_env: Environment, shim: Path, entry: str) -> None:
    """A program that has taken the shim out starts its children without; a name that only begins like ours is none of ours."""
    code = (
        "import os, sys\n"
        "os.environ['LD_PRELOAD'] = 'libm.so.6'\n"
        "os.execvp('sh', ['sh', '-c', 'echo $LD_PRELOAD; grep -c libfikit_shim /proc/self/maps'])"
    )
    done = run([sys.executable, "-c", code], shim_env(LD_PRELOAD=entry))
    assert (done.stdout, done.stderr) == ("libm.so.6\n0\n", "")
    done = run(["sh", "-c", "unset LD_PRELOAD; env -u X env | grep -c ^LD_PRELOAD="], shim_env(LD_PRELOAD=entry))
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_errors_are_the_callers(starts: Path, shim_env: Environment, entry: str, tmp_path: Path) -> None:
    code = (
        "import os\n"
        f"for path in ({str(tmp_path / 'none')!r}, {str(tmp_path)!r}):\n"
        "    try: os.execve(path, ['x'], os.environ)\n"
        "    except OSError as error: print(error.errno)\n"
        "try: os.posix_spawn('/none', ['x'], os.environ)\n"
        "except OSError as error: print(error.errno)\n"
    )
    done = run([sys.executable, "-c", code], shim_env(LD_PRELOAD=entry))
    assert (done.stdout, done.stderr) == ("2\n13\n2\n", "")
