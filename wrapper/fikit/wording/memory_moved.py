"""What became of a job's memory that may lie on the host, in words (docs/memory.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fikit.wording import units

WORTH_SAYING: Final = 0.1  # of a pass, that it is longer by


def sentence(memory: Mapping[str, Any], elapsed_s: float | None) -> str:
    """`peak 21.4 GiB, resident 7.90 GiB at most, moved 96.0 GiB in 40 turns, waited 14.0 s for it (2.1 %), misses 0.4 %`.

    memory: of a report record; empty where none of it may lie on the host. elapsed_s: of the job; None where that is not known.
    """
    moved = memory.get("moved")
    if not moved:
        return ""
    facts = [f"peak {units.gibibytes(memory['peak_bytes'])}"]
    if moved["resident_peak_bytes"] is not None:
        facts.append(f"resident {units.gibibytes(moved['resident_peak_bytes'])} at most")
    all_bytes = moved["in_bytes"] + moved["out_bytes"]
    turns = f" in {units.count(moved['turns'])} turn{'' if moved['turns'] == 1 else 's'}" if moved["turns"] else ""
    facts.append(f"moved {units.gibibytes(all_bytes)}{turns}" if all_bytes else f"nothing moved ahead of need{turns}")
    if moved["moving_s"]:
        share = f" ({units.percent(moved['moving_s'], elapsed_s, places=1)})" if elapsed_s else ""
        facts.append(f"waited {units.duration(moved['moving_s'])} for it{share}")
    if needed := moved["in_bytes"] + moved["missed_bytes"]:
        facts.append(f"misses {units.percent(moved['missed_bytes'], needed, places=1)}")
    if moved["failures"]:
        facts.append(f"the driver refused {units.count(moved['failures'])} moves")
    if plan := memory.get("plan"):
        facts.append(plan_sentence(plan))
    return ", ".join(facts)


def plan_sentence(plan: Mapping[str, Any]) -> str:
    """`with a budget of 5.20 of 8.00 GiB, moved 3.10 GiB a pass in 400 passes`, or `... in 800 passes of 2 processes`."""
    skipped = f", {units.count(plan['skipped'])} moves too late" if plan["skipped"] else ""
    processes = plan.get("processes", 1)
    whose = f" of {units.count(processes)} processes" if processes > 1 else ""
    return (
        f"with a budget of {budget(plan['budget_bytes'], plan['peak_bytes'])}, moved {units.gibibytes(plan['moved_bytes_per_pass'])} a pass "
        f"in {units.count(plan['passes'])} pass{'' if plan['passes'] == 1 else 'es'}{whose}{skipped}"
    )


def longer(expected_loss: float) -> str:
    """Of a plan: `9 % longer`, from twice as long on `13.6 times as long`."""
    return (
        f"{1 + expected_loss:.1f} times as long" if expected_loss >= 1 else f"{units.percent(expected_loss, 1)} longer"
    )


def plan_now(budget_bytes: int, peak_bytes: int, expected_loss: float | None) -> str:
    """`plan 3.20 of 5.05 GiB, 13.6 times as long`: of one that costs a tenth or more. expected_loss None: not known."""
    costs = f", {longer(expected_loss)}" if expected_loss is not None and expected_loss >= WORTH_SAYING else ""
    return f"plan {budget(budget_bytes, peak_bytes)}{costs}"


def budget(budget_bytes: int, peak_bytes: int) -> str:
    """`5.20 of 8.00 GiB`: of a plan."""
    return f"{units.gibibytes(budget_bytes).removesuffix(' GiB')} of {units.gibibytes(peak_bytes)}"
