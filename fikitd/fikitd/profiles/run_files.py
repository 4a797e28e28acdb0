"""Files of a program's runs: how they are called, which of them are worth reading, and which are kept.

`<run>.v<variant>[-sampled].json`, where a run begins with its time. Files of before have no variant.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from fikitd.base.validation import AHEAD_S

# A profile of 4000 kernels has about 2 MiB. Older runs say less about today's program.
MAX_RUNS: Final = 16
MAX_FILES: Final = 64  # of a program: a sweep has as many variants as it likes
_OF_A_KIND: Final = 2  # runs of another variant that are read: it may have to stand in
_SAMPLED: Final = "-sampled.json"  # a run that was not measured: it knows little about much, so there are many of them
_VARIANT = re.compile(r"\.v([0-9a-f]{8})(?:-sampled)?\.json", re.ASCII)


def name_of(run: str, variant: str, *, sampled: bool) -> str:
    """Of a run's file. `variant`: of its arguments, or nothing where a job named its profile."""
    return run + (f".v{variant}" if variant else "") + (_SAMPLED if sampled else ".json")


def newest(names: list[str], variant: str | None) -> list[str]:
    """Files worth reading, at most twice MAX_RUNS, those of `variant` first, then some of others; None: whatever their variant.

    Newer ones come first; sampled runs take at most half the room from measured ones.
    """
    ordered = by_age(names)
    if variant is None:
        return _worth_reading(ordered)
    own = [name for name in ordered if _variant_of(name) == variant]
    kinds: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name in ordered:
        kinds[_variant_of(name), name.endswith(_SAMPLED)].append(name)
    others = {name for (of, _), kind in kinds.items() if of != variant for name in (kind[-_OF_A_KIND:] if of else kind)}
    return _worth_reading(own) + _worth_reading([name for name in ordered if name in others])


def beyond(names: list[str], keep: str) -> list[str]:
    """Files that go: no reader takes them any more, or a program has more than it may; not `keep`, which was just written."""
    kinds: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name in by_age(names):
        kinds[_variant_of(name), name.endswith(_SAMPLED)].append(name)
    gone = {name for kind in kinds.values() for name in kind[:-MAX_RUNS]}
    left = [name for name in by_age(names) if name not in gone and name != keep]
    left.sort(key=lambda name: not name.endswith(_SAMPLED))  # sampled ones go first, the oldest of them
    gone.update(left[: max(len(left) + 1 - MAX_FILES, 0)])
    return sorted(gone - {keep})


def by_age(names: Iterable[str]) -> list[str]:
    """Names of runs, which begin with their time, the oldest first.

    A run of a later day was stored by a node whose clock was wrong: it counts as old, or it would be the newest for years.
    """
    later = time.strftime("%Y%m%d", time.gmtime(time.time() + AHEAD_S))
    return sorted(names, key=lambda name: (not (name[:8].isdecimal() and name >= later), name))


def _variant_of(name: str) -> str:
    match = _VARIANT.search(name)
    return match[1] if match else ""


def _worth_reading(names: list[str]) -> list[str]:
    """The newest MAX_RUNS of names by age, newest first."""
    measured = [name for name in names if not name.endswith(_SAMPLED)]
    chosen = set(measured[-MAX_RUNS // 2 :])
    others = [name for name in names if name not in chosen]
    chosen.update(others[len(chosen) - MAX_RUNS :])
    return [name for name in reversed(names) if name in chosen]
