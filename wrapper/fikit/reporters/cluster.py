"""`fikit top --all`: a line for each node, GPU and broken promise, of whatever width. Names are others', so nothing in them is markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from fikitd.base import priorities
from fikitd.base.quantities import percent
from fikitd.base.validation import printable
from rich.text import Text

from fikit.cluster.view import Broken, Cluster, Gpu, Job, Node, Totals, totals
from fikit.reporters import table
from fikit.wording import mig, units

MOST_REFUSED: Final = 3
MODEL_WIDTH: Final = 10
NAME_WIDTH: Final = 20


def document(cluster: Cluster, now: datetime) -> dict[str, Any]:
    """As --json prints it."""
    return {
        "time": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", "totals": asdict(totals(cluster.nodes)),
        "nodes": [asdict(node) for node in cluster.nodes], "refused": dict(cluster.refused), "notes": list(cluster.notes),
    }  # fmt: skip


def lines(cluster: Cluster, nodes: Iterable[Node] | None = None) -> Iterator[Text]:
    """Everything: what it comes to, each node with its GPUs, the promises that were broken today, what is not known."""
    shown = list(cluster.nodes if nodes is None else nodes)
    yield from map(Text, summary(totals(cluster.nodes)))
    for node in shown:
        yield heading(node)
        yield from (gpu(each) for each in node.gpus)
        yield from ([elsewhere(node)] if node.elsewhere else [])
    yield from broken(cluster.nodes)
    for name, why in list(cluster.refused.items())[:MOST_REFUSED]:
        yield Text(f"{name} is not believed: {why}", style="yellow")
    if (more := len(cluster.refused) - MOST_REFUSED) > 0:
        yield Text(f"and {more} more status files are not believed", style="yellow")
    unknown = [each.name for node in shown for each in node.gpus if each.use is None]
    yield from (Text(printable(note), style="yellow") for note in (*cluster.notes, *mig.note(unknown)))


def summary(found: Totals) -> Iterator[str]:
    """`1 000 nodes, 4 000 GPUs: 1 000 shared, 2 000 with one job alone (500 of them less than 20 % busy), 1 000 idle` and today's sums."""
    facts = [f"{units.count(found.shared)} shared"]
    facts.append(f"{units.count(found.alone)} with one job alone{_would_share(found)}")
    facts.append(f"{units.count(found.idle)} idle")
    facts += [f"{units.count(found.unknown_gpus)} not known"] if found.unknown_gpus else []
    yield f"{_many(found.nodes, 'node')}, {_many(found.gpus, 'GPU')}: {', '.join(facts)}"
    today = found.today
    promised = [
        f"kept: {units.count(round(today['kept']))}",
        f"broken: {units.count(round(today['exceeded']))}",
    ]
    promised += [f"not known: {units.count(round(today['unknown']))}"] if today["unknown"] else []
    yield f"today: {hours(today['harvest_s'])} filled by lower jobs, of {hours(today['gpu_s'])} GPU time; promises {', '.join(promised)}"
    silent = [f"{_many(found.late, 'node')} late"] if found.late else []
    silent += [f"{_many(found.silent, 'node')} without a status file"] if found.silent else []
    if silent:
        yield ", ".join(silent)


def heading(node: Node) -> Text:
    """`gpu17  idle  filled 3.2 h today, kept 12, broken 1  5 s ago`"""
    text = Text(printable(node.node), style="bold", no_wrap=True, overflow="ellipsis")
    facts = [node.state] if node.state else []
    if node.today is not None:
        facts.append(f"filled {hours(node.harvest_s)} today")
        facts += [f"kept {round(node.today['kept'])}"] if node.today["kept"] else []
    text.append(f"  {'  '.join(map(printable, facts))}" if facts else "", style="not bold")
    if node.exceeded:
        text.append(f"  broken {node.exceeded}", style="not bold red")
    text.append(f"  {_age(node)}", style="not bold yellow" if node.late else "not bold dim")
    return text


