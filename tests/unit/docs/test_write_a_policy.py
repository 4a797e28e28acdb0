"""docs/write-a-policy.md: its commands print what the page shows. Simulated figures may move a little with the model; ranks may not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fikit.commands.sim import command

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "write-a-policy.md").read_text()
SHOWN = re.findall(r"```console\n\$ fikit sim (.*)\n((?:.*\n)+?)```", PAGE)
LITTLE = 0.1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where somebody has written the page's first policy."""
    place = tmp_path_factory.mktemp("stranger")
    first = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert first is not None
    (place / "mine.py").write_text(first[1])
    (place / "examples").symlink_to(ROOT / "examples")
    return place


def rows(text: str) -> dict[str, list[float]]:
    """Policy -> its figures."""
    lines = [line for line in text.splitlines() if re.match(r" [\w.-]+ .*x ", line)]
    return {line.split()[0]: [float(cell) for cell in re.findall(r" ([\d.]+)(?:x| %)", line)] for line in lines}


def typed(place: Path, command_line: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(place)
    return CliRunner().invoke(command, command_line.split())


@pytest.mark.takes_seconds
@pytest.mark.parametrize(("command_line", "shown"), SHOWN)
def test_the_pages_commands_print_what_it_shows(
    place: Path, command_line: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = typed(place, command_line, monkeypatch)
    assert done.exit_code == 0, done.output
    found, said = rows(done.stdout), rows(shown)
    assert len(said) >= 3
    assert list(found) == list(said)
    for name, figures in said.items():
        assert found[name] == pytest.approx(figures, rel=LITTLE, abs=0.02), done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("simulated")] == [
        line for line in shown.splitlines() if line.startswith("simulated")
    ]


def test_what_the_page_says_of_the_example_is_what_it_shows() -> None:
    for command_line, shown in SHOWN[1:]:
        of = rows(shown)
        jct, harvest = 0, 2
        assert "purse.py" in command_line
        assert of["purse.py"][jct] <= of["prio"][jct]
        assert of["purse.py"][harvest] > of["excl"][harvest]
