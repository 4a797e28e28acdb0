"""What goes with a report: its trace, those of the jobs beside it, and its profile, as far as the caller may read them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fikitd.profiles.profile_store import ProfileStore

from fikit.page.document import Sources
from fikit.site_paths import places
from fikit.stored import kernels, traces

Record = Mapping[str, Any]


def sources(record: Record) -> Sources:
    """Of a checked report."""
    own = traces.of(record["job"], record["uid"])
    return Sources(own, {} if own is None else traces.partners(own), _profile(record))


def _profile(record: Record) -> Record | None:
    """`kernels`, `runs` and `key` of the job's profile on its kind of GPU; None where there is none that can be read."""
    key = record["profile"]["key"]
    for place in places() if key else ():
        with suppress(OSError, ValueError):
            if (
                found := ProfileStore(place.profile_dir).load(record["uid"], key, record["device"]["name"])
            ) is not None:
                return {"key": key, "runs": found["runs"], "kernels": kernels.of(found)}
    return None
