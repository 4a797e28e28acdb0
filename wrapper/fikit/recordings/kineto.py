"""PyTorch's profiler (Kineto): the JSON that `torch.profiler` exports, in the trace event format of Chrome's about:tracing. Pure.

Of its events those count that have a category of CUDA's (or HIP's): calls of runtime and driver, kernels, copies, sets. A call and its work have
the same `correlation`. Times are microseconds. Older releases begin categories with a capital.
Source: pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any, Final

from fikitd.base.validation import no_constant

from fikit.recordings.timeline import MOST_BYTES, MOST_COUNT, MOST_NS, Call, NoTimeline, Shape, Timeline, Work

CALLS: Final = ("cuda_runtime", "cuda_driver", "runtime", "driver")
KERNELS: Final = ("kernel",)
MEMORY: Final = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


def read(text: str) -> Timeline:
    """NoTimeline: it is no such JSON, or one of the events that count says something that it cannot mean."""
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise NoTimeline(f"it is no JSON: {error}") from None
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise NoTimeline("it is JSON, but has no list of traceEvents, as a profiler's trace has")
    found = Timeline()
    for number, event in enumerate(events):
        if isinstance(event, dict) and event.get("ph") == "X":
            try:
                _take(found, event)
            except (ValueError, TypeError) as error:
                raise NoTimeline(f"its event {number} is none of a profiler: {error}") from None
    _one_process(found)
    return found


def _take(found: Timeline, event: Mapping[str, Any]) -> None:
    category = str(event.get("cat", "")).lower()
    take: Callable[[Timeline, Mapping[str, Any]], None] | None = (
        _call if category in CALLS else _kernel if category in KERNELS else _memory if category in MEMORY else None
    )
    if take is None:
        return
    if "dur" not in event or _ns(event, "dur") < 0:
        found.unusable += 1
    else:
        take(found, event)


def _call(found: Timeline, event: Mapping[str, Any]) -> None:
    call = Call(_name(event), _ns(event, "ts"), _ns(event, "dur"), (_id(event, "pid"), _id(event, "tid")))
    found.called(_correlation(event), call)


def _kernel(found: Timeline, event: Mapping[str, Any]) -> None:
    found.work.append(
        Work(
            "K", _name(event), _ns(event, "ts"), _ns(event, "dur"), _place(event, "device", "pid"), _place(event, "stream", "tid"),
            _correlation(event), _shape(event, "grid"), _shape(event, "block"),
            _count(event, "registers per thread", MOST_COUNT), _count(event, "shared memory", MOST_COUNT),
        )
    )  # fmt: skip


def _memory(found: Timeline, event: Mapping[str, Any]) -> None:
    found.work.append(
        Work(
            "M", _name(event), _ns(event, "ts"), _ns(event, "dur"), _place(event, "device", "pid"), _place(event, "stream", "tid"),
            _correlation(event), size_bytes=_count(event, "bytes", MOST_BYTES),
        )
    )  # fmt: skip


def _one_process(found: Timeline) -> None:
    """Work does not say whose it is, and every process counts its calls from the beginning."""
    processes = {call.thread[0] for call in found.calls.values() if isinstance(call.thread, tuple)}
    if len(processes) > 1:
        raise NoTimeline(
            f"it has calls of {len(processes)} processes, and does not say whose the kernels are: take the file of one"
        )


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = event.get("args", {})
    if not isinstance(arguments, dict):
        raise ValueError("its args are no object")
    return arguments


def _name(event: Mapping[str, Any]) -> str:
    name = event.get("name", "")
    if not isinstance(name, str):
        raise ValueError("its name is no text")
    return name


def _id(event: Mapping[str, Any], key: str) -> Hashable:
    """Of a process or thread: profilers use numbers and texts."""
    value = event.get(key, 0)
    if not isinstance(value, int | str | Decimal):
        raise ValueError(f"its {key} is neither a number nor a text")
    return value


def _place(event: Mapping[str, Any], key: str, otherwise: str) -> Hashable:
    """A GPU or stream, by its arguments, else by where the event stands in the picture."""
    arguments = _arguments(event)
    return _id(arguments if key in arguments else event, key if key in arguments else otherwise)


def _correlation(event: Mapping[str, Any]) -> tuple[Hashable, int]:
    return None, _count(event, "correlation", MOST_BYTES)


def _ns(event: Mapping[str, Any], key: str) -> int:
    """From microseconds."""
    value = event.get(key)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | Decimal)
        or not -MOST_NS // 1000 <= value <= MOST_NS // 1000
    ):
        raise ValueError(f"its {key} is no time in microseconds")
    return round(value * 1000)


def _count(event: Mapping[str, Any], key: str, most: int) -> int:
    value = _arguments(event).get(key, 0)
    if isinstance(value, Decimal) and value <= most and value == value.to_integral_value():
        value = int(value)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"its {key} is no number from 0 to {most}")
    return value


def _shape(event: Mapping[str, Any], key: str) -> Shape | None:
    value = _arguments(event).get(key)
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 3
        or any(type(each) is not int or not 0 <= each <= MOST_COUNT for each in value)
    ):
        raise ValueError(f"its {key} is no list of three sizes")
    return value[0], value[1], value[2]
