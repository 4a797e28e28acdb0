"""Sentences that state a fact of a real GPU say what the newest run says that has the fact (bench/gpu/pages/claims.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from gpu_run_samples import a_cell, a_run

from bench.gpu import calls
from bench.gpu.pages import claims, pairs, runs
from bench.gpu.pages.claims import DOCUMENTS, Claim
from bench.record import ROOT

MARKED = re.compile(r"<!-- (measured: .+?|simulated) -->")
SOURCES = "".join(path.read_text() for path in (ROOT / "bench/gpu").rglob("*") if path.suffix in {".py", ".c", ".h"})


@cache
def kept() -> list[runs.Run]:
    return runs.kept()


def stated(document: str) -> list[Claim]:
    return list(claims.claims(document, (ROOT / document).read_text()))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_run_contradicts_a_sentence(document: str) -> None:
    """Correct the sentence and the figure in its mark, or the mark where the sentence no longer says so."""
    assert claims.contradicted(document, kept()) == []


def test_a_run_on_another_gpu_contradicts_nothing() -> None:
    fast = {"chains": {"switch_ns": {"p50": 1}}, "chains_full": {"switch_ns": {"p50": 1}}}
    assert claims.contradicted("README.md", [a_run("x", slices=fast)]) != []
    assert claims.contradicted("README.md", [a_run("x", device="NVIDIA H100", slices=fast)]) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_mark_names_a_fact_that_a_run_can_have(document: str) -> None:
    """So that a misspelt name does not leave a sentence without its test."""
    assert [str(claim) for claim in stated(document) if not (found(claim) or possible(claim))] == []


def found(claim: Claim) -> bool:
    return any(claims.lookup(run.parts, claim.path) is not None for run in kept())


def possible(claim: Claim) -> bool:
    """Whether the kit writes a part with these names."""
    part, *names = claim.path
    if part != "pairs":
        return part in calls.PARTS and all(f'"{name}"' in SOURCES or name.isdigit() for name in names)
    pair, kind, way, *key = names
    known = tuple(pair.split(" + ")) in pairs.PAIRS and kind in {"closed", "arrivals"} and way in pairs.NAMES
    return known and set(key[:1]) <= set(a_cell(way, 1, 1))


def test_a_misspelt_name_is_noticed() -> None:
    for path in ("slumr", "questions / server began", "pairs / decode + batch / closed / budget_msp", f"{PATH} / jct"):
        (claim,) = claims.claims("page.md", f"Never. <!-- measured: {path} = absent -->")
        assert not any((found(claim), possible(claim)))


def sentences(document: str) -> Iterator[tuple[str, str, bool]]:
    """Each sentence or row: the heading above, the text without links, code and marks, and whether a mark follows."""
    heading = ""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(), flags=re.M | re.S)
    text = re.sub(r"<!-- python -m bench .*?<!-- end -->", "", text, flags=re.S)
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line
            continue
        parts = [line] if line.startswith("|") else re.split(r"(?<=[.!?])\**\s+(?=[^\s<])", line)
        for part in parts:
            bare = re.sub(r"\]\([^)]*\)|`[^`]*`|<!--.*?-->", " ", part)
            yield heading, bare, bool(MARKED.search(part))


@pytest.mark.parametrize("document", ["README.md", "docs/admin.md", "docs/user.md", "docs/security.md"])
def test_a_sentence_with_a_figure_of_the_gpu_is_marked(document: str) -> None:
    """With its facts, or as `simulated`."""
    unmarked = [
        sentence
        for heading, sentence, is_marked in sentences(document)
        if ("H200" in sentence or "H200" in heading)
        and re.search(r"(?<![\w.])\.?\d", sentence.replace("H200", ""))
        and not is_marked
    ]
    assert unmarked == []


PATH = "pairs / decode + batch / arrivals / budget"
OLD = a_run("a", pairs={"cells": [a_cell("budget", 1.032, 0.12, kind="arrivals")]}, slices={"chains": {"switch_ns": {"p50": 225_020}}},
            questions={"server begins": {"answer": {"knows_multiuser": True, "states": ["READY"]}}})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "new", "says"),
    [
        (f"The low one runs at 12 %. <!-- measured: {PATH} / low_speed = 12 % -->",
         {"pairs": {"cells": [a_cell("budget", 1.032, 0.31, kind="arrivals")]}},
         f'page.md: "The low one runs at 12 %." says {PATH} / low_speed = 12 %, but gpu-b.json.gz has 31 %'),
        (f"First. **It takes 1.032 times as long.** <!-- measured: {PATH} / jct_ratio = 1.032 -->",
         {"pairs": {"cells": [a_cell("budget", 1.04, 0.12, kind="arrivals")]}}, "has 1.04"),
        (f"| row | 5 % <!-- measured: {PATH} / jct_ratio <= 1.05 --> | more |",
         {"pairs": {"cells": [a_cell("budget", 1.06, 0.12, kind="arrivals")]}}, 'page.md: "| row | 5 % | more |" says'),
        (f"It has low work. <!-- measured: {PATH} / low_speed >= 0.1 -->",
         {"pairs": {"cells": [a_cell("budget", 1.03, 0.05, kind="arrivals")]}}, "has 0.05"),
        ("A switch takes 225 us. <!-- measured: slices / chains / switch_ns / p50 = 225 us -->",
         {"slices": {"chains": {"switch_ns": {"p50": 260_000.0}}}}, "has 260 us"),
        ("A switch takes 0.23 ms. <!-- measured: slices / chains / switch_ns / p50 = 0.23 ms -->",
         {"slices": {"chains": {"switch_ns": {"p50": 1_000}}}}, "has 0.001 ms"),
        ("The driver knows the flag. <!-- measured: questions / server begins / knows_multiuser = yes -->",
         {"questions": {"server begins": {"answer": {"knows_multiuser": False}}}}, "has no"),
        ("The server gets ready. <!-- measured: questions / server begins / states / 0 = READY -->",
         {"questions": {"server begins": {"answer": {"states": ["FAULT"]}}}}, "has FAULT"),
        ("Never with its own MPS. <!-- measured: pairs / decode + batch / arrivals / budget_mps = absent -->",
         {"pairs": {"cells": [a_cell("budget_mps", 1.03, 0.7, kind="arrivals")]}}, "has figures"),
        ("Not under Slurm. <!-- measured: slurm = absent -->", {"slurm": {"jobs": []}}, "has figures"),
    ],
)  # fmt: skip
def test_a_new_file_that_contradicts_a_sentence_is_named_with_it(text: str, new: dict[str, Any], says: str) -> None:
    (claim,) = claims.claims("page.md", text)
    assert not claims.contradiction(claim, [OLD])
    assert says in claims.contradiction(claim, [a_run("b", **new), OLD])


def test_the_newest_run_that_has_the_fact_decides() -> None:
    (claim,) = claims.claims("page.md", f"It runs at 12 %. <!-- measured: {PATH} / low_speed = 12 % -->")
    failed = a_run("b", pairs={"cells": [{**a_cell("budget", 1, 0.5, kind="arrivals"), "error": "hung"}]}, slurm={"error": "no"})  # fmt: skip
    assert not claims.contradiction(claim, [failed, OLD])
    (slurm,) = claims.claims("page.md", "Not under Slurm. <!-- measured: slurm = absent -->")
    assert not claims.contradiction(slurm, [failed, OLD])


@pytest.mark.parametrize(("measured", "agrees"), [(0.12, True), (0.1315, True), (0.1085, True), (0.134, False), (0.106, False)])  # fmt: skip
def test_a_figure_may_move_by_a_tenth(measured: float, agrees: bool) -> None:
    (claim,) = claims.claims("page.md", f"It runs at 12 %. <!-- measured: {PATH} / low_speed = 12 % -->")
    run = a_run("b", pairs={"cells": [a_cell("budget", 1, measured, kind="arrivals")]})
    assert (claims.contradiction(claim, [run]) == "") == agrees


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("It runs at 13 %. <!-- measured: slices / a = 12 % -->", "does not have the figure 12 %"),
        ("It runs at 112 %. <!-- measured: slices / a = 12 % -->", "does not have the figure 12 %"),
        ("It takes 1.25 us. <!-- measured: slices / a = 1.2 us -->", "does not have the figure 1.2 us"),
        ("It takes 1.2 us. <!-- measured: slices / a = 1.2 ms -->", "does not have the figure 1.2 ms"),
        ("It takes 12. And more. <!-- measured: slices / a = 12 -->", "'And more.' does not have"),
        ("It runs. <!-- measured: slices / a -->", "has no relation and value"),
    ],
)
def test_a_mark_that_its_sentence_does_not_bear_out_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        list(claims.claims("page.md", text))
