"""Where a job's time went, in words: the sum first (docs/elapsed.md)."""

from __future__ import annotations

from typing import Any, Final

from fikit.wording import units

PARTS: Final = {"waited_s": "waited", "delayed_s": "delayed", "host_s": "host", "unexplained_s": "unexplained"}
SUSPENDED: Final = {"suspended_s": "suspended"}  # of few jobs: in the sum only
HOST: Final = {
    "start_s": "a longer start than its profile's",
    "late_s": "longer between launches than its profile says, or without a processor core",
    "end_s": "a longer end than its profile's",
    "unknown_s": "start and end, of which no profile says how long they take",
}
LEAST: Final = 0.0005  # of the elapsed time: less is not told


def total(record: dict[str, Any]) -> str:
    """`9.00 s = 8.10 s alone + 12.0 ms waited + 880 ms host`: without what is next to nothing."""
    elapsed_s = record["elapsed_s"]
    parts = [
        f"{units.duration(s)} {word}"
        for key, word in (PARTS | SUSPENDED).items()
        if (s := record.get(key, 0.0)) > LEAST * elapsed_s
    ]
    return " + ".join([f"{units.duration(elapsed_s)} = {units.duration(record['alone_s'])} alone", *parts])


def host(record: dict[str, Any]) -> str:
    """`880 ms: 800 ms a longer start than its profile's, 80.0 ms ...`; nothing where the host was in time."""
    if record["host_s"] <= LEAST * record["elapsed_s"]:
        return ""
    parts = [f"{units.duration(s)} {HOST[key]}" for key, s in record["host"].items() if s > LEAST * record["elapsed_s"]]
    return f"{units.duration(record['host_s'])}: {', '.join(parts)}"
