"""Write the entry points that need no thought: stubs, per-thread forms, same-ABI old names, the cuGetProcAddress table.

Usage: generate.py SYMBOLS VERSIONS OUT SOURCE... Which functions exist is read from the sources' own definitions
(`CU_EXPORT CUresult cuName(...)`), so that nothing has to be listed twice.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

DEFINITION = re.compile(r"CU_EXPORT CUresult (cu\w+)\(([^{;]*?)\)\s*\{")
TYPE_WORDS = {"unsigned", "int", "long", "short", "char"}  # last words of a parameter without a name
PER_THREAD = ("_ptsz", "_ptds")
# Old names whose arguments never changed: the newer form serves them.
SAME_ABI = {
    "cuCtxCreate": "cuCtxCreate_v2",
    "cuCtxDestroy": "cuCtxDestroy_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset": "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxSetFlags": "cuDevicePrimaryCtxSetFlags_v2",
    "cuIpcOpenMemHandle": "cuIpcOpenMemHandle_v2",
    "cuMemHostRegister": "cuMemHostRegister_v2",
    "cuStreamBatchMemOp": "cuStreamBatchMemOp_v2",
    "cuStreamWaitValue32": "cuStreamWaitValue32_v2",
    "cuStreamWaitValue64": "cuStreamWaitValue64_v2",
    "cuStreamWriteValue32": "cuStreamWriteValue32_v2",
    "cuStreamWriteValue64": "cuStreamWriteValue64_v2",
}


def parameters(text: str) -> list[str]:
    """The types of a definition's parameters, without names."""
    found = []
    for parameter in filter(None, (p.strip() for p in text.split(","))):
        named = re.fullmatch(r"(.*[\s*&])(\w+)", parameter)
        found.append(named[1].strip() if named and named[2] not in TYPE_WORDS else parameter)
    return found


def forward(name: str, to: str, types: list[str], *, per_thread: bool) -> str:
    declared = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types))
    passed = ", ".join(f"a{i}" for i in range(len(types)))
    scope = "  const emu::PerThreadDefault scope;\n" if per_thread else ""
    return f"CU_EXPORT CUresult {name}({declared}) {{\n{scope}  return {to}({passed});\n}}\n"


def generate(symbols: list[str], rows: list[dict[str, str]], sources: list[str]) -> str:
    defined = {m[1]: parameters(m[2]) for source in sources for m in DEFINITION.finditer(source)}
    headers = ("context/context.hpp", "driver/entry_points.hpp", "graph/graph_api.hpp", "memory/memory_api.hpp")
    lines = [*(f'#include "libcuda/{header}"' for header in headers), ""]
    lines += [f"CU_EXPORT CUresult {name}({', '.join(types)});" for name, types in sorted(defined.items())]
    for name in symbols:
        plain = name.rpartition("_")[0] if name.endswith(PER_THREAD) else name
        base = SAME_ABI.get(plain, plain)
        if name in defined:
            continue
        if base in defined:
            lines.append(forward(name, base, defined[base], per_thread=name.endswith(PER_THREAD)))
        else:
            lines.append(
                f"CU_EXPORT CUresult {name}() {{\n  static bool said = false;\n"
                f'  return emu::unsupported("{plain}", said);\n}}'
            )
    rows.sort(key=lambda r: (r["name"].encode(), int(r["per_thread"]), int(r["version"])))
    lines.append("\nnamespace emu {\nconst EntryPoint kEntryPoints[] = {")
    lines += [
        f'    {{"{r["name"]}", {r["version"]}, {"true" if r["per_thread"] == "1" else "false"}, reinterpret_cast<void*>(&{r["symbol"]})}},'
        for r in rows
    ]
    lines.append(
        "};\nconst size_t kEntryPointCount = sizeof kEntryPoints / sizeof kEntryPoints[0];\n}  // namespace emu\n"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    symbols_file, versions_file, out, *source_files = map(Path, sys.argv[1:])
    with versions_file.open(newline="") as file:
        table = list(csv.DictReader(file))
    out.write_text(generate(symbols_file.read_text().split(), table, [p.read_text() for p in source_files]))
