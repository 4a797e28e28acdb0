"""`python -m bench NAME [--json FILE] [--real]`: run one bench, print its summary, keep its raw samples."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import emulator, launch, record

BENCHES = {"emulator": emulator, "launch": launch}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHES), help="; ".join(f"{n}: {b.ABOUT}" for n, b in BENCHES.items()))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine, commit, command and raw samples here")
    parser.add_argument("--real", action="store_true", help="use this machine's GPU instead of the emulated one")
    arguments = parser.parse_args()
    try:
        result = BENCHES[arguments.name].run(emulated=not arguments.real)
    except record.BenchError as error:
        print(f"bench {arguments.name}: {error}", file=sys.stderr)
        return 1
    print(result.summary)
    if arguments.json:
        record.write(arguments.json, arguments.name, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
