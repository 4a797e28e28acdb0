"""`fikit profile`: what was measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from fikitd.profiles import ProfileStore

from fikit.errors import UserError, did_you_mean
from fikit.places import closed, looked_in, places
from fikit.reporters import json, screen, table
from fikit.reporters.line import say_warnings
from fikitd import _core


@click.group()
def command() -> None:
    """Profiles: how long each kernel of a program runs, and how long the GPU is idle after it."""
    say_warnings()


@command.command("ls")
@click.option("--json", "as_json", is_flag=True, help="A list, one object per profile.")
def list_(as_json: bool) -> None:
    """Every profile of yours, one line per key and kind of GPU."""
    entries = [
        {
            "key": profile["key"], "device": profile["device"], "runs": profile["runs"], "created": profile["created"],
            "kernels": len(_kernels(profile)), "launches": profile["launches"], "command": profile["command"],
        }
        for key, store in _keys().items() for device in store.devices(os.getuid(), key)
        if (profile := store.load(os.getuid(), key, device)) is not None
    ]  # fmt: skip
    if as_json:
        json.emit(entries)
    elif entries:
        table.show(table.profiles(entries))
    else:
        if any(map(closed, _directories())):
            raise UserError(f"there is no profile in {looked_in(_directories())}")
        screen.echo("no profiles yet; run a job once with --fikit-measure, or a program with fikit run --measure")


@command.command("show", short_help="The kernels of profile KEY.")
@click.argument("key")
@click.option(
    "--device", metavar="NAME", help="The kind of GPU, when KEY was measured on several; default: the newest."
)
@click.option("--json", "as_json", is_flag=True, help="The profile as one object; times in nanoseconds.")
def show(key: str, device: str | None, as_json: bool) -> None:
    """The kernels of profile KEY, those that take most of the GPU's time first.

    Times taken beside other jobs, which are longer than alone, are marked (* in the table, "beside" in --json).
    """
    keys = _keys()
    if key not in keys:
        looked = looked_in(_directories())
        raise UserError(
            f'there is no profile "{key}"{did_you_mean(key, keys) or f" in {looked}; see fikit profile ls"}'
        )
    store = keys[key]
    profile = store.load(os.getuid(), key, device)
    if profile is None:
        raise UserError(_not_measured_on(device, key, store.devices(os.getuid(), key)))
    entry = {name: profile[name] for name in ("key", "device", "command", "created", "runs", "launches", "span_ns")}
    entry["kernels"] = sorted(_kernels(profile), key=lambda kernel: -kernel["total_ns"])
    json.emit(entry) if as_json else table.show(table.profile(entry))


def _directories() -> list[Path]:
    """This user's own, or, where that is hidden, what it would be in."""
    return [
        place.profile_dir if closed(place.profile_dir) else place.profile_dir / str(os.getuid()) for place in places()
    ]


def _keys() -> dict[str, ProfileStore]:
    """The store of every key of this user; a key that two places know is taken from the first."""
    found: dict[str, ProfileStore] = {}
    for place in places():
        store = ProfileStore(place.profile_dir)
        for key in store.keys(os.getuid()):
            found.setdefault(key, store)
    return found


def _kernels(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per kernel identity: statistics without context cover those with."""
    return [
        {
            "name": kernel["name"], "grid": kernel["grid"], "block": kernel["block"], "count": duration["count"],
            "mean_ns": duration["mean_ns"], "p50_ns": _core.quantile(duration["histogram"], 0.5),
            "p99_ns": _core.quantile(duration["histogram"], 0.99), "gap_ns": kernel["gap"]["mean_ns"],
            "total_ns": duration["count"] * duration["mean_ns"], "beside": bool(kernel.get("beside")),
        }
        for kernel in profile["kernels"] if not kernel["context"] and (duration := kernel["duration"])["count"]
    ]  # fmt: skip


def _not_measured_on(device: str | None, key: str, devices: list[str]) -> str:
    if device is None:
        return f'no file of profile "{key}" can be read; measure the program again'
    return f'profile "{key}" was not measured on "{device}" but on {", ".join(devices) or "nothing readable"}'
