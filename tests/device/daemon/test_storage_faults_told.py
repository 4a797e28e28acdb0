"""`fikit report`, `profile` and `trace` on storage that fails at every single operation: sentences, no stack traces."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner
from failing_storage import OPERATIONS, FailingStorage

from fikitd import paths

COMMANDS = (
    ("report",), ("report", "1"), ("report", "--list"), ("report", "--json"), ("trace", "1", "-o", "/dev/null"), ("profile", "ls"),
    ("profile", "show", "mine"),
)  # fmt: skip
ERRORS = [errno.EDQUOT, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOTCONN]

# In one process, because there are many cases: every command under every fault, and how it ended.
ALL = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from failing_storage import OPERATIONS, FailingStorage
from fikit.cli import main
commands, errors = json.loads(sys.argv[3]), json.loads(sys.argv[4])
storage = FailingStorage.of(Path(sys.argv[2]))
for operation in OPERATIONS:
    for error in errors:
        for command in commands:
            out, err, code = io.StringIO(), io.StringIO(), None
            sys.argv = ["fikit", *command]
            with storage.fails(operation, error=error), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    main()
                except SystemExit as end:
                    code = end.code
                except BaseException as fault:
                    code = repr(fault)
            print(json.dumps([operation, error, command, code, err.getvalue()]), file=sys.__stdout__)
"""


@pytest.fixture
def told(
    cc: Callable[..., Path], tmp_path: Path, emulator_env: Callable[..., dict[str, str]]
) -> list[tuple[str, int, list[str], object, str]]:
    (tmp_path / "shared").mkdir()
    daemon = Fikitd(tmp_path)
    daemon.reports, daemon.profiles = tmp_path / "shared" / "reports", tmp_path / "shared" / "profiles"
    daemon.config.write_text(
        f'[daemon]\nrun_dir = "{daemon.run_dir}"\nreport_dir = "{daemon.reports}"\nprofile_dir = "{daemon.profiles}"\n'
    )
    daemon.start()
    runner = Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())
    runner.run(20, 50_000, measure=True, profile="mine")
    assert daemon.stop() == 0
    storage = FailingStorage(cc, tmp_path, tmp_path / "shared")
    command = [
        sys.executable,
        "-c",
        ALL,
        Path(__file__).resolve().parents[1] / "support",
        storage.env["FAILING_STORAGE"],
        json.dumps(COMMANDS),
        json.dumps(ERRORS),
    ]
    env = {**emulator_env(), **storage.env, "FIKIT_CONFIG": str(daemon.config)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_no_error_of_storage_is_a_stack_trace(told: list[tuple[str, int, list[str], object, str]]) -> None:
    assert len(told) == len(OPERATIONS) * len(ERRORS) * len(COMMANDS)
    for operation, error, command, code, err in told:
        case = f"fikit {' '.join(command)}, {operation} fails with {errno.errorcode[error]}: {code}, {err}"
        assert code in (0, 1), case
        assert "Traceback" not in err, case
        assert err.count("\n") <= 1 + len(OPERATIONS), case
        assert code == 0 or err.startswith("fikit: "), case
        nothing = ("there is no report", "there is no profile", "there is no trace")
        assert code == 0 or os.strerror(error) in err or any(each in err for each in nothing), case
