"""What goes with a report: its trace, those of the jobs beside it, and its profile, as far as the caller may read them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.profiles import ProfileStore
from fikitd.traces import TraceError, TraceStore

from fikit import profile_kernels
from fikit.errors import UserError
from fikit.page.document import Sources
from fikit.places import Place, places

MOST_PARTNERS: Final = 16

Record = Mapping[str, Any]


def sources(record: Record) -> Sources:
    """Of a checked report."""
    own = trace(record["job"], record["uid"])
    return Sources(own, {} if own is None else _partners(own), _profile(record))


def trace(job: str, uid: int) -> Record | None:
    """From fikitd while it runs, else the stored one; None where there is none that can be read."""
    for place in places():
        with suppress(DaemonUnreachable, ControlError, TraceError, UserError):
            if (found := _at(place, job, uid)) is not None:
                return found
    return None


def _partners(own: Record) -> dict[str, Record]:
    """Traces of the jobs that the job waited for or was delayed by, by job: of those whose trace the caller may read, which is the same user's."""
    jobs = sorted({str(each["job"]) for each in own["others"].values() if each["job"] not in (None, own["job"])})
    found = {job: trace(job, own["uid"]) for job in jobs[:MOST_PARTNERS]}
    return {job: each for job, each in found.items() if each is not None and each["node"] == own["node"]}


def _profile(record: Record) -> Record | None:
    """`kernels`, `runs` and `key` of the job's profile on its kind of GPU; None where there is none that can be read."""
    key = record["profile"]["key"]
    for place in places() if key else ():
        with suppress(OSError, ValueError):
            if (
                found := ProfileStore(place.profile_dir).load(record["uid"], key, record["device"]["name"])
            ) is not None:
                return {"key": key, "runs": found["runs"], "kernels": profile_kernels.of(found)}
    return None


def _at(place: Place, job: str, uid: int) -> Record | None:
    with suppress(DaemonUnreachable, ControlError):
        running: Record = Control(place.run_dir).trace(job)
        if running["uid"] == uid:
            return running
    return TraceStore(place.report_dir).load(job, uid)
