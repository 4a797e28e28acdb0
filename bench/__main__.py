"""`python -m bench NAME [--json FILE] [--real]`: run one bench, print its summary, keep its raw samples."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from fikitd.base import build

from bench import cluster, device_option, page, placed, record, residency
from bench.emulator import costs as emulator
from bench.emulator import model, replay
from bench.gpu import report as gpu
from bench.launch import calls, dispatch, launch, measure, progress
from bench.live import elapsed, live_pairs
from bench.scheduling import bound, budgets, frontier, heldout, learnt, predict, slowdowns, switches, tuning
from bench.slurm import demo, load, steer, storm
from bench.slurm import plugin as slurm

BENCHES: dict[str, ModuleType] = {
    "bound": bound,
    "budgets": budgets,
    "calls": calls,
    "cluster": cluster,
    "demo": demo,
    "dispatch": dispatch,
    "elapsed": elapsed,
    "emulator": emulator,
    "frontier": frontier,
    "gpu": gpu,
    "heldout": heldout,
    "launch": launch,
    "learnt": learnt,
    "load": load,
    "measure": measure,
    "model": model,
    "pairs": live_pairs,
    "placed": placed,
    "predict": predict,
    "progress": progress,
    "replay": replay,
    "residency": residency,
    "slowdowns": slowdowns,
    "slurm": slurm,
    "steer": steer,
    "storm": storm,
    "switches": switches,
    "tuning": tuning,
}


class _Parser(argparse.ArgumentParser):
    """Errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bench: {message}, see `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m bench", description=__doc__)
    parser.add_argument("--version", action="version", version=f"bench {build.identity()}")
    benches = parser.add_subparsers(dest="name", metavar="NAME", parser_class=_Parser)
    for name, bench in BENCHES.items():
        own = benches.add_parser(name, help=bench.ABOUT, description=bench.__doc__)
        own.add_argument(
            "--json", type=Path, metavar="FILE", help="write machine, commit, command and raw samples here"
        )
        own.add_argument("--real", action="store_true", help="use this machine's GPU instead of the emulated one")
        if hasattr(bench, "add_arguments"):
            bench.add_arguments(own)
    return parser


def main() -> int:
    parser = _parser()
    options = vars(parser.parse_args())
    name, file, real = options.pop("name"), options.pop("json", None), options.pop("real", False)
    shown_on = options.pop("page", None)
    if name is None:
        parser.print_help()
        return 0
    place = name
    try:
        if "overlap" in options:
            options["device"] = device_option.of(options)
            place += device_option.place(options["device"])
        if hasattr(BENCHES[name], "place"):
            place += BENCHES[name].place(options)
        if shown_on:
            page.around(shown_on, place)
        for wanted in (file, options.get("svg"), options.get("svg_use")):
            if wanted:
                record.check(wanted)
        result = BENCHES[name].run(emulated=not real, **options)
        print(result.summary)
        if file:
            record.write(file, name, result)
        if shown_on:
            page.write(shown_on, place, result.table)
    except record.BenchError as error:
        print(f"bench {name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
