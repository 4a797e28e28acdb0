"""Why a job was slow: the report's `wait_reasons` and `delays` in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fikit.wording import units

TOLD = 3  # reasons; the rest is one sum
NAME_LENGTH = 48
UNSEEN_S, UNSEEN = 0.001, 0.01  # less than this, or this share of the waiting, is what two clocks differ by

Entry = dict[str, Any]


def why(record: dict[str, Any]) -> list[str]:
    """One line for each of the longest reasons, one for the rest, one for what has none; nothing for a job that never waited."""
    held = [entry for entry in record.get("wait_reasons", []) if entry["total_s"] > 0]  # reports of before have none
    lines = [f"{units.duration(entry['total_s'])} {phrase(entry, record)}" for entry in held[:TOLD]]
    rest = held[TOLD:]
    if len(rest) == 1:
        lines.append(f"{units.duration(rest[0]['total_s'])} {phrase(rest[0], record)}")
    elif rest:
        total = sum(entry["total_s"] for entry in rest)
        lines.append(f"{units.duration(total)} for {len(rest)} other reasons (--json has them all)")
    waited_s = record["wait"]["total_s"]
    unseen_s = waited_s - sum(entry["total_s"] for entry in held)
    if "wait_reasons" in record and unseen_s > max(UNSEEN_S, UNSEEN * waited_s):
        lines.append(
            f"{units.duration(unseen_s)} that fikitd did not see: it was late, or several threads waited at once"
        )
    return lines


def waits_now_s(record: dict[str, Any]) -> float:
    """For how long a running job has been in a wait that has not ended: reasons have it, the sum of all waits not yet. 0 for none."""
    more_s = float(sum(entry["total_s"] for entry in record.get("wait_reasons", []))) - float(record["wait"]["total_s"])
    slight_s = max(UNSEEN_S, UNSEEN * record["wait"]["total_s"])
    return more_s if record["state"] == "running" and more_s > slight_s else 0.0


def delayed(record: dict[str, Any]) -> list[str]:
    """What the job's kernels met on the GPU: `12 ms behind kernels of job 18 (priority 8)`."""
    found = [entry for entry in record.get("delays", []) if entry["total_s"] > 0]
    lines = [f"{units.duration(entry['total_s'])} behind kernels of {who(entry, record)}" for entry in found[:TOLD]]
    if rest := found[TOLD:]:
        lines.append(f"{units.duration(sum(e['total_s'] for e in rest))} behind those of {len(rest)} other jobs")
    return lines


def phrase(entry: Entry, record: dict[str, Any]) -> str:
    return PHRASES.get(entry["reason"], _unheard_of)(entry, record)


def _mine(entry: Entry, record: dict[str, Any]) -> bool:
    return bool(entry["job"] == record["job"])


def who(entry: Entry, record: dict[str, Any]) -> str:
    if _mine(entry, record):
        return "this job itself"
    priority = "" if entry["priority"] is None else f" (priority {entry['priority']})"
    return f"another job{priority}" if entry["job"] is None else f"job {entry['job']}{priority}"


def _kernel(entry: Entry) -> str:
    name = entry["kernel"]
    if not name:
        return "its kernel"
    short = name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"
    return f"its kernel `{short}`" + (
        "" if entry["p90_us"] is None else f" (p90 {units.microseconds(entry['p90_us'])})"
    )


def _run_ahead(entry: Entry, record: dict[str, Any]) -> str:
    whose = "its own earlier kernels" if _mine(entry, record) else f"kernels of {who(entry, record)}"
    return f"until {whose} were done"


def _uncertain(entry: Entry, record: dict[str, Any]) -> str:
    whose = "its own earlier kernels were" if _mine(entry, record) else f"{who(entry, record)} was"
    return f"because nobody could tell how far {whose}"


# By reason code (fikitd/core/policy/base/reason.hpp).
PHRASES: Final[dict[str, Callable[[Entry, dict[str, Any]], str]]] = {
    "none": lambda entry, record: "before anybody decided",
    "behind": lambda entry, record: f"behind {who(entry, record)}",
    "does_not_fit": lambda entry, record: f"because {_kernel(entry)} did not fit what {who(entry, record)} could spare",
    "budget_spent": lambda entry, record: (
        f"because the slowdown budget of {who(entry, record)} did not cover {_kernel(entry)}"
    ),
    "turn": lambda entry, record: f"because it was the turn of {who(entry, record)}",
    "run_ahead": _run_ahead,
    "unknown": lambda entry, record: f"because nobody knew how long {_kernel(entry)} would run",
    "uncertain": _uncertain,
    "limit": lambda entry, record: f"because launches beside {who(entry, record)} are rationed",
    "memory": lambda entry, record: "while the memory of other jobs had its turn on the GPU",
    "reaction": lambda entry, record: "for fikit's own reaction",
}


def _unheard_of(entry: Entry, record: dict[str, Any]) -> str:  # of a newer fikitd
    return f"for reason {entry['reason']}"
