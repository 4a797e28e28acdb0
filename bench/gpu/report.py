"""`python -m bench gpu FILE.json[.gz]`: the tables of a run on a GPU (bench/gpu/run.sh), and the device profile that it gives.

The profile is of the format of emulator/profiles: `EMUCUDA_CONFIG=PROFILE` emulates such a device, `fikit sim --device PROFILE`
simulates it. `python -m bench gpu --page docs/measured.md` makes the page's tables and pictures anew, of all runs in bench/results,
and names the sentences of documents that these runs contradict.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import record
from bench.gpu.pages import blocks, claims, device_profile, runs, tables
from bench.record import ROOT, BenchError, Result

ABOUT = "the tables of a run on a GPU (bench/gpu/run.sh), and its device profile; or a page's blocks of all runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", type=Path, nargs="?", metavar="FILE.json", help="what bench/gpu/run.sh wrote")
    what.add_argument(
        "--page", type=Path, metavar="FILE.md", dest="blocks_of",
        help="write its blocks and the pictures beside it, of the runs in bench/results: each figure of the newest run that has it",
    )  # fmt: skip
    parser.add_argument("--profile", type=Path, metavar="FILE.toml", help="default: beside FILE.json, with its name")


def run(*, emulated: bool, file: Path | None = None, blocks_of: Path | None = None, profile: Path | None = None) -> Result:  # fmt: skip
    """Prints and writes; BenchError for a file that is none of such a run."""
    if blocks_of is not None:
        found = runs.kept()
        lines = blocks.write(blocks_of, found)
        lines += [line for document in claims.DOCUMENTS for line in claims.contradicted(document, found)]
        return Result("\n".join(lines), False, {}, {})
    assert file is not None
    document = runs.read(file)
    target = profile or file.with_name(f"{record.stem(file)}.toml")
    try:
        target.write_text(device_profile.toml(document, _name(file)))
    except OSError as error:
        raise BenchError(f"couldn't write {target}: {error.strerror}") from error
    summary = f"{tables.of(document)}\n\nthe device profile is in {target}"
    return Result(summary, bool(document.get("emulated")), {}, {})


def _name(file: Path) -> str:
    """In the repository from its root, else the name alone: the profile says the same wherever it is made."""
    path = file.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
