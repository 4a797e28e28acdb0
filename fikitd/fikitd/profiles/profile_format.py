"""The profile document: checking one that somebody wrote, and merging several (D10).

A profile says, for each kernel identity and context, how long it ran and how long the device was idle after it, and where
the program's host waits (profile_rhythm). Files are
the user's own and may hold anything: every number is bounded here, once, so that nobody behind has to ask again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fikitd._core import merge_statistics
from fikitd.api.job_time import Edges
from fikitd.base import schema
from fikitd.base.validation import integer, is_name, number, printable, string
from fikitd.profiles import profile_rhythm
from fikitd.profiles.profile_key import ROLES, variant_of

FORMAT: Final = "fikit-profile"
VERSION: Final = 1
MAX_KERNELS: Final = 50_000
MAX_BUCKETS: Final = 1024
MAX_COUNT: Final = 2**53
MAX_NS: Final = 10**15  # eleven days: longer than a kernel or a gap can sensibly be
_BUCKETS: Final = frozenset(map(str, range(MAX_BUCKETS)))
_HEX16 = re.compile(r"[0-9a-f]{1,16}", re.ASCII)

NOTHING: Final = {"count": 0, "mean_ns": 0.0, "m2": 0.0, "histogram": {}}

Profile = dict[str, Any]
Kernel = Mapping[str, Any]
Statistics = Mapping[str, Any]


def parse(data: bytes) -> Profile:
    """A checked profile; ValueError with the reason, as the end of a sentence, for anything that is not one."""
    return checked(schema.document(data))


def checked(document: Any) -> Profile:
    """`document` with known fields only, all within bounds; ValueError says what is not."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f'its format is not "{FORMAT}"')
    if document.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    key = string(document.get("key"), "key", 64)
    if not is_name(key):
        raise ValueError("key is not a profile name")
    command = _list(document.get("command", []), "command", 10_000)
    if (role := document.get("role", "")) not in ROLES:
        raise ValueError("role is none")
    device = document.get("device")
    if not isinstance(device, dict):
        raise ValueError("device is missing")
    return {
        "format": FORMAT,
        "version": VERSION,
        "key": key,
        "command": [printable(string(word, "command", 2**17)) for word in command],
        "role": role,
        "created": printable(string(document.get("created", ""), "created", 64)),
        "device": {
            "name": printable(string(device.get("name"), "device.name", 256)),
            "memory_bytes": integer(device.get("memory_bytes", 0), "device.memory_bytes", 0, 2**63),
            "emulated": device.get("emulated") is True,
        },
        "span_ns": integer(document.get("span_ns", 0), "span_ns", 0, 2**63),
        "launches": integer(document.get("launches", 0), "launches", 0, MAX_COUNT),
        "peak_bytes": integer(document.get("peak_bytes", 0), "peak_bytes", 0, 2**63),
        "edges": edges_of(document.get("edges"))._asdict(),
        "kernels": [_kernel(kernel) for kernel in _list(document.get("kernels"), "kernels", MAX_KERNELS)],
        "rhythm": profile_rhythm.checked(document.get("rhythm")),
    }


def edges_of(raw: Any) -> Edges:
    """How long the start and the end of a run took; ValueError for what is none. Profiles of before do not know: 0."""
    if raw is None:
        return Edges(0, 0, 0)
    if not isinstance(raw, dict):
        raise ValueError("edges is not an object")
    return Edges(*(integer(raw.get(name, 0), f"edges.{name}", 0, MAX_NS) for name in Edges._fields))


def plausible(edges: Edges) -> Edges:
    """Those of a job whose record, or whose machine's clock, is years off are not known."""
    return edges if all(0 <= ns <= MAX_NS for ns in edges) else Edges(0, 0, 0)


def _kernel(raw: Any) -> Kernel:
    if not isinstance(raw, dict):
        raise ValueError("a kernel is not an object")
    context = _list(raw.get("context", []), "context", 3)
    if len(context) not in (0, 3):
        raise ValueError("context is neither empty nor three identities")
    return {
        "name": printable(string(raw.get("name"), "name of a kernel", 1023)),
        "module": _hex(raw.get("module"), "module"),
        "grid": _triple(raw.get("grid"), "grid"),
        "block": _triple(raw.get("block"), "block"),
        "shared_bytes": integer(raw.get("shared_bytes", 0), "shared_bytes", 0, 2**32 - 1),
        "kind": integer(raw.get("kind", 0), "kind", 0, 2),
        "context": [_hex(identity, "context") for identity in context],
        "duration": _statistics(raw.get("duration"), "duration"),
        "gap": _statistics(raw.get("gap"), "gap"),
        "boundary": _statistics(raw.get("boundary", NOTHING), "boundary"),
        **{mark: True for mark in ("beside", "doubtful") if raw.get(mark) is True},
    }


