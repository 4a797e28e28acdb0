"""`fikit limits`: which priorities the site lets me use."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from typing import Any

import click
from fikitd.base import priorities
from fikitd.config import access, fikit_toml

from fikit.errors import UserError
from fikit.reporters import json, table


@click.command()
@click.option("--account", metavar="NAME", help="Jobs of this account only.")
@click.option("--qos", metavar="NAME", help="Jobs of this QOS only.")
@click.option("--partition", metavar="NAME", help="Jobs in this partition only.")
@click.option("--json", "as_json", is_flag=True, help="A list of {jobs, highest_priority, min_allowed_slowdown, ...}.")
def command(account: str | None, qos: str | None, partition: str | None, as_json: bool) -> None:
    """Which priorities the site lets your jobs use. The first line that is about a job decides."""
    try:
        section = fikit_toml.load().access
    except fikit_toml.ConfigError as error:
        raise UserError(str(error)) from error
    named = {"account": account, "qos": qos, "partition": partition}
    rows = list(_rows(section, {key: name for key, name in named.items() if name}))
    json.emit(rows) if as_json else table.show(table.limits(rows))


def _rows(section: fikit_toml.AccessConfig, named: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Each rule that can be about a job of ours, up to the one that decides whatever else the job is."""
    who = {**{key: [name] for key, name in named.items()}, "group": _groups()}
    for rule in access.rules_of(section):
        fits = rule.fits(who)
        if fits is not False:
            yield _row({key: list(names) for key, names in rule.names.items()}, rule.limits)
        if fits:
            return
    yield _row({}, access.limits_of(section))


def _row(jobs: dict[str, list[str]], limits: access.Limits) -> dict[str, Any]:
    return {
        "jobs": jobs,
        "highest_priority": limits.highest_priority,
        "priority_name": priorities.name(limits.highest_priority),
        "min_allowed_slowdown": limits.min_allowed_slowdown,
        "min_allowed_delay_us": limits.min_allowed_delay_us,
    }


def _groups() -> list[str]:
    """None for a user whom the machine knows no name of, as slurmctld finds none."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return []
    names = []
    for number in os.getgrouplist(user.pw_name, user.pw_gid):
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return names
