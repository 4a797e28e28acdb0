"""The tests of `make test`, or of `make slow`, side by side; what failed once more, alone and on a machine that is quiet by then. A test that fails twice has
failed; one that passes alone is named at the end and in build/tests-alone.txt (tests-slow-alone.txt): a clock, or what another test had left in its process, was
to blame, and it wants mending.

suite.py [--slow] [WORKERS]; exit status of pytest. Where the time went is in build/tests.xml (tests-slow.xml).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

MOST = 5  # with more, something is broken
FAILED = Path(".pytest_cache/v/cache/lastfailed")
PYTEST = (sys.executable, "-m", "pytest")
GROUP = re.compile(r"@[\w.-]+$")  # pytest-xdist's name of the tests that stay together, behind a test's own


def second_tries(failed: list[str]) -> list[str]:
    """Of what failed, by pytest's names, the tests to run again: all of them, or none. A file that could not be read has no second try."""
    tests = sorted({GROUP.sub("", test) for test in failed})
    return tests if len(tests) <= MOST and all("::" in test for test in tests) else []


def main(words: list[str]) -> int:
    slow = "--slow" in words
    name, chosen = ("tests-slow", "slow") if slow else ("tests", "not slow")
    alone = Path(f"build/{name}-alone.txt")
    FAILED.unlink(missing_ok=True)
    alone.unlink(missing_ok=True)
    workers = next((word for word in words if word != "--slow"), "2")
    side_by_side = ("-m", chosen, "-n", workers, "--dist", "loadgroup", f"--junitxml=build/{name}.xml")
    status = subprocess.call([*PYTEST, *side_by_side])
    if status != 1 or not FAILED.exists():
        return status
    tests = second_tries(list(json.loads(FAILED.read_text())))
    if not tests:
        return status
    print(f"suite: once more, alone: {', '.join(tests)}", flush=True)
    status = subprocess.call([*PYTEST, "-n", "0", "-rfE", *tests])
    if status == 0:
        alone.write_text("".join(f"{test}\n" for test in tests))
        print(f"suite: passed alone, not beside others: {', '.join(tests)}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
