"""The built shim as a file: what it exports, what it needs, and its tables."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path

import pytest
import shim_table

from scripts import native_program

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parents[3]
SYMBOLS = set(shim_table.SYMBOLS)
HANDLED = shim_table.TABLE.handled


@pytest.fixture(scope="module")
def shim(native: Path) -> Path:
    return native / "libfikit_shim.so"


def read(tool: str, *arguments: str | Path) -> str:
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


def test_exports_every_name_of_the_driver_and_its_hooks(shim: Path) -> None:
    exported = {line.split()[-1] for line in read("nm", "-D", "--defined-only", shim).splitlines()}
    starts = {
        "execl",
        "execle",
        "execlp",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "fexecve",
        "posix_spawn",
        "posix_spawnp",
    }
    assert exported == SYMBOLS | {"dlsym", "dlvsym", "__asan_default_options"} | starts


def test_needs_no_symbol_newer_than_glibc_2_28(shim: Path) -> None:
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", read("objdump", "-T", shim))
    assert versions
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 28)


def test_needs_no_symbol_that_another_c_library_lacks(shim: Path) -> None:
    """musl ends a program whose preload library it cannot relocate; it has no versions, and what is weak may be missing."""
    musl = next(Path("/lib").glob("ld-musl-*.so.1"), None)
    if musl is None:
        pytest.skip("needs musl-tools")
    needed = {
        line.split()[1].split("@")[0]
        for line in read("nm", "-D", "--undefined-only", shim).splitlines()
        if " U " in line
    }
    has = {line.split()[-1] for line in read("nm", "-D", "--defined-only", musl).splitlines()}
    assert needed - has == set()


def test_never_calls_its_own_hooks_or_ends_the_program(shim: Path) -> None:
    undefined = {line.split()[-1].split("@")[0] for line in read("nm", "-D", "--undefined-only", shim).splitlines()}
    assert not undefined & {
        "dlsym",
        "dlvsym",
        "exit",
        "_exit",
        "abort",
        "umask",
        "sched_setaffinity",
        "sigaction",
        "signal",
    }


def test_needs_only_the_c_library_and_stands_in_for_the_driver(shim: Path) -> None:
    dynamic = read("readelf", "-d", shim)
    # By these names musl's loader finds itself; glibc's own name would end a musl program.
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) == {"libdl.so.2", "libc.so.6"}
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libcuda.so.1"]
    assert "BIND_NOW" in dynamic
    assert "GNU_RELRO" in read("readelf", "-lW", shim)


def test_handled_names_have_a_row_for_proc_address() -> None:
    with (ROOT / "driver_api" / "versions.csv").open(newline="") as file:
        symbols = {row["symbol"] for row in csv.DictReader(file)}
    assert set(HANDLED) <= symbols


def test_handle_map_grows_forgets_and_reuses(tmp_path: Path) -> None:
    source = ROOT / "tests/device/programs/shim/shim_handle_map.c"
    program = native_program.build(tmp_path / "handle_map", [source], ["-O1", "-g"])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
