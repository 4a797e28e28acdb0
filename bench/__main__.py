"""`python -m bench NAME [--json FILE] [--real]`: run one bench, print its summary, keep its raw samples."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import emulator, launch, measure, predict, progress, record, replay

BENCHES = {
    "emulator": emulator,
    "launch": launch,
    "measure": measure,
    "predict": predict,
    "progress": progress,
    "replay": replay,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHES), help="; ".join(f"{n}: {b.ABOUT}" for n, b in BENCHES.items()))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine, commit, command and raw samples here")
    parser.add_argument("--real", action="store_true", help="use this machine's GPU instead of the emulated one")
    arguments, rest = parser.parse_known_args()
    bench = BENCHES[arguments.name]
    own = argparse.ArgumentParser(prog=f"python -m bench {arguments.name}", description=bench.__doc__)
    if hasattr(bench, "add_arguments"):
        bench.add_arguments(own)
    try:
        result = bench.run(emulated=not arguments.real, **vars(own.parse_args(rest)))
    except record.BenchError as error:
        print(f"bench {arguments.name}: {error}", file=sys.stderr)
        return 1
    print(result.summary)
    if arguments.json:
        record.write(arguments.json, arguments.name, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
