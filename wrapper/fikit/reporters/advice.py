"""What `fikit advise` found, for people: what is expected of the job, a line for each GPU, and what to type."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Iterator
from typing import Any, Final

from fikitd.base import priorities
from rich.console import RenderableType
from rich.text import Text

from fikit.reporters.grid import WORDS, Column, Grid
from fikit.wording import units

SOURCES: Final = {
    "name": "of its last {runs} run{s}", "user": "as your {runs} other run{s}", "cluster": "as the jobs of {runs} users here",
    "limit": "its time limit: nothing else is known", "nothing": "",
}  # fmt: skip
MOST_GPUS: Final = 16
MOST_BESIDE: Final = 4
MARKS: Final = {"idle": "bold green", "shares": "green", "later": "yellow", "slower": "yellow"}


def advice(found: dict[str, Any]) -> Iterator[RenderableType]:
    """Of advice.document."""
    job = found["job"]
    yield Text(f"Job {job['job']} ({job['name']})" if job["job"] else f"{job['script']} ({job['name']})", style="bold")
    yield Text("\n".join(_expected(found)))
    if found["gpus"]:
        yield gpus(found["gpus"][:MOST_GPUS], job["priority"])
        if refusals := list(_refusals(found["gpus"][:MOST_GPUS])):
            yield Text("\n".join(refusals))
    else:
        yield Text("there is no GPU for it in this partition", style="bold red")
    if (more := len(found["gpus"]) - MOST_GPUS) > 0:
        yield Text(f"and {more} more GPUs, on which it ends no sooner (--json has all)", style="dim")
    if lines := list(_alone(found)):
        yield Text("\n".join(lines))
    for each in found["advice"]:
        yield Text(f"* {each['text']}" + (f"\n    {each['line']}" if each["line"] else ""))
    yield Text("\n".join(found["notes"]), style="dim")


def gpus(offers: list[dict[str, Any]], asked: int | None) -> Grid:
    """A row for each priority of each GPU; what they have in common is in the first."""
    rows = [(offer if first else None, choice) for offer in offers for first, choice in _choices(offer)]

    def of_gpu(shown: Callable[[dict[str, Any]], str]) -> list[Text]:
        return [Text("" if offer is None else shown(offer)) for offer, _ in rows]

    def of_choice(shown: Callable[[dict[str, Any]], str]) -> list[Text]:
        return [
            Text(
                "-" if choice is None else shown(choice), style="bold" if choice and choice["priority"] == asked else ""
            )
            for _, choice in rows
        ]

    starting = [
        Text("" if offer is None else _start(offer), style=MARKS.get(offer["verdict"], "red") if offer else "")
        for offer, _ in rows
    ]
    return Grid(
        [
            Column("GPU", of_gpu(lambda offer: str(offer["gpu"])), 8),
            Column("free", of_gpu(lambda offer: f"{offer['free']} of {offer['shards']} GiB"), justify="right", goes=3),
            Column("beside", of_gpu(lambda offer: _beside(offer["beside"])), 12, goes=2),
            Column("starts", starting, WORDS),
            Column("priority", of_choice(lambda choice: str(choice["priority_name"]))),
            Column("ends in", of_choice(lambda choice: time(choice["end_s"])), justify="right"),
            Column("slowdown", of_choice(lambda choice: f"{choice['slowdown']:.2f}x"), justify="right"),
            Column("theirs", of_choice(_theirs), WORDS, goes=1),
        ]
    )


def _choices(offer: dict[str, Any]) -> Iterator[tuple[bool, dict[str, Any] | None]]:
    if not offer["choices"]:
        yield True, None
    for number, choice in enumerate(offer["choices"]):
        yield number == 0, {**choice, "priority_name": choice["priority_name"] if choice["others"] else "any"}


def _expected(found: dict[str, Any]) -> Iterator[str]:
    expected, job = found["expected"], found["job"]
    still = "runs on for" if job["elapsed_s"] else "runs"
    source = SOURCES[expected["source"]].format(runs=expected["runs"], s="" if expected["runs"] == 1 else "s")
    quartiles = expected["quartiles_s"]
    spread = (
        f", half of them {time(quartiles[0])} to {time(quartiles[2])}"
        if quartiles and expected["source"] == "name" and quartiles[0] < quartiles[2]
        else ""
    )
    alone, how = _compared(expected)
    yield (
        f"{still} {time(expected['rest_s'])}{alone} ({source}{how}{spread})"
        if source
        else f"how long it {still} nobody knows"
    )
    busy = {"name": "", "cluster": ", as is usual here", "assumed": ", which is assumed"}[expected["busy_source"]]
    yield f"keeps a GPU busy {units.share(expected['busy'])} of its time alone{busy}"
    peak = expected["peak_bytes"]
    asked = {"asked": "asked for", "peak": "by its last runs", "default": "the site's default"}[job["shards_source"]]
    if not job["shares"]:
        yield "asks for a whole GPU; what is said of sharing holds if it had a priority of fikit's"
    host = f", and {job['host_gib']} GiB on the host" if job["host_gib"] else ""
    yield (
        f"needs {units.gibibytes(peak)} at most; has {job['shards']} GiB ({asked}){host}"
        if peak
        else f"has {job['shards']} GiB of GPU memory ({asked}){host}"
    )


def _compared(expected: dict[str, Any]) -> tuple[str, str]:
    """Whether that is a time alone, and why not: a run that was not compared with its time alone is known with what it met."""
    if expected["source"] != "name":
        return "", ""
    compared = expected["compared"]
    if compared == expected["runs"]:
        return " alone", ""
    if not compared:
        return "", ", not compared with the time alone"
    return "", f", {compared} of them compared with the time alone"


def _alone(found: dict[str, Any]) -> Iterator[str]:
    alone, waiting = found["alone"], found["waiting"]
    if found["job"]["running"]:
        return
    if alone["start_s"] is not None:
        least = "at least " if alone["at_least"] else ""
        yield f"alone on {alone['gpu']}: {least}{starts(alone['start_s'])}, ends in {least}{time(alone['end_s'])}"
    else:
        yield "alone: nobody knows when a whole GPU is free"
    if before := [
        f"{number} for {what}"
        for number, what in ((waiting["whole"], "a whole GPU"), (waiting["shared"], "a part of one"))
        if number
    ]:
        yield f"wait before it: {', '.join(before)}"
    if waiting["slurm_start_s"] is not None:
        yield f"Slurm expects it to start {starts(waiting['slurm_start_s'])}, by time limits"


def _beside(neighbours: list[dict[str, Any]]) -> str:
    shown = [_neighbour(each) for each in neighbours[:MOST_BESIDE]]
    return (
        ", ".join(shown + ([f"{len(neighbours) - MOST_BESIDE} more"] if len(neighbours) > MOST_BESIDE else []))
        or "nobody"
    )


def _neighbour(neighbour: dict[str, Any]) -> str:
    facts = [_user(neighbour["uid"])]
    if not neighbour["whole"]:
        facts.append("?" if neighbour["priority"] is None else priorities.name(neighbour["priority"]))
    if neighbour["rest_s"] is not None:
        facts.append(time(neighbour["rest_s"]))
    assumed = neighbour["busy_source"] == "assumed" and not neighbour["whole"]
    return f"{neighbour['job']} ({', '.join(facts)}){'~' if assumed else ''}"


def _user(uid: int | None) -> str:
    try:
        return "?" if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _start(offer: dict[str, Any]) -> str:
    if offer["verdict"] in ("idle", "shares", "slower") or offer["start_s"] == 0:
        return "now"
    if offer["start_s"] is None:
        return "unknown" if offer["choices"] else "never"
    return starts(offer["start_s"])


def _refusals(offers: list[dict[str, Any]]) -> Iterator[str]:
    """Why each GPU is not simply there for it; GPUs of one reason in one line."""
    by_reason: dict[str, list[str]] = {}
    for each in offers:
        if each["why"]:
            by_reason.setdefault(each["why"], []).append(each["gpu"])
    return (f"{', '.join(names)}: {why}" for why, names in by_reason.items())


def _theirs(choice: dict[str, Any]) -> str:
    """Their slowdowns, in the order in which they are named."""
    return ", ".join(f"{each['slowdown']:.2f}x" for each in choice["others"][:MOST_BESIDE]) or "-"


def starts(seconds: float) -> str:
    return "now" if seconds <= 0 else f"in {time(seconds)}"


def time(seconds: float | None) -> str:
    """`3 h 10 min`, `12 min`, `45 s`; `-` where nobody knows."""
    return "-" if seconds is None else units.span(seconds)
