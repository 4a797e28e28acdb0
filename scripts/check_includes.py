#!/usr/bin/env python3
"""Who may include whom, for C and C++ (docs/design/overview.md; Python has lint-imports). Exit 1 and one line per offence.

Only quoted includes and those in <> that name a file of ours, or a library a folder must not need, are judged.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".c", ".h", ".cpp", ".hpp", ".S", ".def"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)

# Folder -> folders whose files it may include besides its own. The most specific folder of a file counts; who may include a
# folder may include the rooms in it, a room itself what it names only.
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    "fikitd/core/protocol": (),
    "fikitd/core/types": (),
    "fikitd/core/policy": (
        "fikitd/core/policy/base",
        "fikitd/core/policy/baselines",
        "fikitd/core/policy/budget",
        "fikitd/core/types",
    ),
    "fikitd/core/policy/base": ("fikitd/core/types",),
    "fikitd/core/policy/baselines": ("fikitd/core/policy/base", "fikitd/core/types"),
    "fikitd/core/policy/budget": ("fikitd/core/policy/base", "fikitd/core/types"),
    "fikitd/core/predictor": ("fikitd/core/types",),
    "fikitd/core/placement": ("fikitd/core/types",),
    "fikitd/core/residency": ("fikitd/core/types",),
    "fikitd/core/forecaster": ("fikitd/core/policy", "fikitd/core/predictor", "fikitd/core/types"),
    "fikitd/core/tracking": (
        "fikitd/core/forecaster",
        "fikitd/core/policy",
        "fikitd/core/predictor",
        "fikitd/core/protocol",
        "fikitd/core/tracking/accounting",
        "fikitd/core/tracking/ranks",
        "fikitd/core/tracking/switching",
        "fikitd/core/types",
    ),
    "fikitd/core/tracking/accounting": ("fikitd/core/policy/base", "fikitd/core/predictor", "fikitd/core/types"),
    "fikitd/core/tracking/switching": ("fikitd/core/policy", "fikitd/core/predictor", "fikitd/core/types"),
    "fikitd/core/tracking/ranks": (
        "fikitd/core/policy/base",
        "fikitd/core/protocol",
        "fikitd/core/tracking/accounting",
        "fikitd/core/types",
    ),
    "fikitd/core/dispatcher": (
        "fikitd/core/forecaster",
        "fikitd/core/policy",
        "fikitd/core/predictor",
        "fikitd/core/protocol",
        "fikitd/core/tracking",
        "fikitd/core/types",
    ),
    # The simulator drives what the dispatcher drives, on the emulator's device model: the one arrow to the emulator.
    "fikitd/core/simulator": (
        "fikitd/core/forecaster",
        "fikitd/core/placement",
        "fikitd/core/policy",
        "fikitd/core/predictor",
        "fikitd/core/protocol",
        "fikitd/core/tracking",
        "fikitd/core/types",
        "emulator/device_model",
        "emulator/replay",
    ),
    # What it gives Python takes Python's dicts as the daemon's part does.
    "fikitd/core/simulator/binding": (
        "fikitd/core/simulator",
        "fikitd/core/binding",
        "fikitd/core/placement",
        "fikitd/core/policy",
        "fikitd/core/types",
        "emulator/replay",
    ),
    "fikitd/core/binding": (
        "fikitd/core/dispatcher",
        "fikitd/core/forecaster",
        "fikitd/core/placement",
        "fikitd/core/policy",
        "fikitd/core/predictor",
        "fikitd/core/residency",
        "fikitd/core/tracking",
        "fikitd/core/types",
    ),
    # What is in the library's folder itself is its table and what is made of it; the rooms are below, the lowest first.
    "shim": ("fikitd/core/protocol", "driver_api"),
    "shim/base": ("fikitd/core/protocol",),
    "shim/memory": ("fikitd/core/protocol", "shim/base"),
    "shim/streams": ("fikitd/core/protocol", "shim/base"),
    "shim/gate": ("fikitd/core/protocol", "shim/base", "shim/memory", "shim/streams"),
    "shim/timing": ("fikitd/core/protocol", "shim/base", "shim/streams"),
    "shim/identity": ("fikitd/core/protocol", "shim/base", "shim/memory", "shim/timing"),
    "shim/hooks": (
        "fikitd/core/protocol",
        "shim/base",
        "shim/gate",
        "shim/identity",
        "shim/memory",
        "shim/streams",
        "shim/timing",
    ),
    "shim/attach": (
        "fikitd/core/protocol",
        "shim/base",
        "shim/gate",
        "shim/hooks",
        "shim/identity",
        "shim/memory",
        "shim/streams",
        "shim/timing",
    ),
    "shim/loader": ("shim/attach", "shim/base", "shim/memory"),
    "shim/bench": (),
    "emulator": ("driver_api", "emulator/device_model", "emulator/replay"),
    "emulator/device_model": (),
    # The rule by which a host lives, which the simulator shares, and the program that plays it on a device.
    "emulator/replay": ("emulator/device_model",),
    "emulator/replay/program": ("emulator/device_model", "emulator/replay"),
    "slurm_plugin": (
        "slurm_plugin/src/contexts",
        "slurm_plugin/src/daemon",
        "slurm_plugin/src/job",
        "slurm_plugin/src/site",
        "slurm_plugin/src/values",
    ),
    "slurm_plugin/src/contexts": (
        "slurm_plugin/src/daemon",
        "slurm_plugin/src/job",
        "slurm_plugin/src/site",
        "slurm_plugin/src/values",
    ),
    "slurm_plugin/src/daemon": ("slurm_plugin/src/site",),
    "slurm_plugin/src/job": ("slurm_plugin/src/values",),
    "slurm_plugin/src/site": ("slurm_plugin/src/values",),
    "slurm_plugin/src/values": (),
}
# Folders that may use the standard library of C or C++ and nothing else: no POSIX, no Linux, no third party.
STANDARD_ONLY = (
    "fikitd/core/protocol",
    "fikitd/core/types",
    "fikitd/core/policy",
    "fikitd/core/predictor",
    "fikitd/core/placement",
    "fikitd/core/residency",
    "fikitd/core/forecaster",
    "fikitd/core/tracking",
)
# Third-party headers, and who alone may use them.
BINDINGS = ("fikitd/core/binding", "fikitd/core/simulator/binding")
THIRD_PARTY = {
    "nanobind/": BINDINGS,
    "slurm/": tuple(folder for folder in MAY_INCLUDE if folder.startswith("slurm_plugin")),
    "Python.h": BINDINGS,
    "cuda.h": (),  # nobody: NVIDIA's headers are not needed to build
    "cuda_runtime.h": (),
    "nvml.h": (),
}


def folder_of(path: Path, root: Path) -> str | None:
    """The folder of MAY_INCLUDE that a file belongs to; None when it is in none."""
    name = path.relative_to(root).as_posix()
    owners = [folder for folder in MAY_INCLUDE if name.startswith(folder + "/")]
    return max(owners, key=len, default=None)


def resolve(included: str, path: Path, files: dict[str, list[Path]], root: Path) -> Path | None:
    """The file of ours that an include names, as a compiler would find it; None when it is not ours."""
    beside = (path.parent / included).resolve()
    if beside.is_file():
        return beside
    candidates = [f for f in files.get(Path(included).name, []) if f.as_posix().endswith("/" + included)]
    own = [f for f in candidates if folder_of(f, root) == folder_of(path, root)]
    return next(iter(own or candidates), None)


def offence(kind: str, included: str, path: Path, files: dict[str, list[Path]], root: Path) -> str | None:
    folder = folder_of(path, root)
    assert folder is not None
    target = resolve(included, path, files, root)
    if target is not None and target.is_relative_to(root):
        in_driver_api = target.is_relative_to(root / "driver_api")
        if folder_of(target, root) == folder or (in_driver_api and "driver_api" in MAY_INCLUDE[folder]):
            return None
        if any(target.is_relative_to(root / known) for known in MAY_INCLUDE[folder]):
            return None
        return f"{folder} may not include {target.relative_to(root).as_posix()}"
    for prefix, owners in THIRD_PARTY.items():
        if included.startswith(prefix) and folder not in owners:
            return f"{folder} may not need <{included}>"
    if kind == "<" and folder in STANDARD_ONLY and ("/" in included or not is_standard(included)):
        return f"{folder} may use only the standard library, not <{included}>"
    return None


def is_standard(header: str) -> bool:
    """C++ headers have no suffix; of C's, those of the standard."""
    c = "assert ctype errno fenv float inttypes limits locale math setjmp signal stdalign stdarg stdatomic stdbool stddef"
    c += " stdint stdio stdlib stdnoreturn string tgmath time uchar wchar wctype"
    return "." not in header or header.removesuffix(".h") in c.split()


def check(root: Path) -> list[str]:
    """One line per include that the table forbids."""
    sources = [
        p.resolve() for top in ("driver_api", *MAY_INCLUDE) for p in (root / top).rglob("*") if p.suffix in SOURCES
    ]
    files: dict[str, list[Path]] = {}
    for path in sources:
        if path not in files.setdefault(path.name, []):
            files[path.name].append(path)
    lines = []
    for path in sorted({p for p in sources if folder_of(p, root)}):
        text = path.read_text(errors="replace")
        for match in INCLUDE.finditer(text):
            found = offence(match[1], match[2], path, files, root)
            if found:
                line = text.count("\n", 0, match.start()) + 1
                lines.append(f"{path.relative_to(root).as_posix()}:{line}: {found}")
    return lines


def main() -> int:
    offences = check(ROOT)
    for line in offences:
        print(line, file=sys.stderr)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
