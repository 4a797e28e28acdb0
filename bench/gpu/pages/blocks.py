"""The generated blocks and pictures of docs/measured.md, and how a page gets them.

A block stands between `<!-- python -m bench gpu: NAME -->` and `<!-- end -->`. A block without data is empty, so that a reader sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import page as pages
from bench import record
from bench.gpu.pages import answers, facts, pairs, pictures, second
from bench.gpu.pages.block import Block, Legend, Picture, Table
from bench.gpu.pages.runs import Run
from bench.record import BenchError

BLOCKS: dict[str, Block] = {
    "runs": Legend(),
    "facts": Table(facts.HEAD, facts.rows, by_key=True),
    "questions": Table(
        answers.HEAD, answers.rows("questions"), "What the driver and its MPS answer",
        "Each question is a program of its own on the GPU, under MPS where the question names a client or a server.",
    ),
    "dangers": Table(
        answers.HEAD, answers.rows("dangers"), "What happens when a program under MPS fails",
        "These questions can hang a GPU, so that they ran last.",
    ),
    "pairs": Table(pairs.HEAD, pairs.rows, by_key=True),
    "modes": Picture(
        "gpu-modes.svg", pictures.modes, "MPS against time slices",
        "Up is better for the low program, left is better for the high one. Points at 0.1 % are there or below.",
    ),
    "conditions": Table(
        pairs.CONDITIONS, pairs.conditions, "Under which conditions", by_key=True,
        about="The switch is the one that fikitd had timed by the end of the cell; clock and power are NVML's, mean and range over the cell.",
    ),
    "long": Table(
        pairs.HEAD, partial(pairs.rows, part="long_cells"), "For 20 seconds", by_key=True,
        about="As above, for so long that the 99th percentile is of thousands of requests.",
    ),
    "correctness": Table(
        answers.CORRECTNESS, answers.correctness, "Whether results stay the same",
        "Digests of the first requests' results, compared bit by bit. Both programs of a pair compute at the same time.",
    ),
    "shaping": Table(
        second.SHAPING, second.shaping, "When the low kernel takes more shared memory", by_key=True,
        about="Plain MPS, without fikit. fikit itself never changes the parameters of a launch.",
    ),
    "slurm": Table(
        second.SLURM, second.slurm, "Under a real Slurm",
        "Two users and fikit's MPS. One low job is cancelled in the middle of a kernel; later a kernel of another one traps. Times are means of the job's own requests.",
    ),
    "time_slices": Table(
        second.TIME_SLICES, second.time_slices, "The driver's own controls of a time slice",
        "Without MPS and without fikit. Each process controls its own channel groups; no part of fikit makes these calls.",
    ),
}  # fmt: skip
"""In the order of the page."""

PICTURES = {
    "gpu-turns.svg": facts.turns,
    "gpu-pairs.svg": pictures.bars,
    **{each.file: each.draw for each in BLOCKS.values() if isinstance(each, Picture)},
}


def place(name: str) -> str:
    """Of a block, behind `python -m bench` in its marker."""
    return f"gpu: {name}"


def text(page: str, found: Sequence[Run], path: Path) -> str:
    """The page with all blocks anew. Raises BenchError where a block has no place in it."""
    for name, block in BLOCKS.items():
        before, after = pages.split(page, place(name), path)
        page = before + block.make(found).text + after
    return page


def write(path: Path, found: Sequence[Run]) -> list[str]:
    """Write blocks and pictures of the page, and return a line for each. Raises BenchError: before anything is written for runs of the emulated GPU."""
    for run in found:
        if run.document.get("emulated"):
            raise BenchError(
                f"couldn't use {run.file} for {path}: its figures are of the emulated GPU, move the file away"
            )
    if not found:
        raise BenchError(f"couldn't find a run for {path}: put a file of bench/gpu/run.sh into bench/results")
    drawn = {name: draw(found) for name, draw in PICTURES.items()}
    record.write_whole(path, text(pages.content(path), found, path))
    lines = []
    for name, block in BLOCKS.items():
        made = block.make(found)
        rows = f"{made.rows} rows of {', '.join(made.runs)}" if made.runs else "its picture"
        lines.append(f"{name}: {rows if made.text else 'no run has it'}")
    for name, svg in drawn.items():
        if svg:
            record.write_whole(path.parent / "pictures" / name, svg)
        lines.append(f"{name}: {'drawn' if svg else 'no run has it'}")
    return lines
