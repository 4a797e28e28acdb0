"""Debian's Slurm from the folder that pack_slurm.sh made, in a directory of its own: nothing of the machine changes."""

from __future__ import annotations

import socket
import tarfile
from pathlib import Path

from bench.record import ROOT, BenchError
from fikitd import paths

FOLDER = ROOT / "build" / "slurm"
ARCHIVE = "slurm.tar.gz"
LIBRARIES = ("usr/lib/x86_64-linux-gnu/slurm-wlm", "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
PROGRAMS = ("usr/bin", "usr/sbin")


class Kit:
    """The unpacked folder."""

    def __init__(self, directory: Path) -> None:
        """Unpacks into `directory`/slurm. Raises BenchError where the folder is missing or broken."""
        archive = FOLDER / ARCHIVE
        if not archive.is_file():
            raise BenchError(
                f"couldn't find {archive}: run bench/gpu/second/pack_slurm.sh on a Debian machine and carry its folder here"
            )
        self.root = directory / "slurm"
        self.programs = self.root / "wrapped"
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(self.root, filter="tar")
        except (OSError, tarfile.TarError) as error:
            raise BenchError(f"couldn't unpack {archive}: {error}") from error
        self.root.chmod(0o755)
        self.programs.mkdir()
        for folder in PROGRAMS:
            for program in (self.root / folder).iterdir():
                self._wrap(program)

    @property
    def libraries(self) -> str:
        """For LD_LIBRARY_PATH."""
        return ":".join(str(self.root / folder) for folder in LIBRARIES)

    @property
    def slurm_lines(self) -> list[str]:
        """For slurm.conf: a compiled-in directory that is elsewhere here. Slurm asks for addresses as below, and so finds none on a machine with
        the loopback alone, unless it may use IPv6."""
        lines = [f"PluginDir={self.root / LIBRARIES[0]}"]
        try:
            socket.getaddrinfo(None, 1, socket.AF_INET, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG)
        except socket.gaierror:
            lines.append("CommunicationParameters=EnableIPv6")
        return lines

    @property
    def python(self) -> Path:
        """A directory of the Python modules that a machine with a GPU may lack."""
        return self.root / "fikit" / "python"

    def native(self, target: Path, library: str, emuctl: str | None) -> Path:
        """A directory of fikit's native files, with the Slurm plugin of the folder; with the emulated GPU where `emuctl` is its program."""
        target.mkdir()
        for file in paths.native_dir().iterdir():
            (target / file.name).symlink_to(file)
        links = {"slurm": self.root / "fikit" / "slurm"}
        if emuctl:
            links["emulator"] = Path(library).parent
            (target / "bin").unlink(missing_ok=True)
            (target / "bin").mkdir()
            for file in [*(paths.native_dir() / "bin").iterdir(), Path(emuctl)]:
                (target / "bin" / file.name).unlink(missing_ok=True)
                (target / "bin" / file.name).symlink_to(file)
        for name, source in links.items():
            (target / name).unlink(missing_ok=True)
            (target / name).symlink_to(source)
        return target

    def _wrap(self, program: Path) -> None:
        """The libraries are for Slurm's programs alone. slurmd is told where its slurmstepd is."""
        step = f" -d {self.programs / 'slurmstepd'}" if program.name == "slurmd" else ""
        text = f'#!/bin/sh\nLD_LIBRARY_PATH="{self.libraries}:$LD_LIBRARY_PATH"; export LD_LIBRARY_PATH\nexec {program}{step} "$@"\n'
        wrapper = self.programs / program.name
        wrapper.write_text(text)
        wrapper.chmod(0o755)
