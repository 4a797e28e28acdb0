"""fikit as another user meets it, one of whom the machine knows no name: programs that this user can reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fikitd import paths

UID = 54321  # in nobody's /etc/passwd
_START = "import sys; from {0}.entry import {0}; sys.argv[0] = '{0}'; {0}()"


@dataclass(frozen=True)
class OtherUser:
    """`directory`: everybody can reach it. `bin`: python, fikit and fikitd, as this user can start them. `home` is the user's."""

    uid: int
    directory: Path
    home: Path
    bin: Path
    shim: Path
    emulator: Path
    env: Mapping[str, str]

    def run(self, *command: str, namespace: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """To its end, as this user. `namespace`: a root's command before it, in a mount namespace of its own."""
        as_user = [
            "setpriv",
            f"--reuid={self.uid}",
            f"--regid={self.uid}",
            "--clear-groups",
            "--inh-caps=-all",
            "--",
            *command,
        ]
        whole = ["unshare", "--mount", "sh", "-ec", f'{namespace}; exec "$@"', "sh", *as_user] if namespace else as_user
        return subprocess.run(
            whole, env={**self.env, **env}, cwd="/", capture_output=True, text=True, check=False, timeout=60
        )

    def stops_its_daemons(self) -> None:
        """Those that it can reach below its home; a client of root's does not talk to another user's fikitd."""
        for socket in self.home.rglob("control.sock"):
            self.run(
                "python", "-c", f"from fikitd.api.client import Control; Control({str(socket.parent)!r}).shutdown()"
            )


@contextmanager
def other_user(env: Mapping[str, str]) -> Iterator[OtherUser]:
    """One with a copy of what is loaded into programs; skips where there is no Python for others."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    # Not below pytest's directory, which every run of pytest closes for others.
    with tempfile.TemporaryDirectory(prefix="fikit-test-") as name:
        Path(name).chmod(0o755)
        yield _made(Path(name), env)


def _made(directory: Path, env: Mapping[str, str]) -> OtherUser:
    # A virtual environment, so that also an isolated interpreter (python -I) finds fikit.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages, programs, home = directory / "lib" / version / "site-packages", directory / "bin", directory / "home"
    for made in (packages, programs, home):
        made.mkdir(parents=True)
    (packages / "fikit.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    shutil.copy(paths.shim(), directory / "libfikit_shim.so")
    shutil.copytree(paths.emulator_dir(), directory / "emulator", symlinks=True)
    python = programs / "python"
    for name in ("fikit", "fikitd"):
        (programs / name).write_text(f'#!/bin/sh\nexec {python} -c "{_START.format(name)}" "$@"\n')
        (programs / name).chmod(0o755)
    for path in directory.rglob("*"):
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    home.chmod(0o700)
    os.chown(home, UID, UID)
    env = {
        **env, "TMPDIR": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(directory / "emulator")
    }  # fmt: skip
    user = OtherUser(UID, directory, home, programs, directory / "libfikit_shim.so", directory / "emulator", env)
    for base in (Path(sys.executable).resolve(), *(Path(each) / version for each in ("/usr/bin", "/usr/local/bin"))):
        python.unlink(missing_ok=True)
        python.symlink_to(base)
        (directory / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        if base.exists() and user.run("sh", "-c", "fikit --version && fikitd --version").returncode == 0:
            return user
    pytest.skip("no Python that another user can start")
