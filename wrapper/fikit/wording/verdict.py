"""The answer of a report in one sentence: whether fikit kept its promise, as far as the figures support it."""

from __future__ import annotations

from typing import Any

from fikitd.api.reports import against_alone, allowance, has_times, ratio


def of(record: dict[str, Any]) -> str:
    """`kept its promise: 1.04x of its time alone (1.05x allowed)`; without a verdict where nobody can say; nothing where nothing is compared."""
    answer = against_alone(record)
    kept = record.get("kept") if has_times(record) else None
    if kept is None or not answer:
        return answer
    promise = f"the promise was {'kept' if kept else 'not kept'}"
    slowdown, most = record["slowdown"], record["max_slowdown"]
    if slowdown is None:
        return f"{promise}; {answer}"
    if kept and most is not None and slowdown > 1 + most:
        return f"lower jobs kept to the {allowance(record)} allowed; with all else it took {ratio(record)} of its time alone"
    return f"{promise}: {answer}" if most is not None else answer
