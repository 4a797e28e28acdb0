"""Nsight Systems: what `nsys export --type sqlite` writes.

Tables are there only where the report has something for them, and columns come and go with releases: only those named here are asked for, and
where one that a recording can do without is missing, it goes without. Times are nanoseconds; a call and its work have one correlationId, which
each process counts for itself. Sources: "SQLite Export Schema Reference" in the Nsight Systems documentation; CUPTI's CUpti_ActivityMemcpyKind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from fikit.recordings.timeline import MOST_BYTES, MOST_COUNT, MOST_NS, Call, NoTimeline, Timeline, Work

MAGIC: Final = b"SQLite format 3\0"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES: Final = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoD",
    4: "DtoH",
    5: "DtoD",
    6: "DtoD",
    7: "DtoD",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
"""Arrays (3 to 7) lie on the device. 11 to 13 are managed memory that moves by itself: no call asked for it."""
MEMORIES: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
TID_BITS: Final = 24  # a globalTid is host, process and thread, of which the thread is the lowest
WHERE: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
SHAPE: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")

Row = Mapping[str, Any]
Names = Mapping[Any, str]
"""By their numbers in StringIds."""


def read(path: Path) -> Timeline:
    """NoTimeline: it is no such database, or says something that it cannot mean."""
    try:
        # No file of ours is written beside it, and nothing that its schema has is run: only plain tables are read.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            return _read(database)
    except sqlite3.Error as error:
        raise NoTimeline(f"it could not be read as SQLite: {error}") from None


def _read(database: sqlite3.Connection) -> Timeline:
    database.text_factory = lambda text: text.decode(errors="replace")
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if RUNTIME not in tables:
        raise NoTimeline(
            f"it has no table {RUNTIME}: profile with nsys profile --trace=cuda, and export that to SQLite"
        )
    names = _names(database) if "StringIds" in tables else {}
    found = Timeline()
    for row in _rows(database, RUNTIME, ("start", "end", "globalTid", "correlationId"), ("nameId",)):
        if (length_ns := _length(found, row)) is None:
            continue
        thread = _count(row, "globalTid", MOST_BYTES)
        call = Call(names.get(row["nameId"], ""), _ns(row, "start"), length_ns, thread)
        found.called((thread >> TID_BITS, _count(row, "correlationId", MOST_BYTES)), call)
    for table, columns, work in _KINDS:
        if table not in tables:
            continue
        for row in _rows(database, table, WHERE, columns):
            if (length_ns := _length(found, row)) is not None:
                found.work.append(work(row, length_ns, names))
    return found


def _kernel(row: Row, length_ns: int, names: Names) -> Work:
    x, y, z, u, v, w = (_count(row, column, MOST_COUNT) for column in SHAPE)
    shared = _count(row, "staticSharedMemory", MOST_COUNT) + _count(row, "dynamicSharedMemory", MOST_COUNT)
    return Work(
        "K", names.get(row["demangledName"]) or names.get(row["shortName"], ""), *_where(row, length_ns), (x, y, z), (u, v, w),
        _count(row, "registersPerThread", MOST_COUNT), min(shared, MOST_COUNT),
    )  # fmt: skip


def _graph(row: Row, length_ns: int, names: Names) -> Work:
    """A graph as a whole, where its kernels were not traced (nsys profile --cuda-graph-trace=graph)."""
    return Work("K", f"CUDA graph {_count(row, 'graphId', MOST_BYTES)}", *_where(row, length_ns))


def _copy(row: Row, length_ns: int, names: Names) -> Work:
    kind = COPIES.get(_count(row, "copyKind", MOST_COUNT), "unknown")
    places = " -> ".join(MEMORIES.get(_count(row, side, MOST_COUNT), "Unknown") for side in ("srcKind", "dstKind"))
    return Work("M", f"Memcpy {kind} ({places})", *_where(row, length_ns), size_bytes=_count(row, "bytes", MOST_BYTES))


def _set(row: Row, length_ns: int, names: Names) -> Work:
    where = MEMORIES.get(_count(row, "memKind", MOST_COUNT), "Unknown")
    return Work("M", f"Memset ({where})", *_where(row, length_ns), size_bytes=_count(row, "bytes", MOST_BYTES))


_KINDS: Final[tuple[tuple[str, tuple[str, ...], Callable[[Row, int, Names], Work]], ...]] = (
    (
        KERNEL,
        (*SHAPE, "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "demangledName", "shortName"),
        _kernel,
    ),
    (GRAPH, ("graphId",), _graph),
    (MEMCPY, ("bytes", "copyKind", "srcKind", "dstKind"), _copy),
    (MEMSET, ("bytes", "memKind"), _set),
)


def _where(row: Row, length_ns: int) -> tuple[int, int, Hashable, Hashable, tuple[Hashable, int]]:
    """Begin, length, GPU, stream and correlation."""
    process = _count(row, "globalPid", MOST_BYTES) >> TID_BITS
    return (
        _ns(row, "start"), length_ns, _count(row, "deviceId", MOST_COUNT), _count(row, "streamId", MOST_BYTES),
        (process, _count(row, "correlationId", MOST_BYTES)),
    )  # fmt: skip


def _names(database: sqlite3.Connection) -> Names:
    return {
        row["id"]: row["value"]
        for row in _rows(database, "StringIds", ("id", "value"), ())
        if isinstance(row["value"], str)
    }


def _rows(database: sqlite3.Connection, table: str, needed: Sequence[str], wished: Sequence[str]) -> Iterator[Row]:
    """With None for a wished column that the table does not have. table: one of this module's names."""
    has = {str(column[1]) for column in database.execute(f"PRAGMA table_info({table})")}
    if missing := [column for column in needed if column not in has]:
        raise NoTimeline(f"its table {table} has no column {missing[0]}")
    columns = [column if column in has else f"NULL AS {column}" for column in (*needed, *wished)]
    for values in database.execute(f"SELECT {', '.join(columns)} FROM {table}"):
        yield dict(zip((*needed, *wished), values, strict=True))


def _ns(row: Row, column: str) -> int:
    value = row[column]
    if type(value) is not int or abs(value) > MOST_NS:
        raise NoTimeline(f"its column {column} has {value!r:.40}, which is no time in ns")
    return value


def _length(found: Timeline, row: Row) -> int | None:
    """From start to end; None, and counted, where it has not ended."""
    length_ns = _ns(row, "end") - _ns(row, "start")
    if length_ns < 0:
        found.unusable += 1
        return None
    return length_ns


def _count(row: Row, column: str, most: int) -> int:
    """0 where the table does not have it."""
    value = row[column]
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= most:
        raise NoTimeline(f"its column {column} has {value!r:.40}, which is no number from 0 to {most}")
    return value
