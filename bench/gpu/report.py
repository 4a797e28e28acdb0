"""`python -m bench gpu FILE.json[.gz]`: the tables of a run on a GPU (bench/gpu/run.sh), and the device profile that it gives.

The profile is of the format of emulator/profiles: `EMUCUDA_CONFIG=PROFILE` emulates such a device, `fikit sim --device PROFILE`
simulates it. With `--beside`: how pairs of programs shared it, of several runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench import page, record
from bench.gpu import device_profile, measured, shared, tables
from bench.record import ROOT, BenchError, Result

ABOUT = "the tables of a run on a GPU (bench/gpu/run.sh), and its device profile"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.json", help="what bench/gpu/run.sh wrote")
    page.add_argument(parser)
    parser.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw here when kernels of two programs ran; with --beside what the pairs' high programs paid",
    )
    parser.add_argument("--beside", type=Path, nargs="+", metavar="FILE.json",
                        help="only the pairs of programs, of FILE.json and, where it has none in that way, of these")  # fmt: skip
    parser.add_argument("--profile", type=Path, metavar="FILE.toml", help="default: beside FILE.json, with its name")


def place(options: dict[str, Any]) -> str:
    """Of the table, behind the bench's name."""
    return " --beside" if options["beside"] else ""


def run(
    *,
    emulated: bool,
    file: Path,
    profile: Path | None = None,
    svg: Path | None = None,
    beside: list[Path] | None = None,
) -> Result:
    """Prints and writes; BenchError for a file that is none of such a run."""
    document = _document(file)
    if beside:
        runs = [(record.stem(each).rpartition("-")[2], _document(each)) for each in (file, *beside)]
        if svg is not None:
            _write(svg, shared.picture(runs))
        return Result(tables.of(document), bool(document.get("emulated")), {}, {}, table=shared.table(runs))
    target = profile or file.with_name(f"{record.stem(file)}.toml")
    _write(target, device_profile.toml(document, _name(file)))
    if svg is not None:
        _write(svg, measured.turns(document))
    summary = f"{tables.of(document)}\n\nthe device profile is in {target}"
    return Result(summary, bool(document.get("emulated")), {}, {}, table=measured.table(document))


def _document(file: Path) -> dict[str, Any]:
    found = record.read(file)
    if found.get("bench") != "gpu" or "parts" not in found:
        raise BenchError(f"{file} is no file of bench/gpu/run.sh")
    return found


def _write(target: Path, text: str) -> None:
    try:
        target.write_text(text)
    except OSError as error:
        raise BenchError(f"couldn't write {target}: {error.strerror}") from error


def _name(file: Path) -> str:
    """In the repository from its root, else the name alone: the profile says the same wherever it is made."""
    path = file.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
