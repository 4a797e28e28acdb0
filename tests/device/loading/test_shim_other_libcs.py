"""Programs that are no 64-bit glibc programs, and starters that change the environment: they run as without fikit, and say nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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


def run(command: list[str | Path], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def entry(shim: Path) -> str:
    """What a job's LD_PRELOAD says."""
    return paths.preload_entry(shim)


def test_entry_leaves_the_choice_to_the_programs_loader(shim: Path, entry: str) -> None:
    assert entry == str(shim.parent / "$PLATFORM" / shim.name)


@pytest.mark.parametrize("form", ["entry", "path"])
def test_musl_program_runs_silently(
    musl_program: Path, shim: Path, entry: str, shim_env: Environment, form: str
) -> None:
    """By the path as well, which somebody may have written into a container's environment."""
    env = shim_env(LD_PRELOAD={"entry": entry, "path": str(shim)}[form])
    done = run([musl_program, musl_program], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\nfine\n", "")


def test_32_bit_program_runs_silently(program_of_32_bits: Path, entry: str, shim_env: Environment) -> None:
    done = run([program_of_32_bits, program_of_32_bits], shim_env(LD_PRELOAD=entry))
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\nfine\n", "")


def test_library_of_32_bit_programs_needs_and_offers_nothing(entry: str) -> None:
    empty = Path(entry.replace("$PLATFORM", "i686"))
    dynamic = subprocess.run(["readelf", "-dlsW", empty], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\((NEEDED|SONAME|INIT|REL|TEXTREL)\w*\)", dynamic)
    assert re.search(r"GNU_STACK.* RW ", dynamic), "the loader would make the program's stack executable"


def test_chain_of_programs_of_every_kind_ends_in_a_managed_one(
    *, musl_program: Path, program_of_32_bits: Path, cc: Compile, entry: str, shim_env: Environment, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    last = cc(SOURCES / "shim_loads.c")
    env = shim_env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path))
    done = run(["/bin/sh", "-c", f"exec {musl_program} {program_of_32_bits} {musl_program} {last} name"], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\nfine\nfine\n", "")
    assert fikitd.page().launches() == 1


@pytest.mark.parametrize("platform", ["haswell", "xeon_phi", "x86_64", ""])
def test_every_name_of_a_64_bit_processor_has_the_library(shim: Path, entry: str, platform: str) -> None:
    """ "": a shell that reads the environment back (`env >file; . ./file`) replaces what it takes for a variable of its own."""
    assert Path(entry.replace("$PLATFORM", platform)).read_bytes() == shim.read_bytes()


@pytest.mark.parametrize("features", ["", "-AVX2_Usable,-AVX2"])
def test_64_bit_program_is_managed_whatever_its_loader_calls_the_processor(
    cc: Compile, entry: str, shim_env: Environment, daemon: StartDaemon, features: str
) -> None:
    fikitd = daemon()
    env = shim_env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path), GLIBC_TUNABLES=f"glibc.cpu.hwcaps={features}")
    done = run([cc(SOURCES / "shim_loads.c"), "name"], env)
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


def test_program_started_by_its_loader_is_managed(
    cc: Compile, entry: str, shim_env: Environment, daemon: StartDaemon
) -> None:
    """As programs of Nix, Guix and Spack's, whose wrappers name a loader."""
    fikitd = daemon()
    program = cc(SOURCES / "shim_loads.c")
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    [loader] = re.findall(r"interpreter: (\S+)\]", headers)
    done = run([loader, program, "name"], shim_env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a program another group's rights")
def test_set_id_starter_loses_the_variable_and_what_it_starts_runs_unmanaged(
    cc: Compile, entry: str, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    """Apptainer's starter-suid and sudo: ld.so drops the variable, from their own start and for what they start."""
    fikitd = daemon()
    starter = shutil.copy(shutil.which("env") or "/usr/bin/env", tmp_path / "starter")
    os.chown(starter, 0, 33)
    Path(starter).chmod(0o2755)
    env = shim_env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path))
    if "LD_PRELOAD" in run([starter], env).stdout:
        pytest.skip("the temporary directory is mounted nosuid")
    program = cc(SOURCES / "shim_loads.c")
    # It drops its rights, as they do, and the path of the driver was lost as well.
    starts = [starter, "setpriv", "--regid=0", "--clear-groups", "env", f"LD_LIBRARY_PATH={env['LD_LIBRARY_PATH']}"]
    done = run([*starts, program, "name"], env)
    assert (done.returncode, done.stderr, fikitd.hellos) == (0, "", [])
    again = run([*starts, f"LD_PRELOAD={entry}", program, "name"], env)
    assert (again.returncode, again.stderr, fikitd.page().launches()) == (0, "", 1)
