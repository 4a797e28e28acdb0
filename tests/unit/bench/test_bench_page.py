"""Tables of benches in the documentation: written in place, never anywhere else."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fikitd.base.quantities import nanoseconds

from bench import __main__ as command
from bench import device_option, page, record
from bench.__main__ import BENCHES
from bench.gpu.pages import blocks

DEVICES = {"slices --switch 20us": "slices --slice 1024us --switch 20us", "mps": "mps --overlap 1"}
"""What a command says of its device, and what the page has of it."""

READ: dict[str, Callable[[str], object]] = {
    "device": str,
    "slice": nanoseconds,
    "switch": nanoseconds,
    "mps_model": str,
    "overlap": float,
}

PAGE = """# Results
<!-- python -m bench heldout -->
old
table
<!-- end -->
text
<!-- python -m bench bound -->

<!-- end -->
"""


def test_a_table_replaces_its_last_one_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    monkeypatch.setattr(record, "commit", lambda: "0123456789abcdef+changes")
    monkeypatch.setattr(sys, "argv", ["bench", "heldout", "--json=x", "--switch", "20us", "--page", str(path)])
    for rows in ([("a", "1")], [("a", "2"), ("b", "3")]):
        page.write(path, "heldout", page.markdown(("policy", "harvest"), rows))
    source = "\n\nCommit 0123456789+changes: `python -m bench heldout --switch 20us`"
    table = f"| policy | harvest |\n|---|---|\n| a | 2 |\n| b | 3 |{source}"
    assert path.read_text() == PAGE.replace("old\ntable", table)
    with pytest.raises(record.BenchError, match="made no table for"):
        page.write(path, "heldout", "")
    page.write(path, "bound", "new")
    assert path.read_text() == PAGE.replace("old\ntable", table).replace("bound -->\n", f"bound -->\nnew{source}")


@pytest.mark.starts_processes
def test_the_first_table_of_a_place_takes_nothing_of_the_next_place(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE.replace("old\ntable\n", ""))
    page.write(path, "heldout", "new")
    assert path.read_text().endswith(PAGE.partition("table\n")[2])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "couldn't read"),
        ("<!-- python -m bench bound -->\nx", "has no place for this table"),
        ("", "has no place"),
    ],
)
def test_a_page_without_a_place_is_one_sentence_before_anything_runs(
    text: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(BENCHES["bound"], "run", lambda **_: pytest.fail("it ran"))
    monkeypatch.setattr(sys, "argv", ["bench", "bound", "--page", str(path)])
    assert command.main() == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.starts_processes
def test_tables_of_a_run_reach_the_page(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.md"
    places = [f"<!-- python -m bench heldout --device {device} -->" for device in DEVICES.values()]
    path.write_text("".join(f"{place}\n\n<!-- end -->\n" for place in places))
    bench = ["bench", "heldout", "--traces", str(traces), "--requests", "2", "--page", str(path), "--device"]
    for device in DEVICES:
        monkeypatch.setattr(sys, "argv", [*bench, *device.split()])
        assert command.main() == 0
    for place, has in zip(places, ("| weighted |", "| mps-priority |"), strict=True):
        table = path.read_text().partition(place)[2].partition("<!-- end -->")[0]
        assert "| policy | mean JCT ratio | highest |" in table
        assert "| budget |" in table
        assert has in table


def test_the_documentation_has_one_place_for_each_table() -> None:
    """Of a bench that simulates a device, or names its places itself, each place says which, as the bench would."""
    tables = {name for name, bench in BENCHES.items() if hasattr(bench, "HEAD")}
    assert tables >= {"bound", "frontier", "heldout", "tuning"}
    text = "".join(path.read_text() for path in (record.ROOT / "docs").rglob("*.md"))
    places = re.findall(r"<!-- python -m bench (\w+)(: \w+|(?: --[\w-]+(?: [^-\s]\S*)?)*) -->", text)
    assert len(places) == len(set(places)) == text.count("<!-- python -m bench ")
    assert {name for name, _ in places} <= set(BENCHES)
    assert "frontier" in {name for name, _ in places}
    assert [block for name, block in places if name == "gpu"] == [f": {block}" for block in blocks.BLOCKS]
    for name, device in places:
        if name == "gpu":
            continue
        if hasattr(BENCHES[name], "place"):
            assert BENCHES[name].place(vars(command._parser().parse_args([name, *device.split()]))) == device
            continue
        given = {key.replace("-", "_"): value for key, value in re.findall(r"--([\w-]+) (\S+)", device)}
        known: dict[str, Any] = dict.fromkeys(("device", "slice", "switch", "mps_model", "overlap"))
        known |= {key: READ[key](value) for key, value in given.items()}
        assert not device or device_option.place(device_option.of(known)) == device
