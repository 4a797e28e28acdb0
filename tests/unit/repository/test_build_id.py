"""Every build says of which sources it is: the same for the same sources, another one for each change of what is built or installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fikitd.base import build

from fikitd import __version__, _core
from scripts.build_id import FOLDERS, build_id, sources

ROOT = Path(__file__).resolve().parents[3]
LEFT_OUT = {".md", ".pyc", ".typed", ".clang-format"}  # say nothing to a compiler or to Python


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources, and what there is beside them, somewhere else and of another time."""
    for path in (*sources(ROOT), ROOT / "shim" / "README.md"):
        target = tmp_path / "elsewhere" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return tmp_path / "elsewhere"


def test_the_same_sources_are_the_same_build_wherever_they_are(tree: Path) -> None:
    assert build_id(tree) == build_id(ROOT)
    (tree / "shim" / "README.md").write_text("another")
    (tree / "fikitd" / "fikitd" / "__pycache__").mkdir()
    (tree / "fikitd" / "fikitd" / "__pycache__" / "job.cpython-311.pyc").touch()
    (tree / "fikitd" / "fikitd" / "job.py.orig").touch()
    assert build_id(tree) == build_id(ROOT)


@pytest.mark.parametrize(
    "name",
    ["fikitd/fikitd/jobs/job.py", "wrapper/fikit/cli.py", "fikitd/core/policy/budget.cpp", "shim/gate/gate.h", "shim/loader/entry_x86_64.S",
     "slurm_plugin/lua/job_submit.lua", "wrapper/fikit/page/job.html", "wrapper/fikit/page/style.css", "driver_api/versions.csv", "cmake/settings.cmake", "CMakeLists.txt", "pyproject.toml"],
)  # fmt: skip
def test_each_change_of_what_is_built_is_another_build(tree: Path, name: str) -> None:
    before = build_id(tree)
    with (tree / name).open("a") as file:
        file.write(" ")
    assert build_id(tree) != before


def test_a_file_of_another_name_and_one_less_are_other_builds(tree: Path) -> None:
    before = build_id(tree)
    file = (tree / "fikitd/fikitd/jobs/job.py").rename(tree / "fikitd/fikitd/jobs/joa.py")
    renamed = build_id(tree)
    file.unlink()
    assert len({before, renamed, build_id(tree)}) == 3


def test_no_kind_of_source_is_forgotten() -> None:
    counted = set(sources(ROOT))
    there = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert {path.suffix or path.name for path in there - counted} <= LEFT_OUT


@pytest.mark.starts_processes
def test_what_is_compiled_is_written_only_when_it_changes(tmp_path: Path) -> None:
    program, target = ROOT / "scripts" / "build_id.py", tmp_path / "build_id.cpp"
    subprocess.run([sys.executable, program, target], check=True)
    assert build_id(ROOT) in target.read_text()
    first = target.stat().st_mtime_ns
    subprocess.run([sys.executable, program, target], check=True)
    assert target.stat().st_mtime_ns == first
    target.write_text(target.read_text().replace(build_id(ROOT), "0123456789"))
    subprocess.run([sys.executable, program, target], check=True)
    assert build_id(ROOT) in target.read_text()


@pytest.mark.starts_processes
def test_python_says_what_the_native_core_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{10}", _core.BUILD)
    assert build.identity() == f"{__version__}+{_core.BUILD}"
    places = {program: [Path(sys.executable).parent / program] for program in ("fikit", "fikit-report", "fikitd")}
    for program, command in {**places, "bench": [Path(sys.executable), "-m", "bench"]}.items():
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout == f"{program} {build.identity()}\n"
    monkeypatch.setitem(sys.modules, "fikitd._core", None)
    build.identity.cache_clear()
    assert build.identity() == __version__
    build.identity.cache_clear()
