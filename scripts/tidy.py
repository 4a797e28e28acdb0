"""clang-tidy on the project's C and C++ files, except those that passed before as they are.

A file counts as unchanged when its own text, every project header that it includes (as the compiler saw them in the last
build), its compile command and .clang-tidy are. Stamps lie in the user's cache, so that checkouts share them.

tidy.py [FILE...]: all files, or of those only the ones that are given (relative to the checkout).
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "native"
CHECKED = ("emulator", "shim", "fikitd/core", "slurm_plugin")
# The path-sensitive analyzer takes most of the time: for what is loaded into jobs or runs as root, not for the test device.
NOT_ANALYZED = ("emulator",)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fikit" / "tidy"


def included(build: Path) -> dict[Path, list[Path]]:
    """Source -> the project's files that its objects were compiled from, itself first; from ninja's log of the build."""
    log = subprocess.run(
        [Path(sys.executable).with_name("ninja"), "-C", build, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[Path, list[Path]] = {}
    for block in log.split("\n\n"):
        names = [(build / line.strip()).resolve() for line in block.splitlines()[1:]]
        ours = [name for name in names if name.is_relative_to(ROOT) and not name.is_relative_to(ROOT / ".venv")]
        if ours:
            found.setdefault(ours[0], []).extend(ours)
    return found


def stamp(source: Path, command: str, includes: list[Path]) -> Path:
    """Path of the file that exists when `source` has passed in this very form."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + command.replace(str(ROOT), "").encode())
    for name in [source, *sorted(set(includes))]:
        digest.update(name.read_bytes() if name.exists() else b"gone")
    return CACHE / digest.hexdigest()[:32]


def passes(source: Path, marks: list[Path]) -> bool:
    """Runs clang-tidy on one file, once with each of its compile commands; prints what it says when it is not content."""
    analyzed = not any(source.is_relative_to(ROOT / folder) for folder in NOT_ANALYZED)
    checks = [] if analyzed else ["--checks=-clang-analyzer-*"]
    command = ["clang-tidy", "--quiet", *checks, "-p", BUILD, source]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(run.stdout, flush=True)
        return False
    for mark in marks:
        mark.touch()
    return True


def main(names: list[str]) -> int:
    """Exit status 1 when a file has a finding."""
    wanted = {ROOT / name for name in names}
    CACHE.mkdir(parents=True, exist_ok=True)
    includes = included(BUILD)
    waiting: dict[Path, list[Path]] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        source = (Path(entry["directory"]) / entry["file"]).resolve()
        if source.suffix in (".c", ".cpp") and any(source.is_relative_to(ROOT / folder) for folder in CHECKED):
            if wanted and source not in wanted:
                continue
            mark = stamp(source, entry["command"], includes.get(source, []))
            if not mark.exists():
                waiting.setdefault(source, []).append(mark)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(passes, waiting.keys(), waiting.values()))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
