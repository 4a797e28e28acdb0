"""A recording as the profilers would have written it: what the tests of the converters convert back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

BASE_NS = 1_712_195_495_505_543_200  # profilers count from the epoch, or from the machine's start
PID, HOST = 4711, 3
CALLS = {"K": "cudaLaunchKernel", "M": "cudaMemcpyAsync"}
COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
MEMORIES = {"Pageable": 0, "Pinned": 1, "Device": 2}


def rows(text: str) -> list[dict[str, Any]]:
    """A recording's lines, with their names in place of their numbers, in the order of the host's calls."""
    names, found = {}, []
    for line in text.splitlines():
        if line.startswith("#N "):
            _, number, name = line.split(" ", 2)
            names[number] = name
        elif line[:2] in ("K,", "M,", "S,"):
            cells = line.split(",")
            found.append(
                {
                    "kind": cells[0], "call_ns": _ns(cells[1]), "call_length_ns": _ns(cells[2]),
                    "start_ns": _ns(cells[3]), "length_ns": _ns(cells[4]), "stream": cells[5], "shape": cells[6:12], "registers": cells[12] if cells[0] == "K" else "",
                    "shared": cells[13] if cells[0] == "K" else "", "bytes": cells[14], "name": names[cells[15]], "thread": cells[16],
                }
            )  # fmt: skip
    origin = min(row["call_ns"] for row in found)
    for row in found:
        row["call_ns"] -= origin
        row["start_ns"] -= origin if row["kind"] != "S" else 0
    for key in ("stream", "thread"):  # any numbers do
        of_first_use: dict[str, int] = {}
        for row in sorted(found, key=lambda row: (row["call_ns"], row["start_ns"])):
            if row["kind"] != "S" or key == "thread":
                row[key] = of_first_use.setdefault(row[key], len(of_first_use))
    return sorted(found, key=lambda row: (row["call_ns"], row["start_ns"], row["name"]))


def _ns(cell: str) -> int:
    return round(Decimal(cell or 0) * 1000)


def kineto(text: str, *, capital: bool = False) -> dict[str, Any]:
    """capital: with the categories of before 2022."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": list(_events(text, capital)),
        "traceName": "t.json",
    }


def _events(text: str, capital: bool) -> Iterator[dict[str, Any]]:
    runtime, kernel, copy = ("Runtime", "Kernel", "Memcpy") if capital else ("cuda_runtime", "kernel", "gpu_memcpy")
    yield {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": 0.0, "args": {"name": "python"}}
    yield {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": PID,
        "tid": 1,
        "ts": 1.0,
        "dur": 2.0,
        "args": {"External id": 1},
    }
    for number, row in enumerate(rows(text), start=100):
        call = row["name"] if row["kind"] == "S" else CALLS[row["kind"]]
        yield {"ph": "X", "cat": runtime, "name": call, "pid": PID, "tid": int(row["thread"]), "ts": _us(row["call_ns"]), "dur": _us(row["call_length_ns"], 0),
               "args": {"cbid": 211, "correlation": number}}  # fmt: skip
        if row["kind"] == "S":
            continue
        arguments: dict[str, Any] = {"device": 0, "context": 1, "stream": row["stream"], "correlation": number}
        if row["kind"] == "K":
            shape = [int(each) for each in row["shape"]]
            arguments |= {"grid": shape[:3], "block": shape[3:], "registers per thread": int(row["registers"]), "shared memory": int(row["shared"])}  # fmt: skip
        else:
            arguments |= {"bytes": int(row["bytes"]), "memory bandwidth (GB/s)": 1.5}
        yield {"ph": "X", "cat": kernel if row["kind"] == "K" else copy, "name": row["name"], "pid": 0, "tid": row["stream"],
               "ts": _us(row["start_ns"]), "dur": _us(row["length_ns"], 0), "args": arguments}  # fmt: skip


class _Exact(float):
    """Prints as many digits as a profiler does, which a float of the time since 1970 does not have."""

    text = ""

    def __repr__(self) -> str:
        return self.text


def _us(ns: int, base_ns: int = BASE_NS) -> float:
    found = _Exact((ns + base_ns) / 1000)
    found.text = f"{(ns + base_ns) // 1000}.{(ns + base_ns) % 1000:03}"
    return found


def dumps(document: Any) -> str:
    """json.dumps, with the digits that _us gave: json's own encoder asks no float how it prints."""
    if isinstance(document, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dumps(value)}" for key, value in document.items()) + "}"
    if isinstance(document, list):
        return "[" + ",".join(map(dumps, document)) + "]"
    return repr(document) if isinstance(document, _Exact) else json.dumps(document)


SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER);
"""


def nsight(text: str, path: Path, process: int = PID) -> None:
    """As an export to SQLite; more than one process may be written into one file."""
    with closing(sqlite3.connect(path)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.executescript(SCHEMA)
        known: dict[str, int] = {value: number for number, value in database.execute("SELECT id, value FROM StringIds")}

        def name(value: str) -> int:
            if value not in known:
                known[value] = len(known) + 1
                database.execute("INSERT INTO StringIds VALUES (?, ?)", (known[value], value))
            return known[value]

        place = (HOST << 48) | (process << 24)
        for number, row in enumerate(rows(text), start=100):
            call = f"{row['name'] if row['kind'] == 'S' else CALLS[row['kind']]}_v3020"
            begin = row["call_ns"]
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
                (begin, begin + row["call_length_ns"], place | int(row["thread"]), number, name(call)),
            )
            if row["kind"] != "S":
                _insert(
                    database,
                    row,
                    (row["start_ns"], row["start_ns"] + row["length_ns"], 0, 1, row["stream"], number, place),
                    name,
                )
        database.commit()


def _insert(database: sqlite3.Connection, row: dict[str, Any], where: tuple[Any, ...], name: Any) -> None:
    if row["kind"] == "K":
        values = (
            *where,
            name(row["name"]),
            name(row["name"][:8]),
            int(row["registers"]),
            *map(int, row["shape"]),
            0,
            int(row["shared"]),
        )
        database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * len(values))})", values)
        return
    what, _, places = row["name"].partition(" (")
    if what == "Memset":
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 2)", (*where, int(row["bytes"]))
        )
        return
    ends = [MEMORIES[each] for each in places.rstrip(")").split(" -> ")]
    values = (*where, int(row["bytes"]), COPIES[what.split()[1]], *ends)
    database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({', '.join('?' * len(values))})", values)