def _statistics(raw: Any, what: str) -> Statistics:
    if not isinstance(raw, dict):
        raise ValueError(f"{what} is not an object")
    histogram = raw.get("histogram", {})
    if not isinstance(histogram, dict) or len(histogram) > MAX_BUCKETS:
        raise ValueError(f"histogram of {what} is not an object of at most {MAX_BUCKETS} buckets")
    # The bulk of a profile: told apart at dictionary speed, without a call per bucket.
    for bucket, count in histogram.items():
        if bucket not in _BUCKETS:
            raise ValueError(f"histogram of {what} has a bucket that does not exist")
        if type(count) is not int or not 0 <= count <= MAX_COUNT:
            raise ValueError(f"histogram of {what} has a count that is not an integer from 0 to {MAX_COUNT}")
    return {
        "count": integer(raw.get("count"), f"count of {what}", 0, MAX_COUNT),
        "mean_ns": number(raw.get("mean_ns"), f"mean_ns of {what}", MAX_NS),
        "m2": number(raw.get("m2", 0.0), f"m2 of {what}", 1e45),
        "histogram": histogram,
    }


def _list(raw: Any, what: str, limit: int) -> list[Any]:
    if not isinstance(raw, list) or len(raw) > limit:
        raise ValueError(f"{what} is not a list of at most {limit}")
    return raw


def _triple(raw: Any, what: str) -> list[int]:
    if not isinstance(raw, list) or len(raw) != 3:
        raise ValueError(f"{what} is not three numbers")
    return [integer(n, what, 0, 2**32 - 1) for n in raw]


def _hex(raw: Any, what: str) -> str:
    if not isinstance(raw, str) or not _HEX16.fullmatch(raw):
        raise ValueError(f"{what} is not 16 hexadecimal digits")
    return raw


def _identity(kernel: Kernel) -> tuple[Any, ...]:
    shape = (*kernel["grid"], *kernel["block"], kernel["shared_bytes"], kernel["kind"])
    return (kernel["name"], kernel["module"], shape, tuple(kernel["context"]))


def _shortest(edges: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """A first run compiles, a later one does not: what a start takes alone is what the shortest took."""
    known = [each for each in edges if each.get("start_ns")]
    leads = [lead_ns for each in known if (lead_ns := each["lead_ns"])]  # those of processes that came alone
    return {
        "lead_ns": min(leads, default=0),
        **{name: min((each[name] for each in known), default=0) for name in ("start_ns", "end_ns")},
    }


def merge(profiles: Iterable[Profile]) -> Profile | None:
    """One profile that says what all of them say, in an order of its own; None of none. Gains fields `runs` and `variants`.

    Facts that cannot be added (command, device) are those of the newest. Times taken beside other jobs, and doubtful ones, count
    only of kernels that nobody timed alone, and stay apart.
    """
    every = sorted(profiles, key=lambda profile: str(profile["created"]))
    if not every:
        return None
    timed = [kernel for profile in every for kernel in profile["kernels"]]
    alone = {_identity(kernel)[:-1] for kernel in timed if not kernel.get("beside") and kernel["duration"]["count"] > 0}
    kernels: dict[tuple[Any, ...], Kernel] = {}
    for kernel in timed:
        if kernel.get("beside") and _identity(kernel)[:-1] in alone:
            continue
        key = (*_identity(kernel), kernel.get("doubtful", False))
        known = kernels.get(key)
        if known is not None:
            kernel = {  # noqa: PLW2901
                **known,
                "duration": merge_statistics(known["duration"], kernel["duration"]),
                "gap": merge_statistics(known["gap"], kernel["gap"]),
                "boundary": merge_statistics(known["boundary"], kernel["boundary"]),
            }
        kernels[key] = kernel
    return {
        **every[-1],
        "span_ns": sum(profile["span_ns"] for profile in every),
        "launches": sum(profile["launches"] for profile in every),
        "peak_bytes": max(profile["peak_bytes"] for profile in every),
        "edges": _shortest(profile.get("edges", {}) for profile in every),
        "runs": sum(profile.get("runs", 1) for profile in every),
        "variants": len({variant_of(profile["command"], profile["role"]) for profile in every}),
        "kernels": [kernels[identity] for identity in sorted(kernels)],
        "rhythm": profile_rhythm.merge(profile["rhythm"] for profile in every),
    }
