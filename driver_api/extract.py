"""Regenerate symbols.txt and versions.csv from an installed CUDA toolkit's headers.

Only names and version numbers are taken: they are facts of the driver's binary interface. The build reads the two
committed tables and never needs a toolkit. What they have already stays: a driver goes on exporting what headers no longer
declare, and cudaProfiler.h comes in a package of its own. Usage: python driver_api/extract.py /usr/local/cuda/include
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
# Names that mean another function from some version on, by a #define of cuda.h: who asks for them expects its arguments.
RENAMED = [("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags")]


def extract(include: Path) -> tuple[list[str], list[tuple[str, int, int, str]]]:
    """Return (every exported symbol, rows of (name, version, per-thread flag, symbol)); rules: README.md."""
    header = "".join(p.read_text() for p in map(include.joinpath, HEADERS) if p.exists())
    symbols = set(re.findall(r"CUDAAPI\s+(cu[A-Z]\w+)\s*\(", header))
    symbols |= set(re.findall(r"#\s*define\s+cu\w+\s+(cu[A-Z]\w+)\s*$", header, re.M))
    per_thread = {m[1]: m[0] for m in re.findall(r"__CUDA_API_(PTDS|PTSZ)\((cu[A-Z]\w+)\)", header)}
    for base, kind in per_thread.items():
        symbols |= {base, f"{base}_{kind.lower()}"}
    types = "".join(p.read_text() for p in sorted(include.glob("cuda*Typedefs.h")))
    typedefs = set(re.findall(r"PFN_(cu[A-Z]\w*?)_v(\d{4,5})(_ptsz|_ptds)?\)", types))
    legacy: dict[str, list[int]] = {}
    threaded: dict[str, list[tuple[int, str]]] = {}
    for name, version, suffix in typedefs:
        if suffix:
            threaded.setdefault(name, []).append((int(version), suffix))
        else:
            legacy.setdefault(name, []).append(int(version))
    rows: list[tuple[str, int, int, str]] = []
    for name, versions in legacy.items():
        known = sorted(
            (s for s in symbols if re.fullmatch(rf"{name}(_v\d+)?", s)),
            key=lambda s: int(s.rpartition("_v")[2]) if s != name else 1,
        )
        versions.sort()
        # The newest version is the newest suffix; older ones count down from there.
        for version, symbol in zip(reversed(versions), reversed(known), strict=False):
            rows.append((name, version, 0, symbol))
            symbols.add(symbol)
    plain = {(n, s) for n, _, _, s in rows}
    for name, entries in threaded.items():
        entries.sort()
        bases = [s for n, v, _, s in sorted(rows, key=lambda r: r[1]) if n == name and (n, s) in plain]
        for (version, suffix), base in zip(reversed(entries), reversed(bases), strict=False):
            rows.append((name, version, 1, base + suffix))
            symbols.add(base + suffix)
    return sorted(symbols), sorted({*rows, *RENAMED})


if __name__ == "__main__":
    all_symbols, all_rows = extract(Path(sys.argv[1]))
    with (HERE / "versions.csv").open(newline="") as file:
        before = [(r["name"], int(r["version"]), int(r["per_thread"]), r["symbol"]) for r in csv.DictReader(file)]
    known = {*all_symbols, *(HERE / "symbols.txt").read_text().split()}
    (HERE / "symbols.txt").write_text("".join(f"{s}\n" for s in sorted(known)))
    (HERE / "versions.csv").write_text(
        "name,version,per_thread,symbol\n"
        + "".join(f"{n},{v},{p},{s}\n" for n, v, p, s in sorted({*all_rows, *before}))
    )
