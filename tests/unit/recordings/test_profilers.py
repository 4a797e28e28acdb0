"""Files of PyTorch's profiler and of Nsight Systems as recordings: what is in them comes back, and nonsense becomes a sentence."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from fikit.errors import UserError
from fikit.recordings import kineto, made, nsight, source, timeline
from fikit.recordings.timeline import NoTimeline
from fikitd.simulation import simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from profiler_files import SCHEMA, dumps, rows
from profiler_files import kineto as as_kineto
from profiler_files import nsight as as_nsight

# One with copies that make the host wait, one with many streams, one with two threads: all that a recording can say.
SHAPES = ("inference", "streams", "threads", "copies")


def text_of(shape: str) -> str:
    return made.SHAPES[shape](1).text().decode()


def of_kineto(document: dict[str, Any]) -> timeline.Recording:
    return timeline.recording(kineto.read(dumps(document)))


def of_nsight(path: Path) -> timeline.Recording:
    return timeline.recording(nsight.read(path))


def small() -> dict[str, Any]:
    """Two launches and a copy of one stream."""
    recorded = made.Made(random.Random(1))
    recorded.work("gemm", 10)
    recorded.work("relu", 5)
    recorded.work("Memcpy DtoH (Device -> Pageable)", 3, size=4096, waits=True)
    recorded.synchronize()
    return as_kineto(recorded.text().decode())


def of(document: dict[str, Any], category: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("cat") == category]


@pytest.mark.parametrize("capital", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_pytorchs_profiler_recorded_comes_back_line_by_line(shape: str, capital: bool) -> None:
    found = of_kineto(as_kineto(text_of(shape), capital=capital))
    assert rows(found.text) == rows(text_of(shape))
    assert found.lacking == []


@pytest.mark.parametrize("shape", SHAPES)
def test_what_nsight_systems_recorded_comes_back_line_by_line(shape: str, tmp_path: Path) -> None:
    as_nsight(text_of(shape), tmp_path / "report.sqlite")
    found = of_nsight(tmp_path / "report.sqlite")

    def bare(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "name": row["name"].removesuffix("_v3020")}

    assert list(map(bare, rows(found.text))) == rows(text_of(shape))
    assert found.lacking == []


def test_every_kernel_of_a_graph_has_the_graphs_launch() -> None:
    document = small()
    first, second = of(document, "kernel")
    second["args"]["correlation"] = first["args"]["correlation"]
    del of(document, "cuda_runtime")[1]["args"]["correlation"]
    kernels = [row for row in rows(of_kineto(document).text) if row["kind"] == "K"]
    assert [(row["name"], row["call_ns"]) for row in kernels] == [("gemm", 0), ("relu", 0)]


def test_a_whole_graph_of_nsight_systems_is_one_kernel(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    as_nsight(text_of("inference"), path)
    with closing(sqlite3.connect(path)) as database:
        (number, place, start) = database.execute(
            "SELECT correlationId, globalPid, start FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start LIMIT 1"
        ).fetchone()
        database.executescript(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER);"
            f"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = {number};"
            f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({start}, {start + 70_000}, 0, 7, {number}, {place}, 42);"
        )
    (graph,) = [row for row in rows(of_nsight(path).text) if row["name"] == "CUDA graph 42"]
    assert (graph["kind"], graph["length_ns"]) == ("K", 70_000)


def test_a_name_that_is_no_utf_8_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    as_nsight(text_of("inference"), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE StringIds SET value = CAST(X'67FF1B0A' AS TEXT) WHERE value = 'softmax'")
        database.commit()
    assert "#N 2 g\ufffd??\n" in of_nsight(path).text


def test_a_call_within_a_call_is_the_outer_ones() -> None:
    document = small()
    launch = of(document, "cuda_runtime")[1]
    inner = {**launch, "cat": "cuda_driver", "name": "cuLaunchKernel", "ts": launch["ts"] + 1.0, "dur": 0.5}
    for order in ([*document["traceEvents"], inner], [inner, *document["traceEvents"]]):
        assert rows(of_kineto({"traceEvents": order}).text) == rows(of_kineto(document).text)


def test_what_was_under_way_at_the_beginning_is_left_out_and_told() -> None:
    document = small()
    of(document, "kernel")[0]["args"]["correlation"] = 7  # launched before the profiler began
    del of(document, "kernel")[1]["dur"]
    found = of_kineto(document)
    assert found.lacking == [
        "1 kernels and copies whose call was not recorded are left out",
        "1 events without a length are left out",
    ]
    assert [row["kind"] for row in rows(found.text)] == ["M", "S"]


def test_of_several_gpus_and_processes_the_busiest_is_taken(tmp_path: Path) -> None:
    document = small()
    of(document, "kernel")[0]["args"]["device"] = 1
    found = of_kineto(document)
    assert found.lacking == [
        "of 1 processes and 2 GPUs the one of each with most work is taken: 2 of 3 kernels and copies"
    ]
    assert [row["name"] for row in rows(found.text)][:1] == ["relu"]
    for process, shape in ((1, "inference"), (2, "copies")):
        as_nsight(text_of(shape), tmp_path / "two.sqlite", process)
    both = of_nsight(tmp_path / "two.sqlite")
    assert len(rows(both.text)) == max(len(rows(text_of(shape))) for shape in ("inference", "copies"))
    assert "of 2 processes and 1 GPUs" in both.lacking[0]


def test_a_merged_file_of_pytorchs_is_refused() -> None:
    document = small()
    of(document, "cuda_runtime")[0]["pid"] = 1
    with pytest.raises(NoTimeline, match="it has calls of 2 processes"):
        of_kineto(document)


def _without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["traceEvents"].__setitem__(
        slice(None), [event for event in document["traceEvents"] if event.get("cat") != key]
    )


def _set(
    category: str, change: dict[str, Any], arguments: dict[str, Any] | None = None
) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        event = of(document, category)[0]
        event.update(change)
        event["args"] = {**event["args"], **(arguments or {})} if isinstance(event["args"], dict) else event["args"]

    return apply


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_without("cuda_runtime"), "no kernel and no copy in it belongs to a call of the host: it needs both, as CPU and CUDA activities"),
        (lambda document: document.update(traceEvents=[]), "it has no kernel and no copy of a GPU"),
        (lambda document: document.update(traceEvents={}), "it is JSON, but has no list of traceEvents, as a profiler's trace has"),
        (_set("kernel", {"ts": "soon"}), "its event 3 is none of a profiler: its ts is no time in microseconds"),
        (_set("kernel", {"ts": 10**30}), "its event 3 is none of a profiler: its ts is no time in microseconds"),
        (_set("kernel", {"dur": True}), "its event 3 is none of a profiler: its dur is no time in microseconds"),
        (_set("kernel", {"name": 7}), "its event 3 is none of a profiler: its name is no text"),
        (_set("kernel", {"args": []}), "its event 3 is none of a profiler: its args are no object"),
        (_set("kernel", {}, {"grid": [1, 1]}), "its event 3 is none of a profiler: its grid is no list of three sizes"),
        (_set("kernel", {}, {"block": [1, 1, -1]}), "its event 3 is none of a profiler: its block is no list of three sizes"),
        (_set("kernel", {}, {"stream": [7]}), "its event 3 is none of a profiler: its stream is neither a number nor a text"),
        (_set("gpu_memcpy", {}, {"bytes": -1}), "its event 7 is none of a profiler: its bytes is no number from 0 to 9223372036854775807"),
        (_set("cuda_runtime", {}, {"correlation": 1.5}), "its event 2 is none of a profiler: its correlation is no number from 0 to 9223372036854775807"),
    ],
)  # fmt: skip
def test_nonsense_is_a_sentence(spoil: Callable[[dict[str, Any]], None], sentence: str, tmp_path: Path) -> None:
    document = small()
    spoil(document)
    with pytest.raises(NoTimeline) as told:
        of_kineto(document)
    assert str(told.value) == sentence
    file = tmp_path / "trace.json"
    file.write_text(dumps(document))
    with pytest.raises(UserError) as said:
        source.read(file)
    assert str(said.value) == f"{file} cannot be made a recording: {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"traceEvents": [', "it is no JSON: "),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": NaN}]}', "it is no JSON: NaN is not a JSON number"),
        ("[" * 100_000, "it is no JSON: "),
        ('{"traceEvents": [' + "9" * 5000 + "]}", "it is no JSON: "),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1e999999999}]}', "its event 0 is none of a profiler: its dur is no time in microseconds"),
        ("[1, null, {}]", "it has no kernel and no copy of a GPU"),
    ],
)  # fmt: skip
def test_text_that_is_no_trace_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(NoTimeline) as told:
        timeline.recording(kineto.read(text))
    assert str(told.value).startswith(sentence)


REASONS = ("nothing in it takes time", "more than 30 years")
"""Why the simulator may take none of what was converted."""


def _play(text: str) -> None:
    said = REASONS[0]
    try:
        simulator.parse("hostile", text)
    except simulator.SimulatorError as error:
        said = str(error)
    assert any(reason in said for reason in REASONS), said


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.builds(list)
    | st.builds(dict)
)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_a_field_says_there_is_a_recording_or_a_sentence(data: st.DataObject) -> None:
    document = json.loads(dumps(small()))
    for _ in range(data.draw(st.integers(1, 3))):
        event = data.draw(st.sampled_from(document["traceEvents"]))
        inside = event["args"] if data.draw(st.booleans()) and isinstance(event.get("args"), dict) else event
        inside[data.draw(st.sampled_from([*inside, "correlation", "dur", "cat"]))] = data.draw(VALUES)
    with suppress(NoTimeline):
        _play(of_kineto(document).text)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_a_column_says_there_is_a_recording_or_a_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("nsight") / "report.sqlite"
    recorded = made.Made(random.Random(1))
    recorded.work("gemm", 10)
    recorded.work("Memset (Device)", 2, size=64)
    recorded.work("Memcpy DtoH (Device -> Pageable)", 3, size=4096, waits=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            SCHEMA.replace("NOT NULL", "").replace("INTEGER", "").replace("PRIMARY KEY", "")
        )  # so that it takes anything
    as_nsight(recorded.text().decode(), path)
    with closing(sqlite3.connect(path)) as database:
        table = data.draw(st.sampled_from([name for (name,) in database.execute("SELECT name FROM sqlite_master")]))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        value = data.draw(
            st.none()
            | st.integers(-(2**63), 2**63 - 1)
            | st.floats(allow_nan=False)
            | st.text(max_size=5)
            | st.binary(max_size=5)
        )
        database.execute(f"UPDATE {table} SET {data.draw(st.sampled_from(columns))} = ?", (value,))
        database.commit()
    with suppress(NoTimeline):
        _play(of_nsight(path).text)


def test_a_damaged_database_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    as_nsight(text_of("inference"), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(UserError, match="cannot be made a recording: it could not be read as SQLite: "):
        source.read(path)
    path.write_bytes(whole[:16])
    with pytest.raises(UserError, match="cannot be made a recording: it "):
        source.read(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER)")
        database.commit()
    with pytest.raises(
        UserError, match="it has no table CUPTI_ACTIVITY_KIND_RUNTIME: profile with nsys profile --trace=cuda"
    ):
        source.read(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER)")
        database.commit()
    with pytest.raises(UserError, match="its table CUPTI_ACTIVITY_KIND_RUNTIME has no column globalTid"):
        source.read(path)


def test_nothing_that_a_databases_schema_has_is_run(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_RUNTIME AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
            "SELECT x AS start, x AS end, x AS globalTid, x AS correlationId FROM n;"
        )
    with pytest.raises(UserError, match="it has no table CUPTI_ACTIVITY_KIND_RUNTIME"):
        source.read(path)
    assert [each.name for each in tmp_path.iterdir()] == ["report.sqlite"]


def test_a_file_is_what_is_in_it(tmp_path: Path) -> None:
    recorded = text_of("inference")
    (tmp_path / "a").write_text(recorded)
    (tmp_path / "b.json").write_bytes(gzip.compress(recorded.encode()))
    (tmp_path / "c.csv.gz").write_text(dumps(as_kineto(recorded)))
    (tmp_path / "d.pt.trace.json.gz").write_bytes(gzip.compress(dumps(as_kineto(recorded)).encode()))
    as_nsight(recorded, tmp_path / "e?#%.sqlite")
    found = [source.read(path) for path in sorted(tmp_path.iterdir())]
    assert [each.name for each in found] == ["a", "b", "c", "d.pt.trace", "e?#%"]
    assert len({round(each.trace().alone_ns) for each in found}) == 1


def test_what_is_too_large_is_a_sentence_and_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 1 << 20)
    file = tmp_path / "bomb.csv.gz"
    file.write_bytes(gzip.compress(b"#" * (1 << 24)))
    with pytest.raises(
        UserError, match="cannot be made a recording: it has more than 0 GiB of text: record fewer steps"
    ):
        source.read(file)
