"""The fuzz targets go by the product's names as they are: said by `make test` already, before `make slow` builds and runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import native_program

pytestmark = pytest.mark.starts_processes

SOURCES = sorted((Path(__file__).resolve().parents[2] / "fuzz").glob("*.c*"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_it_compiles(source: Path) -> None:
    compiler = "c++" if source.suffix == ".cpp" else "cc"
    native_program.run([compiler, *native_program.product().flags_of(source), "-fsyntax-only", source])
