"""A bench program as a managed job: under `fikit run`, with directories, a fikitd and an emulated device of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fikitd.api.client import Control, DaemonUnreachable

from bench.record import BenchError
from fikitd import paths


@contextmanager
def own_environment(
    scheduler: Mapping[str, int | str], daemon: Mapping[str, int] | None = None
) -> Iterator[dict[str, str]]:
    """Directories, a fikitd (which the first `fikit run` starts) and an emulated device of a bench's own; nothing is left of
    them."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory:
        config = Path(directory) / "fikit.toml"
        keys = {"run_dir": "run", "report_dir": "reports", "profile_dir": "profiles"}
        lines = ["[daemon]", *(f"{key} = {json.dumps(str(Path(directory) / name))}" for key, name in keys.items())]
        lines += [f"{key} = {value}" for key, value in (daemon or {}).items()]
        lines += ["[scheduler]", *(f"{key} = {json.dumps(value)}" for key, value in scheduler.items())]
        config.write_text("\n".join([*lines, ""]))
        environment = {**os.environ, "FIKIT_CONFIG": str(config), "EMUCUDA_NAME": f"bench-{os.getpid()}"}
        try:
            yield environment
        finally:
            with suppress(DaemonUnreachable):
                Control(Path(directory) / "run").shutdown()
            subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


def managed(program: str, *arguments: object, options: Sequence[str]) -> list[str]:
    """The command that runs `native/bin/<program>` under fikit; `options` are `fikit run`'s."""
    run = [sys.executable, "-m", "fikit", "run", *options, "--"]
    return [*run, str(paths.native_dir() / "bin" / program), *map(str, arguments)]


def run_managed(
    program: str,
    *arguments: int,
    emulated: bool,
    options: Sequence[str] = (),
    scheduler: Mapping[str, int] | None = None,
) -> tuple[dict[str, Any], str]:
    """What `native/bin/<program>` printed, as JSON, and what fikit said; `options` are `fikit run`'s.

    BenchError when it failed.
    """
    command = managed(program, *arguments, options=[*options, *(["--emulated"] if emulated else [])])
    with own_environment(scheduler or {}) as environment:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return dict(json.loads(done.stdout)), done.stderr
