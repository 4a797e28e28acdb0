"""What fikitd has done with a user's rights, in a process of that user's (`worker.py`): all that reads or makes as much as the
user likes. Requests are fikitd's own; what they lead to, files and journals, is the user's.

Each kind of work takes its arguments, the chunks that follow them and descriptors, and returns a small result (JSON) and chunks.
"""

from __future__ import annotations

import os
import select
import shlex
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from fikitd._core import pack_profile, unpack_profile
from fikitd.api import traces
from fikitd.api.traces import TraceStore
from fikitd.base.validation import printable
from fikitd.gpus.residency import Link
from fikitd.profiles import memory_plan, profile_accesses, profile_store
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_key import Program, variant_of
from fikitd.profiles.profile_match import Match
from fikitd.profiles.profile_store import ProfileStore
from fikitd.workers.retention import Have, Kept, prune_own, prune_reports, prune_temporary

MOST_SENTENCES: Final = 8  # for the job's report
MOST_CHARACTERS: Final = 1000  # of one
MOST_OF_A_COMMAND: Final = 200  # characters
_IDENTITY: Final = struct.Struct("<Q")
PACKET_BYTES: Final = 32768  # of an answer on the control socket
PLAN_CPU_S: Final = 4.0
"""After which no other budget is tried: one takes 3 s at most, and a worker has 10 for a request."""
SEND_S: Final = 2.0  # a reader that takes nothing for so long is given up

Result = tuple[Any, Iterable[bytes]]
Work = Callable[[dict[str, Any], Iterator[bytes], list[int]], Result]


def do(work: str, arguments: dict[str, Any], chunks: Iterator[bytes], descriptors: list[int]) -> Result:
    """Raises OSError and ValueError with a reason for people, MemoryError, KeyError for work that is not known."""
    return _WORK[work](arguments, chunks, descriptors)


def _load_profile(arguments: dict[str, Any], chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    """The runs of a profile, or those of a program that say most of it, merged and packed for the dispatcher.

    The chunks are identities of kernels that the program has launched, eight bytes each.
    """
    skipped: list[str] = []
    store = ProfileStore(arguments["directory"])
    uid, device = arguments["uid"], arguments["device"]
    program = Program(**arguments["program"])
    if arguments["named"]:
        found = Match(store.load(uid, program.key, device, skipped.append), [], 0)
    else:
        seen = [identity for (identity,) in _IDENTITY.iter_unpack(b"".join(chunks))]
        found = store.match(uid, program, device, seen, skipped.append)
    packed = b""
    if found.profile is not None:
        packed = pack_profile(found.profile["kernels"], found.profile.get("rhythm") or {}, arguments["limit"])
    said = {
        "found": found.profile is not None,
        "sentences": _sentences(skipped),
        "stood_in": short(found.stood_in),
        "choices": found.choices,
        "edges": found.profile.get("edges") if found.profile is not None else None,
    }
    return said, [packed]


def short(command: Sequence[str]) -> str:
    """A command as one line of a report, without the path of its program."""
    words = [Path(word).name if number == 0 else word for number, word in enumerate(command)]
    line = printable(shlex.join(words))
    return line if len(line) <= MOST_OF_A_COMMAND else line[: MOST_OF_A_COMMAND - 3] + "..."


def _sentences(said: list[str]) -> list[str]:
    return [printable(sentence)[:MOST_CHARACTERS] for sentence in said[:MOST_SENTENCES]]


def _save_profile(arguments: dict[str, Any], chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    """One run's profile, which comes packed."""
    kernels, rhythm = unpack_profile(b"".join(chunks))
    if accesses := rhythm.get("accesses"):
        rhythm["accesses"] = profile_accesses.within_bounds(accesses)
    document = profile_store.document(kernels=kernels, rhythm=rhythm, **arguments["about"])
    removed: list[str] = []
    store = ProfileStore(arguments["directory"])
    variant = "" if arguments["named"] else variant_of(document["command"], document["role"])
    store.save(
        arguments["uid"], document, arguments["run"],
        sampled=arguments["sampled"], variant=variant, warn=removed.append,
    )  # fmt: skip
    return {"sentences": _sentences(removed)}, ()


def _plan_memory(arguments: dict[str, Any], chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    """What budgets would cost the iteration that a program is in, or, with a budget, the moves of its plan. None where there is nothing to plan.

    The chunks are what the program's kernels touch, packed as a profile is.
    """
    _, rhythm = unpack_profile(b"".join(chunks))
    accesses = profile_accesses.checked(rhythm.get("accesses"))
    if accesses is None or not accesses["iterations"]:
        return None, ()
    link = Link(*arguments["link_bytes_per_s"])
    budget_bytes = arguments["budget_bytes"]
    enough_s = time.process_time() + PLAN_CPU_S

    def goes_on() -> bool:
        return time.process_time() < enough_s

    if budget_bytes is None:
        outline = memory_plan.outlined(accesses, link, arguments["room_bytes"], goes_on)
        return None if outline is None else asdict(outline), ()
    found = memory_plan.planned(accesses, link, budget_bytes, goes_on)
    return (None, ()) if found is None else (asdict(found[0]), [found[1]])


def _remember_peak(arguments: dict[str, Any], _chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    peaks = MemoryHistory(ProfileStore(arguments["directory"]))
    peaks.remember(arguments["uid"], arguments["name"], arguments["job"], arguments["peak_bytes"])
    return None, ()


def _store_trace(arguments: dict[str, Any], chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    TraceStore(arguments["directory"]).save(arguments["about"], traces.pieces(chunks))
    return None, ()


def _send_trace(arguments: dict[str, Any], chunks: Iterator[bytes], descriptors: list[int]) -> Result:
    """As the answer of a request on the control socket, to whoever reads it; nothing is kept for one who does not."""
    reader = descriptors[0]
    waiting = select.poll()
    waiting.register(reader, select.POLLOUT)
    deadline = time.monotonic() + arguments["seconds"]
    buffer = bytearray(b"ok\n")

    def send(least: int) -> None:
        while len(buffer) >= least and buffer:
            rest_s = min(SEND_S, deadline - time.monotonic())
            if rest_s <= 0 or not waiting.poll(rest_s * 1000):
                raise TimeoutError(None, "it does not read its answer")
            try:
                del buffer[: os.write(reader, buffer[:PACKET_BYTES])]
            except BlockingIOError:
                continue

    for piece in traces.pieces(chunks):
        buffer += piece
        send(PACKET_BYTES)
    send(1)
    return None, ()


def _prune_own(arguments: dict[str, Any], _chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    reports, profiles, uid = Path(arguments["reports"]), Path(arguments["profiles"]), arguments["uid"]
    if arguments["temporary"]:
        prune_temporary(reports, profiles, uid)
    return list(prune_own(reports, profiles, uid, Kept(*arguments["kept"]))), ()


def _prune_before(arguments: dict[str, Any], _chunks: Iterator[bytes], _descriptors: list[int]) -> Result:
    kept, have = Kept(*arguments["kept"]), Have(*arguments["have"])
    prune_reports(Path(arguments["reports"]), arguments["uid"], kept, have)
    return None, ()


_WORK: Final[dict[str, Work]] = {
    "load_profile": _load_profile,
    "save_profile": _save_profile,
    "plan_memory": _plan_memory,
    "remember_peak": _remember_peak,
    "store_trace": _store_trace,
    "send_trace": _send_trace,
    "prune_own": _prune_own,
    "prune_before": _prune_before,
}
