"""`fikit profile`: what was measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.storage import reason

from fikit.advice import residency
from fikit.api import link_rates
from fikit.api.link_rates import LinkRates
from fikit.errors import UserError, did_you_mean
from fikit.reporters import json, table
from fikit.site_paths import closed, looked_in, places
from fikit.stored import kernels, touched
from fikit.wording import screen
from fikit.wording.line import say_warnings


@click.group()
def command() -> None:
    """Profiles: how long each kernel of a program runs, and how long the GPU is idle after it."""
    say_warnings()


@command.command("ls")
@click.option("--json", "as_json", is_flag=True, help="A list, one object per profile.")
def list_(as_json: bool) -> None:
    """Every profile of yours, one line per key and kind of GPU.

    A profile has the runs of one program; its variants are those with different arguments, or in different roles (rank 0 and the
    others). The size is that of all runs of the key. fikit keeps 64 runs of a program, and 512 programs of yours.
    """
    entries = [
        {
            "key": profile["key"], "device": profile["device"], "runs": profile["runs"], "created": profile["created"],
            "variants": profile["variants"], "bytes": store.bytes_of(os.getuid(), key),
            "kernels": len(kernels.of(profile)), "launches": profile["launches"], "command": profile["command"],
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

    Times taken beside other jobs, which are longer than alone, are marked (* in the table, "beside" in --json), and so are
    doubtful ones, as of a first launch, which loads the kernel (~ in the table, "doubtful" in --json). Below: the most memory that
    runs needed, and which of your other programs would fit beside it, at once or in turns ("memory" in --json; sizes in bytes).

    Where it is known which memory the kernels touch (of a measured run or a job with --fikit-mem-host, from CUDA 12.4 on), the largest allocations of an iteration, and what
    the program would be like with less than all of them on the GPU ("touched" in --json). What moves costs is reckoned at the rates that moves of your jobs have shown on this node while they run, else
    at an assumed rate ("link" in --json). Plans are made in pieces of memory so large that the answer comes within seconds.
    """
    store = _store_of(key)
    profile = store.load(os.getuid(), key, device)
    if profile is None:
        raise UserError(_not_measured_on(device, key, store.devices(os.getuid(), key)))
    entry = {name: profile[name] for name in ("key", "device", "command", "created", "runs", "launches", "span_ns")}
    rates = link_rates.of_gpu(profile["device"]["name"])
    entry["memory"] = _memory(key, profile, rates)
    entry["kernels"] = sorted(kernels.of(profile), key=lambda kernel: -kernel["total_ns"])
    entry["touched"] = touched.of(profile, rates.link)
    if as_json:
        json.emit(entry)
    else:
        table.show(
            table.profile(entry, rates),
            *(("", table.touched(entry["touched"], rates)) if entry["touched"] else ()),
        )


@command.command("rm", short_help="Remove profiles.")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def rm(keys: tuple[str, ...], yes: bool) -> None:
    """Remove the profiles KEY..., with all their runs: the next run of such a program learns anew."""
    stores = {key: _store_of(key) for key in keys}
    runs = {key: _runs(store, key) for key, store in stores.items()}
    what = ", ".join(f"{key} ({number} run{'' if number == 1 else 's'})" for key, number in runs.items())
    if not yes and not _confirmed(f"Remove {what}?"):
        raise click.Abort
    for key, store in stores.items():
        try:
            store.remove(os.getuid(), key)
        except OSError as error:
            raise UserError(f'profile "{key}" could not be removed: {reason(error)}') from None
    screen.echo(f"removed {what}")


def _confirmed(question: str) -> bool:
    """click.Abort: Ctrl-C. UserError: there is nobody who could answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        screen.echo("", err=True)
        raise UserError("nothing was removed, because nobody answered: --yes removes without asking") from None


def _runs(store: ProfileStore, key: str) -> int:
    found = [store.load(os.getuid(), key, device) for device in store.devices(os.getuid(), key)]
    return sum(profile["runs"] for profile in found if profile is not None)


def _store_of(key: str) -> ProfileStore:
    """UserError when there is none."""
    keys = _keys()
    if key not in keys:
        looked = looked_in(_directories())
        raise UserError(
            f'there is no profile "{key}"{did_you_mean(key, keys) or f" in {looked}; see fikit profile ls"}'
        )
    return keys[key]


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


def _memory(key: str, profile: dict[str, Any], rates: LinkRates) -> dict[str, Any]:
    """The most that runs needed of the GPU, and how the program would be beside others of this user that were measured on that kind."""
    gpu_bytes, peak_bytes = profile["device"]["memory_bytes"], profile["peak_bytes"]
    others = {
        other: found["peak_bytes"]
        for other, store in _keys().items()
        if other != key and (found := store.load(os.getuid(), other, profile["device"]["name"])) is not None and found["peak_bytes"]
    }  # fmt: skip
    known = bool(gpu_bytes and peak_bytes)
    return {
        "peak_bytes": peak_bytes, "gpu_bytes": gpu_bytes, "link": rates.document(), "beside": list(residency.beside(peak_bytes, gpu_bytes, others, rates.link)) if known else [],
    }  # fmt: skip


def _not_measured_on(device: str | None, key: str, devices: list[str]) -> str:
    if device is None:
        return f'no file of profile "{key}" can be read; measure the program again'
    return f'profile "{key}" was not measured on "{device}" but on {", ".join(devices) or "nothing readable"}'
