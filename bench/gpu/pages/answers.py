"""Rows of the parts that have questions and answers, and of the programs' results: flat words of nested answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.gpu.pages.block import Row
from bench.gpu.pages.runs import Found

HEAD = ("question", "answer")
CORRECTNESS = ("program", "its results against those of its first run without fikit or MPS")
KINDS = {"bare": "again without", "managed": "fikit", "mps": "MPS", "managed_mps": "fikit and MPS"}
MOST = 600
"""Characters of an answer in a cell; the file has the rest."""
CLIENT = ("pid", "cuInit", "cuInit_ms", "mps", "open", "open_ms", "stream_ops", "sync")
"""What a client says of its begin (mps_client.py)."""
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
    """Nested answers, one after another, as `name.name: value`. A client that begins says in a word how far it came."""
    if isinstance(value, Mapping):
        begun = [_begun(value)] if "cuInit" in value else []
        inner = [
            words(each, f"{name}.{key}" if name else str(key))
            for key, each in value.items()
            if not (begun and key in CLIENT)
        ]
        return ", ".join(filter(None, [*(f"{name}: {word}" if name else word for word in begun), *inner]))
    said = " ".join(map(_said, value)) or "none" if isinstance(value, list) else _said(value)
    return f"{name}: {said}" if name else said


def _begun(client: Found) -> str:
    for call in ("cuInit", "open", "sync"):
        if client.get(call):
            return f"{call} says {client[call]}"
    return "under MPS" if client.get("mps") else "outside MPS"


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
