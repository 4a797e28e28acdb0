"""scripts/native_program.py: a program has what it needs of the product, and its own functions stand in for the product's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import native_program
from scripts.native_program import UNDEFINED, ProgramError, build, product, symbols

pytestmark = pytest.mark.starts_processes

ASKS = '#include "identity/collective.h"\nint main(void) { return fikit_is_collective("ncclDevKernel") ? 7 : 3; }\n'
OWN = "bool fikit_is_collective(const char *name) { return name[0] == 0; }\n"


def exit_status(directory: Path, code: str, *flags: str) -> int:
    source = directory / "asks.c"
    source.write_text(code)
    return subprocess.run([build(directory / "program", [source], flags)], check=False).returncode


def test_what_a_program_calls_of_the_product_becomes_part_of_it(tmp_path: Path) -> None:
    assert exit_status(tmp_path, ASKS) == 7
    objects = {path.name for path in (tmp_path / "program.objects").iterdir()}
    assert objects == {f"{tmp_path.name}-asks.o", "identity-collective.o"}


def test_a_function_of_the_program_stands_in_for_the_products(tmp_path: Path) -> None:
    assert exit_status(tmp_path, ASKS + OWN) == 3


def test_the_callers_flags_are_for_the_products_sources_too(tmp_path: Path) -> None:
    exit_status(tmp_path, ASKS, "-finstrument-functions")
    called = symbols([tmp_path / "program.objects" / "identity-collective.o"], UNDEFINED)
    assert "__cyg_profile_func_enter" in {name for _, name, _ in called}


def test_what_nobody_defines_is_said_by_the_linker(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="undefined reference to `fikit_nobody'"):
        exit_status(tmp_path, "void fikit_nobody(void);\nint main(void) { fikit_nobody(); }\n")


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"couldn't start a compiler: .*no-cc"):
        build(tmp_path / "program", [tmp_path / "asks.c"], compilers=("no-cc", "no-c++"))


def test_without_a_build_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_program, "BUILD", tmp_path)
    product.cache_clear()
    with pytest.raises(ProgramError, match="run make build"):
        exit_status(tmp_path, ASKS)
    product.cache_clear()
