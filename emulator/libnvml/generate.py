"""Write the NVML functions that are not emulated: each answers NOT_SUPPORTED.

Usage: generate.py SYMBOLS OUT SOURCE... Which functions exist is read from the sources' own definitions
(`NVML_EXPORT nvmlReturn nvmlName(...)`), so that nothing has to be listed twice.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DEFINITION = re.compile(r"NVML_EXPORT [\w ]+?\*? ?(nvml\w+)\(")


def generate(symbols: list[str], sources: list[str]) -> str:
    defined = {name for source in sources for name in DEFINITION.findall(source)}
    lines = [
        '#include "library.hpp"',
        "",
        "static nvmlReturn refuse() { return emu::initialised() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; }",
    ]
    lines += [f"NVML_EXPORT nvmlReturn {name}() {{ return refuse(); }}" for name in symbols if name not in defined]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    symbols_file, out, *source_files = map(Path, sys.argv[1:])
    out.write_text(generate(symbols_file.read_text().split(), [p.read_text() for p in source_files]))
