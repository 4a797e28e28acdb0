"""Where runs of the suite spent their time, from pytest's JUnit files: folders, then the slowest files, then the slowest tests.

slowest.py [FILE...], of make test and make slow, as far as they ran, by default; the seconds of a test include those of its fixtures, and those of two workers add up.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

WRITTEN = (Path("build/tests.xml"), Path("build/tests-slow.xml"))  # by scripts/suite.py
FILES, TESTS = 15, 25  # that are shown


def seconds_by_test(path: Path) -> dict[tuple[str, str, str], float]:
    """(folder, file, test) -> seconds. Raises OSError and ElementTree.ParseError."""
    spent: dict[tuple[str, str, str], float] = defaultdict(float)
    for case in ElementTree.parse(path).iter("testcase"):
        words = case.get("classname", "").split(".")
        file = next((word for word in words if word.startswith("test_")), "?")
        folder = "/".join(words[: words.index(file)] if file in words else words)
        spent[folder, file, case.get("name", "?")] += float(case.get("time", 0))
    return spent


def summed(spent: dict[tuple[str, str, str], float], depth: int) -> list[tuple[str, float]]:
    """By the first `depth` parts of the name, the slowest first."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in spent.items():
        sums[" ".join(name[:depth])] += seconds
    return sorted(sums.items(), key=lambda each: -each[1])


def table(title: str, rows: list[tuple[str, float]]) -> str:
    return "\n".join([f"{title}:", *(f"{seconds:8.1f} s  {name}" for name, seconds in rows)])


def main(words: list[str]) -> int:
    """Exit status 1 when there is no file to read."""
    paths = [Path(word) for word in words] or [path for path in WRITTEN if path.exists()] or [WRITTEN[0]]
    spent: dict[tuple[str, str, str], float] = {}
    for path in paths:
        try:
            spent |= seconds_by_test(path)
        except (OSError, ElementTree.ParseError) as error:
            print(
                f"slowest: cannot read {path}, which make test or make slow writes at its end: {error}", file=sys.stderr
            )
            return 1
    print(table(f"{sum(spent.values()):.0f} s of tests, by folder", summed(spent, 1)))
    print(table("slowest files", summed(spent, 2)[:FILES]))
    print(table("slowest tests", summed(spent, 3)[:TESTS]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
