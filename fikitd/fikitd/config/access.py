"""Who may ask for which priority: [access] of fikit.toml. slurmctld reads it too (fikit_access.lua), to the same effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from fikitd.base import priorities, quantities

MOST_RULES: Final = 256
LONGEST_DELAY_US: Final = 10_000_000
CONDITIONS: Final = ("account", "qos", "partition", "group")
IGNORE_CASE: Final = ("account", "qos")  # as Slurm does
LIMITS: Final = ("highest_priority", "min_allowed_slowdown", "min_allowed_delay_us")
FORMER_LIMITS: Final = {"lowest_max_slowdown": "min_allowed_slowdown", "lowest_max_delay_us": "min_allowed_delay_us"}
"""Names that they had once, by which they are still read."""


@dataclass(frozen=True)
class Limits:
    """What a job may ask for: priorities from `highest_priority` down to 9, and no more protection than this."""

    highest_priority: int
    min_allowed_slowdown: float
    min_allowed_delay_us: int


@dataclass(frozen=True)
class Rule:
    """For jobs of one of these names, under each key that has any; `limits` are the limits then, with [access]'s."""

    names: Mapping[str, tuple[str, ...]]
    limits: Limits

    def fits(self, who: Mapping[str, Collection[str] | None]) -> bool | None:
        """Whether it is for a job of these names; None when it depends on a key whose names are not known (None)."""
        unknown = False
        for key, names in self.names.items():
            actual = who.get(key)
            if actual is None:
                unknown = True
            elif not set(names) & {_folded(key, name) for name in actual}:
                return False
        return None if unknown else True


def priority_fault(value: Any) -> str | None:
    """The fault of a priority as a value of fikit.toml, as the end of a sentence; None = none."""
    if (isinstance(value, str) and value in priorities.NAMES) or (
        type(value) is int and 0 <= value <= priorities.LOWEST
    ):
        return None
    return 'must be "high", "normal", "low", or a number from 0 (highest) to 9'


def share_fault(value: Any) -> str | None:
    try:
        quantities.share(value if isinstance(value, str) else "")
    except ValueError:
        return 'must be a share of 0 to 100 %, as "5%"'
    return None


def delay_fault(value: Any) -> str | None:
    fine = type(value) is int and 0 <= value <= LONGEST_DELAY_US
    return None if fine else f"must be a whole number from 0 to {LONGEST_DELAY_US}"


def rules_fault(value: Any) -> str | None:
    """The first fault of [[access.rule]], as the end of a sentence; None = none."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_RULES:
        return f"must be written as [[access.rule]], {MOST_RULES} times at most"
    for number, rule in enumerate(value, 1):
        fault = _rule_fault(rule) if isinstance(rule, dict) else "must be a table"
        if fault:
            return f"number {number}: {fault}"
    return None


def text_fault(text: str) -> str | None:
    """What slurmctld's reader of TOML would not understand in a file with rules."""
    if '"""' in text or "'''" in text or "\\u" in text.lower():
        return "slurmctld reads [access], too, and knows no strings of several lines and no \\u: write the file without"
    return "slurmctld reads [access], too, and no file longer than 64 KiB" if len(text.encode()) > 65_536 else None


def limits_of(access: Any) -> Limits:
    """Of jobs that no rule is for. `access` is fikitd.config.fikit_toml's AccessConfig."""
    return _limits({key: getattr(access, key) for key in LIMITS})


def rules_of(access: Any) -> Sequence[Rule]:
    """In the order of the file: the first that fits a job decides."""
    base = {key: getattr(access, key) for key in LIMITS}
    return [Rule(_names(rule), _limits({**base, **rule})) for rule in access.rule]


def limits_for(access: Any, who: Mapping[str, Collection[str]]) -> Limits:
    """What a job of these names may ask for; a key that is missing has none."""
    known = {key: who.get(key, ()) for key in CONDITIONS}
    return next((rule.limits for rule in rules_of(access) if rule.fits(known)), limits_of(access))


def _limits(values: Mapping[str, Any]) -> Limits:
    return Limits(
        highest_priority=priorities.parse(str(values["highest_priority"])),
        min_allowed_slowdown=quantities.share(values["min_allowed_slowdown"]),
        min_allowed_delay_us=values["min_allowed_delay_us"],
    )


def _names(rule: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    written = {key: [rule[key]] if isinstance(rule[key], str) else rule[key] for key in CONDITIONS if key in rule}
    return {key: tuple(_folded(key, name) for name in names) for key, names in written.items()}


def _folded(key: str, name: str) -> str:
    if key not in IGNORE_CASE:
        return name
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _rule_fault(rule: dict[str, Any]) -> str | None:
    checks = {
        "highest_priority": priority_fault,
        "min_allowed_slowdown": share_fault,
        "min_allowed_delay_us": delay_fault,
    }
    for key, value in rule.items():
        if key in CONDITIONS:
            fault = _names_fault(value)
        elif key in checks:
            fault = checks[key](value)
        else:
            close = get_close_matches(key, [*CONDITIONS, *LIMITS], n=1)
            near = f'did you mean "{close[0]}"?' if close else f"known are {', '.join([*CONDITIONS, *LIMITS])}"
            return f'unknown key "{key}"; {near}'
        if fault:
            return f"{key} {fault}"
    return None if any(key in rule for key in CONDITIONS) else "it names no account, qos, partition or group"


def _names_fault(value: Any) -> str | None:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(name, str) and name for name in names):
        return None
    return 'must be a name or a list of names, as ["a", "b"]'
