"""No test and no script names a source of the shim or of fikitd's core for a compiler: CMakeLists.txt lists them, and
scripts/native_program.py finds the ones that a program needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [
    source
    for folder in ("shim", "fikitd/core")
    for source in sorted((ROOT / folder).rglob("*.c*"))
    if source.suffix in {".c", ".cpp"} and source.stem != "bench"
]
PYTHON = [path for folder in ("tests", "bench", "scripts") for path in sorted((ROOT / folder).rglob("*.py"))]
SHELL = sorted((ROOT / "scripts").glob("*.sh"))
AS_TEXT = {"read_text", "write_text"}


def ends(source: Path) -> Iterator[str]:
    """What names a source: its path or the end of it, with a folder or with the suffix."""
    parts = source.relative_to(ROOT).parts
    yield source.name
    for begin in range(len(parts) - 1):
        yield "/".join(parts[begin:])
        yield "/".join([*parts[begin:-1], source.stem])


NAMES = {end for source in SOURCES for end in ends(source)}


def is_named(pattern: str) -> bool:
    """* stands for what a program fills in."""
    if "*" not in pattern:
        return pattern in NAMES
    if not re.search(r"\w/.*\.c(pp)?$", pattern):
        return False
    return any(fnmatchcase(name, pattern) for name in NAMES)


def strings(node: ast.AST) -> Iterator[str]:
    """Of a piece of Python, but for files that are read or written as text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in AS_TEXT:
        return
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from strings(child)


def named(path: Path, text: str) -> list[str]:
    """Names of sources in a program's text. Python is only parsed where a word looks like one."""
    if path.suffix == ".sh":
        return [word for word in re.split(r"[\s\"'(){}=]+", text) if is_named(word)]
    likely = any(is_named(re.sub(r"\{.*?\}", "*", word)) for word in re.split(r"[\s\"']+", text))
    return [word for word in strings(ast.parse(text)) if is_named(word)] if likely else []


@pytest.mark.parametrize(
    "line",
    [
        'cc("x.c", str(SHIM / "gate/plan.c"))',
        'cc("x.c", *(SHIM / f"{name}.c" for name in ("gate/gate", "base/lock")))',
        'build(without=["dispatcher_plans.cpp"])',
        '[f"residency/{name}.cpp" for name in ("budget", "epochs")]',
        'ROOT / "fikitd/core/predictor/accesses.cpp"',
    ],
)
def test_a_list_is_noticed(line: str) -> None:
    assert named(Path("x.py"), line)


@pytest.mark.parametrize(
    "line", ['cc(HERE / "plan_copy.c")', '(ROOT / "shim/gate/gate.c").read_text()', 'FUZZ / f"{target}.c"', '"gate"']
)
def test_other_names_are_no_list(line: str) -> None:
    assert named(Path("x.py"), line) == []


def test_nobody_lists_sources_of_the_product() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in [*PYTHON, *SHELL]
        if path != Path(__file__) and (names := named(path, path.read_text()))
    }
    assert found == {}
