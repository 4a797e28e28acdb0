"""Which fikit this is: one number of all sources that are built or installed, the same wherever and however often they are built.

As a program, it writes the number as C++ for fikitd._core, the one place that has it: Python asks there (`fikitd.base.build`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("cmake", "driver_api", "emulator", "fikitd", "shim", "slurm_plugin", "wrapper")
FILES = ("CMakeLists.txt", "pyproject.toml")
# Not what an editor, Python or a merge leaves behind.
KINDS = frozenset(
    (
        ".S",
        ".c",
        ".cmake",
        ".cpp",
        ".css",
        ".csv",
        ".def",
        ".h",
        ".hpp",
        ".html",
        ".lds",
        ".lua",
        ".map",
        ".py",
        ".pyi",
        ".toml",
        ".txt",
    )
)
DIGITS = 10


def sources(root: Path) -> Iterator[Path]:
    yield from (root / name for name in FILES)
    for folder in FOLDERS:
        yield from (path for path in (root / folder).rglob("*") if path.suffix in KINDS and path.is_file())


def build_id(root: Path) -> str:
    """Of the names below `root` and what the files say, not of their times, nor of where `root` is."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in sources(root)):
        content = path.read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:DIGITS]


def main() -> None:
    target = Path(sys.argv[1])
    text = f'namespace fikit::binding {{\nextern const char kBuild[];\nconst char kBuild[] = "{build_id(Path(__file__).resolve().parent.parent)}";\n}}\n'
    if not target.exists() or target.read_text() != text:  # or all that needs it would be built again
        target.write_text(text)


if __name__ == "__main__":
    main()
