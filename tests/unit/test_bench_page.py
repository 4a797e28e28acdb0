"""Tables of benches in the documentation: written in place, never anywhere else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import __main__ as command
from bench import page, record
from bench.__main__ import BENCHES

PAGE = """# Results
<!-- python -m bench heldout -->
old
table
<!-- end -->
text
<!-- python -m bench bound -->

<!-- end -->
"""


def test_a_table_replaces_its_last_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    for rows in ([("a", "1")], [("a", "2"), ("b", "3")]):
        page.write(path, "heldout", page.markdown(("policy", "harvest"), rows))
    table = "| policy | harvest |\n|---|---|\n| a | 2 |\n| b | 3 |"
    assert path.read_text() == PAGE.replace("old\ntable", table)
    with pytest.raises(record.BenchError, match="made no table for"):
        page.write(path, "heldout", "")
    page.write(path, "bound", "new")
    assert path.read_text() == PAGE.replace("old\ntable", table).replace("bound -->\n", "bound -->\nnew")


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


def test_tables_of_a_run_reach_the_page(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    monkeypatch.setattr(
        sys, "argv", ["bench", "heldout", "--traces", str(traces), "--requests", "2", "--page", str(path)]
    )
    assert command.main() == 0
    assert "| policy | mean JCT ratio | highest |" in path.read_text()
    assert "| budget |" in path.read_text()


def test_the_documentation_has_one_place_for_each_table() -> None:
    tables = {name for name, bench in BENCHES.items() if hasattr(bench, "HEAD")}
    assert tables >= {"bound", "frontier", "heldout", "tuning"}
    docs = record.ROOT / "docs"
    for name in tables:
        assert all(page.around(docs / "scheduling-results.md", name))
    places = re.findall(r"<!-- python -m bench (\w+) -->", "".join(path.read_text() for path in docs.rglob("*.md")))
    assert len(places) == len(set(places))
