"""Who may use which priority: is the file one that slurmctld believes, and does Slurm enforce what the rules go by?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from fikitd.base import priorities
from fikitd.config import fikit_toml
from fikitd.config.access import rules_of

from fikit.checks.check import Check, fail, ok, warn
from fikit.slurm.config import words_of

ENFORCED = {"account": "associations", "qos": "qos"}
IMPLY_ASSOCIATIONS = {"limits", "qos", "safe", "wckeys"}
NO_RULES = fikit_toml.AccessConfig()


def area(settings: Mapping[str, str], source: str, default_priority: str | None) -> Iterator[Check]:
    """settings: of slurm.conf, by the word of `source`. default_priority: of the plugin's line in plugstack.conf."""
    path = Path(os.environ.get(fikit_toml.ENV_CONFIG) or fikit_toml.DEFAULT_PATH)
    try:
        site = fikit_toml.load()
    except fikit_toml.ConfigError:
        return  # said elsewhere
    yield agreed(site.slurm.default_priority, default_priority, path)
    if site.access != NO_RULES:
        yield believed(path)
        yield enforced(site.access, settings, source)


def agreed(here: str | int, there: str | None, path: Path) -> Check:
    """fikit.toml says it to slurmctld and to the nodes; where plugstack.conf does, too, jobs get the lower of the two."""
    if there is None:
        return ok("default_priority", str(here))
    advice = f"take default_priority= out of plugstack.conf: {path} says it to all"
    try:
        same = priorities.parse(str(here)) == priorities.parse(there)
    except ValueError:
        same = False
    if same:
        return warn("default_priority", f"{there}, which plugstack.conf says as well", advice)
    return fail("default_priority", f"{there} in plugstack.conf, {here} in {path}: jobs get the lower one", advice)


def believed(path: Path) -> Check:
    """As fikit_site.lua looks at it: a file with rules that others than root can write counts as broken."""
    try:
        seen = [(place, place.stat()) for place in (path, path.parent)]
    except OSError as error:
        return warn("access rules", f"{path} cannot be looked at: {error.strerror}", "run the doctor as root")
    for place, status in seen:
        if status.st_mode & 0o022:
            return fail("access rules", f"others than root can write {place}", f"chmod go-w {place}")
        if status.st_uid not in (0, os.geteuid()):
            return fail("access rules", f"{place} belongs to uid {status.st_uid}", f"chown root {place}")
    return ok("access rules", f"{path}, which nobody else can write")


def enforced(access: fikit_toml.AccessConfig, settings: Mapping[str, str], source: str) -> Check:
    """Without, a user's job is of whatever account or QOS the user names."""
    words = words_of(settings.get("accountingstorageenforce", ""))
    words |= {"associations"} if words & IMPLY_ASSOCIATIONS else set()
    used = {key for rule in rules_of(access) for key in rule.names}
    missing = [word for key, word in ENFORCED.items() if key in used and word not in words and "all" not in words]
    if missing:
        return fail(
            "AccountingStorageEnforce",
            f"{', '.join(missing)} is missing in {source}: a job is of whatever account or QOS its user names",
            f"AccountingStorageEnforce={','.join(missing)}, with slurmdbd, or rules by partition and group only",
        )
    return ok("access", f"{len(access.rule)} rules in fikit.toml")
