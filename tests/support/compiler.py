"""A compiler that compiles each source once."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Compiler:
    """Of programs and libraries for a processor: this one's, or that of `prefix`."""

    out: Path
    prefix: str = ""
    done: dict[tuple[str, ...], Path] = field(default_factory=dict)

    def __call__(self, source: str | Path, *flags: str) -> Path:
        """The program or library of a C or C++ source and these flags."""
        key = (str(source), *flags)
        if key not in self.done:
            target = self.out / f"{Path(source).stem}-{len(self.done)}{'.so' if '-shared' in flags else ''}"
            cpp = Path(source).suffix in {".cpp", ".cc"}
            compiler = f"{self.prefix}{'g++' if cpp else 'gcc'}" if self.prefix else "c++" if cpp else "cc"
            command = [compiler, "-O1", "-g", "-Wall", "-Wextra", "-o", str(target), str(source), *flags]
            subprocess.run(command, check=True, cwd=ROOT)
            self.done[key] = target
        return self.done[key]
