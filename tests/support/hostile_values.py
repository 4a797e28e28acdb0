"""Values that somebody wrote who wants a reader to fall over, to say what is not so, or to press a key: for property tests."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

TEXTS = (
    "\x1b[2J\x1b]0;owned\x07", "\x9b31m", "a\nfikit: job 1 high: forged", "\r", "[bold red]x[/]", "[/nothing]", ":smile:", "\u202eabc",
    "\ud800", "\0", "%s%n", "x" * 10_000, "../../etc/passwd", "\x7f", "\u2028", "12_3", "12+1", "", "-",
)  # fmt: skip
NUMBERS = (0, -1, 2**63, 2**63 - 1, 10**4000, -(10**400), 1e308, float("inf"), float("nan"), 1e-320, 0.5, True, 2**32)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(TEXTS + NUMBERS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=6,
)


def paths(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [above, *(path for key, value in inner for path in paths(value, (*above, key)))]


@st.composite
def spoiled(draw: st.DrawFn, document: Any) -> Any:
    """`document` with a few places replaced, removed or added to."""
    result = copy.deepcopy(document)
    for path in draw(st.lists(st.sampled_from([path for path in paths(document) if path]), min_size=1, max_size=3)):
        try:
            place = result
            for key in path[:-1]:
                place = place[key]
            how = draw(st.sampled_from(["replace", "remove", "add"]))
            if how == "replace":
                place[path[-1]] = draw(values)
            elif how == "remove":
                del place[path[-1]]
            elif isinstance(place, dict):
                place[draw(st.text(max_size=6))] = draw(values)
        except (KeyError, IndexError, TypeError):
            continue  # another one has changed what is above it
    return result


def strings(document: Any) -> list[str]:
    """Every text in a document, its keys too."""
    if isinstance(document, str):
        return [document]
    inner = (
        [*document, *document.values()]
        if isinstance(document, dict)
        else document
        if isinstance(document, list)
        else []
    )
    return [text for value in inner for text in strings(value)]


def as_bytes(document: Any) -> bytes:
    return json.dumps(document).encode()  # NaN and Infinity as they are: what reads has to refuse them


# Bytes of all kinds: random, JSON with what is no JSON, cut, nested without end.
junk = st.one_of(
    st.binary(max_size=200),
    values.map(as_bytes),
    st.sampled_from(
        [
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"1" * 5000,
            b'{"format": "fikit-report", "format": 1}',
            b"\xff\xfe",
            b"NaN",
        ]
    ),
)


def is_text(shown: str) -> bool:
    """Whether a terminal shows all of it as text, in lines."""
    return all(line.isprintable() for line in shown.split("\n"))
