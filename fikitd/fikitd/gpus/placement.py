"""Which jobs share a GPU: the pure rules (fikitd/core/placement), as cluster simulator, advice and agent use them.

No clock, no file, no Slurm: numbers in, numbers out. Times are seconds of run time, memory is shards (GiB).
"""

from __future__ import annotations

from typing import Final

from fikitd._placement import (
    PATIENCE_S,
    TURN_S,
    Contender,
    Couple,
    Device,
    History,
    Offer,
    Precedence,
    Priorities,
    Resident,
    Rules,
    Slowdowns,
    Verdict,
    choose,
    consider,
    new_should_be_high,
    overdue,
    replay,
    shards_for,
    sub_batch,
)

__all__ = [
    "PAIR", "PATIENCE_S", "TURN_S", "Contender", "Couple", "Device", "History", "Offer", "Precedence", "Priorities", "Resident", "Rules",
    "Slowdowns", "Verdict", "choose", "consider", "new_should_be_high", "overdue", "replay", "shards_for", "sub_batch",
]  # fmt: skip

PAIR: Final = Rules(most=0, saved_worth=0.5)
"""What `pair` goes by: as many on a GPU as memory has room for; docs/design/placement.md has what half a second was chosen by."""
