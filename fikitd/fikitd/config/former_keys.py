"""Names that keys of fikit.toml had once. A file with them is read as if it had the names of today, and says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fikitd.config import access

FORMER_KEYS: Final[dict[str, dict[str, str]]] = {
    "daemon": {"forget_s": "orphan_timeout_s"},
    "scheduler": {
        "epsilon_us": "min_gap_us",
        "mark_every": "marker_interval",
        "ageing_ms": "starvation_timeout_ms",
        **access.FORMER_LIMITS,
    },
    "access": access.FORMER_LIMITS,
}
"""By section: what a key was called, and what it is called. slurm_plugin/lua/fikit_access.lua knows [access]'s, too."""

Fault = tuple[tuple[str, ...], str]  # the keys that lead to it in the file, and a sentence


@dataclass(frozen=True, order=True)
class RenamedKey:
    """A key of the file that has another name today."""

    section: str
    former: str
    now: str

    @property
    def sentence(self) -> str:
        """What to tell who wrote it."""
        return (
            f"{self.former} in [{self.section}] is called {self.now} now: write {self.now}, "
            "the old name will not be known for ever"
        )


def renamed(document: dict[str, Any]) -> tuple[dict[str, Any], list[RenamedKey], list[Fault]]:
    """The document of fikit.toml with the names of today; which keys had others, those of [[access.rule]] among [access]'s; and a fault for
    each that stands there under both of its names. Sections that are no tables are left as they are: others say so."""
    found: set[RenamedKey] = set()
    twice: list[Fault] = []

    def today(section: str, values: dict[str, Any]) -> dict[str, Any]:
        names = FORMER_KEYS[section]
        for former in sorted(names.keys() & values.keys()):
            if (now := names[former]) in values:
                twice.append(((section, former), f"{former} in [{section}] is {now}, which stands there, too"))
            else:
                found.add(RenamedKey(section, former, now))
        return {names.get(key, key): value for key, value in values.items()}

    result = dict(document)
    for section in FORMER_KEYS.keys() & document.keys():
        if isinstance(document[section], dict):
            result[section] = today(section, document[section])
    rules = result["access"].get("rule") if isinstance(result.get("access"), dict) else None
    if isinstance(rules, list):
        result["access"]["rule"] = [today("access", rule) if isinstance(rule, dict) else rule for rule in rules]
    return result, sorted(found), twice
