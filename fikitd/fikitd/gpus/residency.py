"""Whose memory is on the GPU, where that of all jobs does not fit: the pure rules (fikitd/core/residency), as daemon, bench and advice use them.

No clock, no file, no driver: numbers in, plans out. Times are ns, memory is bytes. docs/design/residency.md says how they decide.
"""

from __future__ import annotations

from fikitd._residency import (
    Again,
    BudgetPlan,
    Epoch,
    EpochRules,
    Link,
    Move,
    Sequence,
    Tenant,
    Transfer,
    least_bytes,
    longest_wait_ns,
    next_epoch,
    peak_bytes,
    plan,
    plan_again,
    share_room,
)

__all__ = [
    "Again", "BudgetPlan", "Epoch", "EpochRules", "Link", "Move", "Sequence", "Tenant", "Transfer", "least_bytes", "longest_wait_ns",
    "next_epoch", "peak_bytes", "plan", "plan_again", "share_room",
]  # fmt: skip
