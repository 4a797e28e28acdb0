"""Sentences of documents that state a fact of a real GPU, and whether the runs say the same.

A hidden mark follows the sentence, or ends the last cell of a table's row:

    A switch takes 0.23 ms. <!-- measured: slices / chains_full / switch_ns / p50 = 0.23 ms -->

The names before the relation lead into the `parts` of a run's file; a cell of the pairs is `pairs / HIGH + LOW / closed / WAY / KEY`. The relation is `=`,
`<=` or `>=`. The value is a figure as the sentence has it, with `ns`, `us`, `ms`, `s`, `%` or no unit; or `yes`, `no` or a word; or `absent`: no run has it.
`1 +` before the names adds 1. Several facts stand in one mark with `;` between them. The newest run that has a fact decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.pages.pairs import measured
from bench.gpu.pages.runs import Found, Run
from bench.record import ROOT

DOCUMENTS = ("README.md", "docs/admin.md", "docs/user.md", "docs/security.md", "docs/measured.md")
MODEL = "NVIDIA H200"
"""The GPU that the documents speak of. A run on another model neither proves nor contradicts a sentence."""
MARK = re.compile(r"<!-- measured: (.+?) -->")
FACT = re.compile(r"^(1 \+ )?(.+?) (=|<=|>=) (.+)$")
FIGURE = re.compile(r"^(-?[\d,]*\.?\d+) ?(ns|us|ms|s|%)?$")
UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
ABSENT = "absent"
SLACK = 0.1
"""A figure may move by a tenth: runs of seconds differ by that much. A ratio's figure is its part beyond 1."""


@dataclass(frozen=True)
class Claim:
    """One fact of one sentence."""

    document: str
    sentence: str
    path: tuple[str, ...]
    relation: str
    value: str
    added: int = 0  # to the measured figure

    def __str__(self) -> str:
        return f"{'1 + ' if self.added else ''}{' / '.join(self.path)} {self.relation} {self.value}"


def claims(document: str, text: str) -> Iterator[Claim]:
    """The marked facts of a document, in their order. ValueError for a mark that cannot be read, or whose figure the sentence does not have."""
    for line in text.splitlines():
        for mark in MARK.finditer(line):
            sentence = _sentence(line, mark.start())
            for fact in mark[1].split("; "):
                found = FACT.match(fact.strip())
                if not found:
                    raise ValueError(f"{document}: couldn't read the mark {fact!r}: it has no relation and value")
                claim = Claim(document, sentence, tuple(found[2].split(" / ")), found[3], found[4], bool(found[1]))
                figure = FIGURE.match(claim.value)
                if figure and claim.relation == "=" and not _says(sentence, figure):
                    raise ValueError(f"{document}: {sentence!r} does not have the figure {claim.value} of its mark")
                yield claim


def _sentence(line: str, end: int) -> str:
    """The sentence before the mark, or the table's row around it."""
    if line.startswith("|"):
        return re.sub(r" *<!--.*?--> *", " ", line).strip()
    before = re.sub(r"<!--.*?-->", "", line[:end]).strip()
    return re.split(r"(?<=[.!?])\**\s+(?=\S)", before)[-1].removeprefix("* ")


def _says(sentence: str, figure: re.Match[str]) -> bool:
    number = figure[1].lstrip("0")
    has = re.search(rf"(?<![\d.])0?{re.escape(number)}(?![\d]|\.\d)", sentence)
    return bool(has) and (figure[2] or "") in sentence


def lookup(parts: Found, path: Sequence[str]) -> Any:
    """The value at the path, None where the run has none. A part, a cell or an answer that only failed is none."""
    found: Any = parts
    if path[0] == "pairs" and len(path) > 3:
        pair, kind, way = path[1:4]
        cells = [c for c in measured(parts) if (" + ".join(c["pair"]), c["kind"], c["way"]) == (pair, kind, way)]
        found, path = (cells[-1] if cells else None), path[4:]
    for name in path:
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
            continue
        if isinstance(found, Mapping) and name not in found and isinstance(found.get("answer"), Mapping):
            found = found["answer"]
        found = found.get(name) if isinstance(found, Mapping) else None
    return None if isinstance(found, Mapping) and not set(found) - {"error", "took_s"} else found


def contradicted(document: str, runs: Sequence[Run]) -> list[str]:
    """A line for each fact of the document that the newest run with this fact denies. ValueError as of `claims`."""
    own = [run for run in runs if run.device == MODEL]
    found = (contradiction(claim, own) for claim in claims(document, (ROOT / document).read_text()))
    return [line for line in found if line]


def contradiction(claim: Claim, runs: Sequence[Run]) -> str:
    """A sentence with document, claimed and measured value and file; empty where the newest run that has the fact agrees, or none has it."""
    run = next((run for run in runs if lookup(run.parts, claim.path) is not None), None)
    if run is None:
        return ""
    value = lookup(run.parts, claim.path)
    said = _measured(claim, value)
    if claim.value != ABSENT and _agrees(claim, value):
        return ""
    return f'{claim.document}: "{claim.sentence}" says {claim}, but {run.file.name} has {said}'


def _agrees(claim: Claim, value: Any) -> bool:
    figure = FIGURE.match(claim.value)
    if not figure or isinstance(value, bool) or not isinstance(value, int | float):
        return claim.relation == "=" and claim.value == _word(value)
    said, measured = float(figure[1].replace(",", "")), _in_unit(claim, value)
    if claim.relation != "=":
        return measured <= said if claim.relation == "<=" else measured >= said
    beyond = said - 1 if claim.path[-1].endswith("_ratio") or claim.added else said
    digits = len(figure[1].partition(".")[2])
    return abs(measured - said) <= max(0.5 * 10.0**-digits, SLACK * abs(beyond)) + 1e-9


def _in_unit(claim: Claim, value: float) -> float:
    """The measured figure in the unit of the claim; the names say the file's unit."""
    figure = FIGURE.match(claim.value)
    unit = (figure[2] if figure else "") or ""
    if unit == "%":
        return 100 * (value + claim.added)
    if unit in UNITS_NS:
        ends = [name.rpartition("_")[2] for name in claim.path if name.rpartition("_")[2] in UNITS_NS]
        return value * UNITS_NS[ends[-1] if ends else unit] / UNITS_NS[unit]
    return value + claim.added


def _measured(claim: Claim, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _word(value)
    figure = FIGURE.match(claim.value)
    return f"{_in_unit(claim, value):.4g} {figure[2] or '' if figure else ''}".strip()


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "figures" if isinstance(value, Mapping | list) else str(value)
