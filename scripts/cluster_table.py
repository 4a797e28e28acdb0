"""Which files of the cluster suite ran under which Slurm, and how they went: a table from pytest's JUnit files.

cluster_table.py build/cluster-22.05 ...: reads build/cluster-22.05.xml; where there is none, the suite did not run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

OUTCOMES = ("failed", "passed", "skipped")


def outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def file_of(case: ElementTree.Element) -> str:
    """`tests.cluster.test_reboot` or, for a class or a file that could not be read, something around it."""
    words = f"{case.get('classname', '')}.{case.get('name', '')}".split(".")
    return next((word for word in words if word.startswith("test_")), words[0])


def cases_of(path: Path) -> list[ElementTree.Element]:
    try:
        return list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []


def counted(cases: Iterable[ElementTree.Element]) -> str:
    counts = Counter(map(outcome, cases))
    return ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]) or "did not run"


def main(arguments: list[str]) -> None:
    results = {name.rpartition("-")[2]: cases_of(Path(f"{name}.xml")) for name in arguments}
    files = sorted({file_of(case) for cases in results.values() for case in cases})
    rows = [["", *results]]
    for name in files:
        rows.append([name, *(counted(case for case in cases if file_of(case) == name) for cases in results.values())])
    rows.append(["all", *map(counted, results.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for line, cases in results.items():
        reasons = Counter(skip.get("message", "") for case in cases if (skip := case.find("skipped")) is not None)
        for reason, count in reasons.items():
            print(f"{line}: {count} skipped: {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
