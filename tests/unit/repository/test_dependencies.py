"""What the installed packages import is the standard library, themselves, or a dependency that pyproject.toml declares for them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OURS = {"fikit", "fikitd"}


def normal(name: str) -> str:
    """As PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(source: Path) -> set[str]:
    """Top-level names, wherever in the file they are imported."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    declared = {
        normal(re.match(r"[\w.-]+", line)[0])  # type: ignore[index]
        for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    }
    distributions = packages_distributions()
    found = set()
    for package in ("fikitd/fikitd", "wrapper/fikit"):
        for source in (ROOT / package).rglob("*.py"):
            for name in imported(source) - OURS - sys.stdlib_module_names:
                of = {normal(each) for each in distributions.get(name, [name])}
                assert of & declared, f"{source.relative_to(ROOT)} imports {name}, which is no dependency"
                found |= of
    assert declared <= found
