"""`make release VERSION=0.2.0`: what is in the working tree becomes that version, in dist/.

1. The version goes into fikitd/fikitd/__init__.py (the one place that has it), and what CHANGELOG.md has under "Unreleased" into a
   section of the version's own.
2. dist/ gets the source distribution, a wheel, and Debian and RPM packages for the system's Slurm, which are tried in a clean Debian
   (`make deb-test`; root).
3. Then the packages for each other release line of Slurm whose headers are here: those that `fikit sandbox --slurm LINE` has made.
4. dist/SHA256SUMS, and the two git commands that are left to a person.

Nothing is committed, tagged or uploaded. Errors are one sentence, before anything is changed where that can be.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from fikit.sandbox.slurm_root import RELEASES

ROOT = Path(__file__).resolve().parents[1]
DIST = Path("dist")
VERSION_FILE, CHANGELOG = Path("fikitd/fikitd/__init__.py"), Path("CHANGELOG.md")
SYSTEM = Path("/usr/include")
UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
Run = Callable[[list[str]], None]


class ReleaseError(Exception):
    """Why there is no release, in one sentence."""


def numbers(version: str) -> tuple[int, ...]:
    """Raises ReleaseError where it is not three numbers."""
    if not _FORM.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version: give three numbers, make release VERSION=0.2.0")
    return tuple(map(int, version.split(".")))


def with_version(text: str, version: str) -> str:
    """The text of VERSION_FILE, of this version. Raises ReleaseError where it would go back."""
    found = _VERSION.search(text)
    if found is None:
        raise ReleaseError(f'{VERSION_FILE} names no version: it needs a line __version__ = "0.1.0"')
    if numbers(version) < numbers(found[1]):
        raise ReleaseError(f"{version} is older than {found[1]}, which {VERSION_FILE} has: give a newer one")
    return _VERSION.sub(f'__version__ = "{version}"', text)


def with_section(text: str, version: str, today: date) -> str:
    """The changelog, with what was unreleased under the version. Raises ReleaseError where there is nothing, or it is there already."""
    if f"\n## {version} " in text:
        raise ReleaseError(f"{CHANGELOG} has {version} already: give a newer version")
    before, heading, after = text.partition(UNRELEASED)
    news = after.partition("\n## ")[0]
    if not heading or not news.strip():
        raise ReleaseError(f'{CHANGELOG} has nothing under "Unreleased": say there what is new')
    return f"{before}{heading}\n## {version} ({today.isoformat()})\n{after}"


def headers() -> Iterator[tuple[str, Path]]:
    """Release line of Slurm, and the folder of its headers: of the system, and of the sandboxes that were made."""
    folders = [SYSTEM, *(release.root / "usr/include" for release in RELEASES.values())]
    seen: set[str] = set()
    for folder in folders:
        line = line_of(folder / "slurm/slurm_version.h")
        if line and line not in seen:
            seen.add(line)
            yield line, folder


def line_of(header: Path) -> str | None:
    """22.05, by Slurm's own number in its header; None where there is none."""
    try:
        found = re.search(r"SLURM_VERSION_NUMBER\s+0x(\w{2})(\w{2})\w{2}", header.read_text(errors="replace"))
    except OSError:
        return None
    return f"{int(found[1], 16):02}.{int(found[2], 16):02}" if found else None


def sums(folder: Path) -> str:
    """As sha256sum writes them, and `sha256sum --check` reads."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def build(run: Run) -> list[str]:
    """Fill DIST; returns the release lines of Slurm that have packages."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    run([sys.executable, "-c", f"from scikit_build_core.build import build_sdist; build_sdist({str(DIST)!r})"])
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", str(DIST), "."])
    run(
        ["make", "--no-print-directory", "deb-test"]
    )  # of all that lies in dist/: the other lines' packages come after it
    lines = list(headers())
    for line, folder in lines:
        if folder != SYSTEM:
            run(
                ["make", "--no-print-directory", "deb", "rpm", f"SLURM_INCDIR={folder}", f"OUT=out/slurm-plugin-{line}"]
            )
    return [line for line, _ in lines]


def main(words: list[str], run: Run, today: date) -> int:
    try:
        if len(words) != 1:
            raise ReleaseError("name the version: make release VERSION=0.2.0")
        numbers(words[0])
        version = words[0]
        dirty = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
        if dirty.strip():
            raise ReleaseError("the working tree has changes that are not committed: commit or stash them")
        texts = {
            VERSION_FILE: with_version(VERSION_FILE.read_text(), version),
            CHANGELOG: with_section(CHANGELOG.read_text(), version, today),
        }
        for path, text in texts.items():
            path.write_text(text)
        run(["make", "--no-print-directory", "build"])
        lines = build(run)
        (DIST / "SHA256SUMS").write_text(sums(DIST))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: {' '.join(error.cmd)} failed, see above: nothing was committed", file=sys.stderr)
        return 1
    print(
        f"release: {version} is in {DIST}/, for Slurm {', '.join(lines)}, and passed in a clean Debian. What is left:"
    )
    print(f"  git commit -am 'Version {version}' && git tag -a v{version} -m 'fikit {version}'")
    return 0


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _run, date.today()))
