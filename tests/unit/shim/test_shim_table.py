"""The one table of what the shim does with the driver's calls: nothing that enqueues work is missing from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shim_table import ROOT, SYMBOLS, TABLE, entry_table

# By the driver's own naming, and without looking at the table: calls with a stream flavour, asynchronous ones, launches,
# copies, fills, and what orders streams, contexts or other devices' work.
ENQUEUES = re.compile(
    r"cu(Launch|GraphLaunch|GraphUpload|Memcpy|Memset|MemPrefetch|Stream(Wait|Write|BatchMemOp|AddCallback)"
    r"|(Ctx|GreenCtx)(Record|Wait)Event|EventRecord|Graphics(Map|Unmap)Resources|GL(Map|Unmap)BufferObject"
    r"|EGLStream(Consumer|Producer)(Acquire|Release|Present|Return))"
)


def enqueuing() -> set[str]:
    flavoured = {entry_table.name_of(symbol) for symbol in SYMBOLS if symbol.endswith(("_ptsz", "_ptds"))}
    return {
        symbol
        for symbol in SYMBOLS
        if entry_table.name_of(symbol) in flavoured
        or entry_table.name_of(symbol).endswith("Async")
        or ENQUEUES.match(symbol)
    }


def test_every_call_that_enqueues_work_is_in_the_table() -> None:
    assert len(enqueuing()) > 200
    assert enqueuing() - set(TABLE.handled) - set(TABLE.passed) == set()


def test_every_way_to_begin_or_end_a_capture_is_handled() -> None:
    captures = {symbol for symbol in SYMBOLS if re.match(r"cuStream(Begin|End)(Re)?[Cc]apture", symbol)}
    assert len(captures) >= 14
    assert {TABLE.handled.get(symbol) for symbol in captures} == {"CAPTURE"}


def test_every_launch_is_gated_but_those_with_a_reason() -> None:
    launches = {symbol for symbol in SYMBOLS if re.match(r"cu(Launch|GraphLaunch)", symbol)}
    gated = {symbol for symbol, treatment in TABLE.handled.items() if treatment == "GATE"}
    assert launches - gated == {
        "cuLaunchHostFunc",
        "cuLaunchHostFunc_ptsz",
        "cuLaunchHostFunc_v2",
        "cuLaunchHostFunc_v2_ptsz",
    } & set(TABLE.passed)


def test_calls_are_handled_in_every_stream_flavour() -> None:
    """And passed in every flavour: only NULL means another stream there, which is no reason to treat it otherwise."""
    for symbol in SYMBOLS:
        plain = re.sub(r"_pt(sz|ds)$", "", symbol)
        if plain != symbol and TABLE.passed.get(symbol) != "INLINE":
            assert TABLE.handled.get(symbol) == TABLE.handled.get(plain), symbol
            assert TABLE.passed.get(symbol) == TABLE.passed.get(plain), symbol


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("HANDLED(cuLaunchNothing, GATE)", "not names of the driver: cuLaunchNothing"),
        ("HANDLED(cuLaunch, GUESS)", "treatments without words: GUESS"),
        ("PASSED(cuLaunch, WHIM)", "reasons without words: WHIM"),
        (
            ' *   GATE      waits\nREASON(SO, "so")\nHANDLED(cuLaunch, GATE)\nPASSED(cuLaunch, SO)',
            "and passed: cuLaunch",
        ),
    ],
)
def test_table_that_contradicts_itself_does_not_build(rows: str, fault: str, tmp_path: Path) -> None:
    definition = tmp_path / "entry_points.def"
    definition.write_text(rows)
    with pytest.raises(ValueError, match=fault):
        entry_table.Table.read(definition, SYMBOLS)


def test_docs_are_generated_from_the_table() -> None:
    page = (ROOT / "docs" / "design" / "interception.md").read_text()
    assert entry_table.update(page, TABLE) == page, "run: python shim/entry_table.py docs/design/interception.md"
