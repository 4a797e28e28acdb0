"""Rows of the parts that have questions and answers, and of the programs' results: flat words of nested answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.gpu.pages.block import Row
from bench.gpu.pages.runs import Found

HEAD = ("question", "answer")
CORRECTNESS = ("program", "its results against those of its first run without fikit or MPS")
KINDS = {"bare": "again without", "managed": "fikit", "mps": "MPS", "managed_mps": "fikit and MPS"}
MOST = 400
"""Characters of an answer in a cell; the file has the rest."""
HIDDEN = "machine"  # a question for readers of the file: paths, devices and capabilities


def rows(part: str) -> Callable[[Found], Iterator[Row]]:
    """A row for each question of the part, answered or not."""

    def found(parts: Found) -> Iterator[Row]:
        for name, entry in (parts.get(part) or {}).items():
            if isinstance(entry, Mapping) and name != HIDDEN:
                answer = words(entry["answer"]) if "answer" in entry else f"no answer: {entry.get('error', '')}"
                yield (name,), (cell(name), cell(answer))

    return found


def correctness(parts: Found) -> Iterator[Row]:
    """A row for each program of the pairs: in which ways of sharing its results are bit-equal."""
    for program, kinds in ((parts.get("pairs") or {}).get("correctness") or {}).items():
        compared = (f"{KINDS.get(kind, kind)}: {_equal(found)}" for kind, found in kinds.items())
        yield (program,), (cell(program), cell("; ".join(compared)))


def _equal(found: Found) -> str:
    if "equal" not in found:
        return f"not compared ({found.get('error', '')})"
    return "equal" if found["equal"] else "**different**"


def words(value: Any, name: str = "") -> str:
    """Nested answers, one after another, as `name.name: value`."""
    if isinstance(value, Mapping):
        inner = (words(each, f"{name}.{key}" if name else str(key)) for key, each in value.items())
        return ", ".join(filter(None, inner))
    said = " ".join(map(_said, value)) or "none" if isinstance(value, list) else _said(value)
    return f"{name}: {said}" if name else said


def _said(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def cell(text: str) -> str:
    """For a table of Markdown: one line without bars, at most MOST characters."""
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= MOST else f"{line[:MOST]} ..."
