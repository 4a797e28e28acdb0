"""The trace of a job: checking one that somebody wrote (docs/design/contracts.md, "Traces").

As a report, it is its user's own file, and root turns it into a picture.
"""

from __future__ import annotations

from typing import Any, Final

from fikitd.api.report_format import ABOUT, MODE
from fikitd.base import schema
from fikitd.base.schema import by_name, name, null_or, one_of, several, text, whole
from fikitd.base.validation import printable

FORMAT: Final = "fikit-trace"
VERSION: Final = 1

Trace = dict[str, Any]

_MAX_CLIENTS: Final = 4096
MAX_EVENTS: Final = 2**20  # of all clients together: some 300 MB, once they are objects
MAX_VALUES: Final = 10 * MAX_EVENTS
_MAX_NS: Final = 2**63
_OTHER = schema.fields({"job": null_or(name), "priority": null_or(whole(0, 9))})


def _event(value: Any, what: str) -> list[Any]:
    """kind, three times, slot, reason, client that is blamed. The bulk of a trace: told apart without a call per value."""
    if not isinstance(value, list) or len(value) != 7:
        raise ValueError(f"{what} is not a list of 7")
    kind, *numbers, reason, by = value
    if type(kind) is not str or len(kind) > 16 or type(reason) is not str or len(reason) > 64:
        raise ValueError(f"{what} has no kind or no reason")
    if by is None:
        by = 0
    for number in (*numbers, by):
        if type(number) is not int or not -_MAX_NS <= number < _MAX_NS:
            raise ValueError(f"{what} has a number that is none")
    return [printable(kind), *numbers, printable(reason), value[6]]


_CLIENT = schema.fields(
    {
        "pid": whole(), "gpu": text(96), "lost": whole(), "kernels": by_name(text(1024), 2**17),
        "events": several(_event, MAX_EVENTS),
    }
)  # fmt: skip
_TRACE = schema.fields(
    {
        "format": one_of(FORMAT), "version": whole(VERSION, VERSION), **ABOUT,
        "clients": several(_CLIENT, _MAX_CLIENTS), "others": by_name(_OTHER, 2**17),
    },
    {"device_mode": MODE},  # which traces of before do not have
)  # fmt: skip


def parse(data: bytes) -> Trace:
    """A checked trace; ValueError with the reason, as the end of a sentence, for anything that is not one."""
    return checked(schema.document(data, MAX_VALUES))


def checked(document: Any) -> Trace:
    """`document` with known fields only, all within bounds; ValueError says what is not."""
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"it is not a version {VERSION} {FORMAT} file")
    trace: Trace = _TRACE(document, "the trace")
    return trace
