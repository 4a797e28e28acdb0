"""One finding of `fikit doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One finding. `warn`: something does not work that a user may not need; `fail`: fikit cannot do its work.

    `advice` says what to do, and is empty when there is nothing to do.
    """

    name: str
    status: Status
    found: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def ok(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warn(name: str, found: str, advice: str) -> Check:
    return Check(name, "warn", found, advice)


def fail(name: str, found: str, advice: str) -> Check:
    return Check(name, "fail", found, advice)