def gpu(one: Gpu) -> Text:
    """`  GPU 0 H200    96 %  31.0/141 GiB  12 serve.sh ana high 44 % +3 % of 5 % · 18 train.sh bob low 52 %`"""
    which = f"GPU {'-' if one.index is None else one.index}"
    text = Text(f"  {which:<6} {_cut(printable(_model(one)), MODEL_WIDTH)} ", no_wrap=True, overflow="ellipsis")
    text.append(f"{('~' if one.by_nvml else '') + units.share(one.use):>6} {_memory(one):>14}  ")
    if one.shared:
        for number, job in enumerate(one.jobs):
            text.append(" · " if number else "")
            text.append_text(_job(job))
    elif one.jobs:
        text.append(printable(f"alone: {_who(one.jobs[0])}"))
        text.append("  could share" if one.would_share else "", style="yellow")
    elif one.told:
        text.append("idle" if not one.unmanaged else "", style="dim")
    else:
        text.append("not known who has it", style="dim")
    if one.harvest_s >= 60:
        text.append(f"  filled {hours(one.harvest_s)} today", style="dim")
    if one.unmanaged:
        text.append(f"  {_many(one.unmanaged, 'process', 'processes')} around fikit", style="yellow")
    return text


def elsewhere(node: Node) -> Text:
    """Jobs of which nobody says which GPU they have."""
    return Text(
        printable(f"  on one of them: {' · '.join(map(_who, node.elsewhere))}"), no_wrap=True, overflow="ellipsis"
    )


def broken(nodes: Iterable[Node]) -> Iterator[Text]:
    """The newest first."""
    found = [(each, node.node) for node in nodes for each in node.broken]
    for each, node in sorted(found, key=lambda pair: -pair[0].ended_s):
        yield Text(printable(f"broken: {_broken(each, node)}"), style="red", no_wrap=True, overflow="ellipsis")


def hours(seconds: float) -> str:
    """GPU hours, `3.2 h`; seconds and minutes below."""
    return units.span(seconds) if 0 < seconds < 3600 else f"{seconds / 3600:,.1f} h".replace(",", " ")


def _broken(each: Broken, node: str) -> str:
    by = "" if each.slowdown is None else f" {units.share(each.slowdown - 1, signed=True)}"
    allowed = "" if each.max_slowdown is None else f" of {percent(each.max_slowdown)}"
    ended = datetime.fromtimestamp(each.ended_s).strftime("%H:%M")
    return (
        f"job {each.job} {table.user(each.uid)} {priorities.name(each.priority)} on {node}{by}{allowed}, ended {ended}"
    )


def _job(job: Job) -> Text:
    name = priorities.name(job.priority) if job.priority is not None else ""
    text = Text(f"{printable(_who(job))} ")
    text.append(name, style=table.PRIORITY_STYLES.get(name, ""))
    text.append(f" {units.share(job.share)}" if job.share is not None else "")
    if job.slowdown is not None:
        allowed = "" if job.max_slowdown is None else f" of {percent(job.max_slowdown)}"
        over = job.max_slowdown is not None and job.slowdown - 1 > job.max_slowdown
        text.append(f" {units.share(job.slowdown - 1, signed=True)}{allowed}", style="red" if over else "")
    return text


def _who(job: Job) -> str:
    name = job.name if len(job.name) <= NAME_WIDTH else f"{job.name[: NAME_WIDTH - 1]}…"
    return " ".join(filter(None, (job.job, name, table.user(job.uid))))


def _memory(one: Gpu) -> str:
    if one.memory_bytes is None:
        return ""
    held = "" if one.held_bytes is None else f"{units.gibibytes(one.held_bytes).removesuffix(' GiB')}/"
    return f"{held}{units.gibibytes(one.memory_bytes)}"


def _model(one: Gpu) -> str:
    return table.device({"name": one.name, "emulated": one.emulated})


def _age(node: Node) -> str:
    if node.age_s is None:
        return "no status file"
    age = units.span(max(round(node.age_s), 1))
    return f"late: {age} ago" if node.late else f"{age} ago"


def _would_share(found: Totals) -> str:
    if not found.watched:
        return ""
    return f" ({units.count(found.would_share)} of {units.count(found.watched)} less than 20 % busy now)"


def _many(number: int, one: str, many: str = "") -> str:
    return f"{units.count(number)} {one if number == 1 else many or f'{one}s'}"


def _cut(text: str, width: int) -> str:
    return f"{text[: width - 1]}…" if len(text) > width else text.ljust(width)
