"""Which jobs share a GPU: the pure rules (fikitd/core/placement), as cluster simulator, advice and agent use them.

No clock, no file, no Slurm: numbers in, numbers out. Times are seconds of run time, memory is shards (GiB).
"""

from __future__ import annotations

from fikitd._placement import (
    Couple,
    Device,
    History,
    Offer,
    Priorities,
    Resident,
    Rules,
    Slowdowns,
    Verdict,
    consider,
    new_should_be_high,
    replay,
    shards_for,
    sub_batch,
)

__all__ = [
    "Couple", "Device", "History", "Offer", "Priorities", "Resident", "Rules", "Slowdowns", "Verdict", "consider", "new_should_be_high", "replay",
    "shards_for", "sub_batch",
]  # fmt: skip
