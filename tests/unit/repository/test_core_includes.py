"""scripts/check_includes.py: the tree passes, and a tree that breaks a rule does not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_includes", ROOT / "scripts" / "check_includes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_this_tree_keeps_the_rules(checker: ModuleType) -> None:
    assert checker.check(ROOT) == []


def test_no_room_is_in_a_circle(checker: ModuleType) -> None:
    arrows: dict[str, tuple[str, ...]] = checker.MAY_INCLUDE

    def reached(folder: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(arrows.get(folder, ()))
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += arrows.get(name, ())
        return seen

    assert {folder for folder in arrows if folder in reached(folder)} == set()


ALLOWED = [
    ("fikitd/core/policy/a.cpp", '#include "b.hpp"\n#include <vector>\n#include <cstdint>'),
    ("fikitd/core/dispatcher/a.cpp", '#include "policy/b.hpp"\n#include <sys/mman.h>\n#include "fikit_protocol.h"'),
    ("fikitd/core/protocol/x.h", "#include <stdint.h>\n#include <atomic>"),
    ("fikitd/core/tracking/a.cpp", '#include "policy/base/c.hpp"'),
    ("fikitd/core/policy/budget/a.cpp", '#include "policy/base/c.hpp"'),
    ("shim/a.c", '#include "fikit_protocol.h"\n#include <dlfcn.h>'),
    ("slurm_plugin/a.c", "#include <slurm/spank.h>"),
]
FORBIDDEN = [
    ("fikitd/core/policy/a.cpp", '#include "dispatcher/d.hpp"', "may not include fikitd/core/dispatcher/d.hpp"),
    ("fikitd/core/tracking/a.cpp", '#include "dispatcher/d.hpp"', "may not include fikitd/core/dispatcher/d.hpp"),
    ("fikitd/core/tracking/a.cpp", "#include <sys/mman.h>", "only the standard library"),
    ("fikitd/core/policy/a.cpp", "#include <sys/mman.h>", "only the standard library"),
    ("fikitd/core/policy/a.cpp", '#include "../predictor/p.hpp"', "may not include fikitd/core/predictor/p.hpp"),
    ("fikitd/core/policy/base/a.hpp", '#include "policy/b.hpp"', "may not include fikitd/core/policy/b.hpp"),
    ("fikitd/core/policy/baselines/a.hpp", '#include "../budget/f.hpp"', "may not include fikitd/core/policy/budget"),
    ("fikitd/core/predictor/a.hpp", '  #  include "policy/b.hpp"', "may not include fikitd/core/policy/b.hpp"),
    ("fikitd/core/protocol/x.h", "#include <sys/socket.h>", "only the standard library"),
    ("shim/a.c", '#include "policy/b.hpp"', "may not include fikitd/core/policy/b.hpp"),
    ("shim/memory/a.c", '#include "hooks/h.h"', "may not include shim/hooks/h.h"),
    ("shim/a.c", "#include <slurm/spank.h>", "may not need"),
    ("shim/a.c", "#include <cuda.h>", "may not need"),
    ("emulator/a.cpp", '#include "fikit_protocol.h"', "may not include fikitd/core/protocol/fikit_protocol.h"),
    ("slurm_plugin/a.c", '#include "fikit_protocol.h"', "may not include"),
    ("fikitd/core/dispatcher/a.cpp", "#include <nanobind/nanobind.h>", "may not need"),
]


def tree(root: Path, path: str, text: str) -> Path:
    """A small house: one header in each of some folders, and the file under test."""
    headers = ["policy/b.hpp", "policy/base/c.hpp", "policy/budget/f.hpp", "predictor/p.hpp", "dispatcher/d.hpp"]
    headers.append("protocol/fikit_protocol.h")
    for name in [*(f"fikitd/core/{header}" for header in headers), "shim/hooks/h.h", path]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text if name == path else "#pragma once\n")
    return root


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_what_a_folder_needs_is_allowed(checker: ModuleType, tmp_path: Path, path: str, text: str) -> None:
    assert checker.check(tree(tmp_path, path, text)) == []


@pytest.mark.parametrize(("path", "text", "why"), FORBIDDEN)
def test_a_forbidden_include_is_named_with_its_line(
    checker: ModuleType, tmp_path: Path, path: str, text: str, why: str
) -> None:
    (line,) = checker.check(tree(tmp_path, path, "\n" + text + "\n"))
    assert line.startswith(f"{path}:2: ")
    assert why in line
