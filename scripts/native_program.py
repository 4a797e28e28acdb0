"""A program of a few sources and of what they call of the shim or of fikitd's core: tests and fuzz targets list no product source.

The last build says which source defines a symbol and how that source is compiled (CMakeLists.txt is the one list of sources). A source becomes
part of the program if an object refers to one of its symbols and none defines it, as a linker takes members of an archive: so a program's own
function stands in for the product's. All sources are compiled anew, with the caller's flags.

native_program.py PROGRAM SOURCE... [-- FLAG...]: the flags are for compiler and linker; the compilers are $CC and $CXX.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "native"
LIBRARIES = re.compile(r"(shim|fikitd/core)/CMakeFiles/fikit_\w+\.dir/")
MEANING = re.compile(r"-I|-std=|-D(?!NDEBUG$)(?!\w+_EXPORTS$)")  # of flags: what a source means with them
STRONG, WEAK, UNDEFINED = "ABCDGRST", "VWu", "U"  # nm's letters


class ProgramError(Exception):
    """Why there is no program."""


@dataclass(frozen=True)
class Product:
    """The sources of the shim and the core."""

    defining: dict[str, Path]  # symbol -> the source that defines it
    flags: dict[Path, tuple[str, ...]]  # source -> its include directories, definitions and language standard

    def flags_of(self, source: Path) -> tuple[str, ...]:
        """Of a source that is not the product's: those of all sources of its language."""
        alike = (flags for each, flags in self.flags.items() if each.suffix == source.suffix)
        return self.flags.get(source) or tuple(dict.fromkeys(flag for flags in alike for flag in flags))


def symbols(objects: Sequence[Path], kinds: str) -> list[tuple[Path, str, str]]:
    """(object, symbol, kind) of those kinds."""
    nm = shutil.which("gcc-nm") or "nm"  # it reads what was compiled for link-time optimization, too
    listed = subprocess.run([nm, "-A", "-P", *objects], capture_output=True, text=True, check=True).stdout
    split = (line.rpartition(": ") for line in listed.splitlines())
    words = ((Path(path), *rest.split()[:2]) for path, _, rest in split)
    return [(path, name, kind) for path, name, kind in words if kind in kinds]


@cache
def product() -> Product:
    """As of the last build."""
    try:
        commands = json.loads((BUILD / "compile_commands.json").read_text())
    except OSError as error:
        raise ProgramError(f"couldn't read how the product is compiled ({error}): run make build") from None
    built = {
        BUILD / entry["output"]: entry
        for entry in commands
        if LIBRARIES.match(entry["output"]) and Path(entry["file"]).suffix in {".c", ".cpp"}
    }
    sources = {target: Path(entry["file"]).resolve() for target, entry in built.items()}
    there = [target for target in sources if target.exists()]
    found = symbols(there, STRONG + WEAK)
    defining = {name: sources[target] for target, name, _ in sorted(found, key=lambda each: each[2] in STRONG)}
    flags = {
        sources[target]: tuple(word for word in shlex.split(entry["command"]) if MEANING.match(word))
        for target, entry in built.items()
    }
    return Product(defining, flags)


@dataclass
class _Program:
    directory: Path
    flags: Sequence[str]
    compilers: tuple[str, str]
    headers: Sequence[str]
    objects: dict[Path, Path] = field(default_factory=dict)  # source -> object
    defined: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)

    def compiler(self, source: Path) -> str:
        return self.compilers[source.suffix == ".cpp"]

    def precompile(self) -> None:
        """The headers, for all C++ sources: with few optimizations most of the compiler's time goes into the standard library's."""
        header = self.directory / "headers.hpp"
        header.write_text("".join(f"#include <{name}>\n" for name in self.headers))
        own = [*self.flags, *product().flags_of(header.with_suffix(".cpp"))]
        run([self.compilers[1], *own, "-x", "c++-header", header, "-o", f"{header}.gch"])

    def compile(self, source: Path) -> Path:
        target = self.directory / f"{source.parent.name}-{source.stem}.o"
        same = ["-include", self.directory / "headers.hpp"] if self.headers and source.suffix == ".cpp" else []
        run([self.compiler(source), *product().flags_of(source), *self.flags, *same, "-c", source, "-o", target])
        return target

    def learn(self, target: Path) -> None:
        for _, name, kind in symbols([target], STRONG + WEAK + UNDEFINED):
            (self.wanted if kind in UNDEFINED else self.defined).add(name)

    def missing(self) -> set[Path]:
        """Sources of the product that are not part of the program, and define what is referred to and not defined."""
        names = (name.removeprefix("__real_") for name in self.wanted - self.defined)  # of the linker's --wrap
        found = {product().defining[name] for name in names if name in product().defining}
        return found - self.objects.keys()

    def collect(self, sources: Iterable[Path]) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            running: dict[Future[Path], Path] = {}
            waiting = list(sources)
            own = len(waiting)  # all of these first: what they define is not taken from the product
            while waiting or running:
                for source in waiting:
                    self.objects[source] = self.directory
                    running[pool.submit(self.compile, source)] = source
                over, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in over:
                    self.objects[running.pop(each)] = each.result()
                    own -= 1
                    self.learn(each.result())
                waiting = [] if own > 0 else sorted(self.missing())


def run(command: Sequence[str | Path]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProgramError(f"couldn't start a compiler: {error}") from None
    if done.returncode != 0:
        raise ProgramError(f"{shlex.join(map(str, command))}\n{done.stderr}")


def build(
    program: Path,
    sources: Iterable[Path],
    flags: Sequence[str] = (),
    *,
    link: Sequence[str] = (),
    headers: Sequence[str] = (),
    compilers: tuple[str, str] = ("cc", "c++"),
) -> Path:
    """Compiles and links `program`; objects go into a directory beside it. link: flags for the linker alone. headers: of the standard library,
    compiled once for all C++ sources. Raises ProgramError with the compiler's or the linker's words."""
    chosen = [source.resolve() for source in sources]
    directory = program.with_name(f"{program.name}.objects")
    directory.mkdir(parents=True, exist_ok=True)
    parts = _Program(directory, flags, compilers, headers)
    if headers:
        parts.precompile()
    parts.collect(chosen)
    linker = compilers[any(source.suffix == ".cpp" for source in parts.objects)]
    run([linker, *flags, *link, "-pthread", "-o", program, *parts.objects.values()])
    return program


def main(words: Sequence[str]) -> int:
    own, flags = (list(words[: words.index("--")]), words[words.index("--") + 1 :]) if "--" in words else (words, ())
    try:
        compilers = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
        build(Path(own[0]), map(Path, own[1:]), flags, compilers=compilers)
    except ProgramError as error:
        print(f"native_program: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
