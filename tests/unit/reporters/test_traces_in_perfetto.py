"""What Perfetto itself makes of the file of `fikit trace`."""

from __future__ import annotations

import json

import pytest
from fikit.reporters import perfetto
from perfetto_engine import PROBLEMS, SLICES, ask
from trace_samples import trace


@pytest.mark.heavy
def test_perfetto_reads_every_event_and_finds_no_fault() -> None:
    picture = perfetto.convert(trace())
    problems, slices = ask(json.dumps(picture).encode(), PROBLEMS, SLICES)
    assert problems == []
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in picture["traceEvents"] if e["name"] == "thread_name"}
    drawn = [e for e in picture["traceEvents"] if e["ph"] != "M"]
    expected = sorted(
        (round(e["ts"] * 1000), names[e["pid"], e["tid"]], e["name"], round(e.get("dur", 0) * 1000)) for e in drawn
    )
    assert sorted((row["ts"], row["track"], row["name"], row["dur"]) for row in slices) == expected
    assert {row["process"] for row in slices} == {"job 12, process 4711 on GPU-0, emulated GPU"}
    assert len(expected) > 8


@pytest.mark.heavy
def test_perfetto_would_say_that_slices_overlap() -> None:
    one, other = ({"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": 10, "name": "k"} for ts in (0, 5))
    (problems,) = ask(json.dumps({"traceEvents": [one, other]}).encode(), PROBLEMS)
    assert problems
