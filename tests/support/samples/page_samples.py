"""A job's trace and profile in the shapes of docs/design/contracts.md, and a page's figures and texts, for the tests of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from cli_samples import DEVICE, REPORT

MS = 1_000_000
ABOUT = {key: REPORT[key] for key in ("job", "name", "uid", "node", "priority", "policy", "state", "device")}


def launch(end_ms: float, length_ms: float) -> list[Any]:
    return ["launch", round((end_ms - length_ms) * MS), round(length_ms * MS), round(end_ms * MS), 1, "none", None]


def wait(from_ms: float, length_ms: float, by: int, reason: str = "behind") -> list[Any]:
    return ["wait", round(from_ms * MS), round(length_ms * MS), 0, 1, reason, by]


def trace(*events: list[Any], job: str = "12", gpu: str = "GPU-0", **facts: Any) -> dict[str, Any]:
    client = {"pid": 7, "gpu": gpu, "lost": 0, "kernels": {"1": "gemm"}, "events": list(events)}
    others = {
        "3": {"job": "17", "priority": 0},
        "4": {"job": "18", "priority": 8},
        "5": {"job": None, "priority": 1},
        "6": {"job": "12", "priority": 1},
    }
    return {"format": "fikit-trace", "version": 1, **ABOUT, "job": job, "clients": [client], "others": others, **facts}


# 100 ms: of this job's kernels 10-30 and 50-90, of job 18's 30-50 (of which 30-40 within) and 90-140, waits 0-10 and 30-40.
TRACE = trace(
    launch(30, 20), launch(80, 30), launch(90, 20), ["launch", 95 * MS, -1, -1, 1, "none", None], wait(0, 10, 3), wait(30, 10, 6, "run_ahead"),
    wait(50, 5, 4, "lower_work"), ["drain", 100 * MS, 0, 0, 0, "none", None], wait(99, 1, 5),
)  # fmt: skip
PARTNER = trace(launch(50, 20), launch(140, 50), job="18", priority=8)
PROFILE = {
    "key": "classify-0a1b2c3d", "runs": 3,
    "kernels": [
        {"name": f"k{number}", "grid": [4, 4, 1], "block": [64, 1, 1], "count": 10 + number, "mean_ns": 120e3, "p50_ns": 119e3, "p99_ns": 131e3,
         "gap_ns": 2e3, "total_ns": 120e3 * (10 + number), "beside": number == 0, "doubtful": False}
        for number in range(23)
    ],
}  # fmt: skip
HOSTILE = (
    '</style></title><script>document.title="pwned"</script><img src=x onerror=\'document.title="pwned"\'>"\'{{7*7}}'
)
DEVICE_NAME = DEVICE["name"]


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    path: tuple[str, ...] = ()


@dataclass
class Seen(HTMLParser):
    """Every element with its text, and whether tags are closed in their order."""

    elements: list[Element] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), path=tuple(each.tag for each in self._open))
        self.elements.append(element)
        if tag not in ("meta", "br"):
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), path=tuple(each.tag for each in self._open)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.wrong.append(f"</{tag}> in {[each.tag for each in self._open]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        return [
            each for each in self.elements
            if each.tag == tag and all((each.attributes.get(key.strip("_")) or "") == value for key, value in attributes.items())
        ]  # fmt: skip


def seen(page: str) -> Seen:
    found = Seen()
    found.feed(page)
    found.close()
    return found
