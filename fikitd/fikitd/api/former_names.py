"""Names that fields had once: of reports, of `fikit demo`'s summary.json and of the ledger. Fields of fikit.toml: fikitd.config.former_keys.

Nodes are not updated all at once, and scripts read the JSON. So a document with former names is read as if it had those of today, and for
one release fikit writes both, with the same value. A name leaves FORMER_NAMES after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Document = Literal["report", "demo", "ledger"]

FORMER_NAMES: Final[dict[Document, dict[str, str]]] = {
    "report": {"solo_s": "span_alone_s", "held": "wait_reasons", "delayed": "delays"},
    "demo": {"solo_s": "alone_s"},  # of a job in it
    "ledger": {"solo_ns": "span_alone_ns"},  # of its totals
}
"""By document: what a field was called, and what it is called."""


def renamed(document: Document, fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` under the names of today. Of a field that is there under both of its names today's counts."""
    names = FORMER_NAMES[document]
    return {names.get(name, name): value for name, value in fields.items() if names.get(name) not in fields}


def with_former(document: Document, fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields`, and those that have a former name under that as well."""
    former = {name: fields[now] for name, now in FORMER_NAMES[document].items() if now in fields}
    return {**fields, **former}
