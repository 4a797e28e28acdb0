"""`make release`: what goes into the version and the changelog, what is refused and in which order things are made."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from scripts import release

TODAY = date(2026, 12, 1)
LOG = "# Changelog\n\n## Unreleased\n\n* One thing.\n\n## 0.1.0 (2026-11-01)\n\n* The first.\n"
SOURCE = '"""fikitd."""\n\n__version__ = "0.1.0"\n'


def test_what_was_unreleased_is_the_version_s() -> None:
    text = release.with_section(LOG, "0.2.0", TODAY)
    assert text == LOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-12-01)\n")


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        (LOG, "0.1.0", "has 0.1.0 already"),
        (LOG.replace("* One thing.\n", ""), "0.2.0", "nothing under"),
        ("# Changelog\n", "0.2.0", "nothing under"),
    ],
)
def test_a_changelog_that_says_nothing_of_the_version_is_refused(text: str, version: str, why: str) -> None:
    with pytest.raises(release.ReleaseError, match=why):
        release.with_section(text, version, TODAY)


def test_the_version_stands_in_one_place() -> None:
    assert release.with_version(SOURCE, "0.10.0") == SOURCE.replace("0.1.0", "0.10.0")
    assert release.with_version(SOURCE, "0.1.0") == SOURCE
    release.with_version((release.ROOT / release.VERSION_FILE).read_text(), "1000.0.0")
    for other in ("pyproject.toml", "CMakeLists.txt"):
        assert "0.1.0" not in (release.ROOT / other).read_text()


@pytest.mark.parametrize("version", ["0.0.9", "1", "1.2", "1.2.3rc1", "01.2.3", "", "1.2.3\n"])
def test_an_older_version_and_what_is_none_are_refused(version: str) -> None:
    with pytest.raises(release.ReleaseError):
        release.with_version(SOURCE, version)


def test_the_line_of_slurm_is_what_its_header_says(tmp_path: Path) -> None:
    header = tmp_path / "slurm_version.h"
    assert release.line_of(header) is None
    header.write_text("#define SLURM_VERSION_NUMBER 0x180b05\n")
    assert release.line_of(header) == "24.11"
    header.write_text("nothing of the kind\n")
    assert release.line_of(header) is None


class Tree:
    """A checkout with one commit to be released, and the commands that were run in it."""

    def __init__(self, at: Path) -> None:
        self.at, self.commands, self.fails = at, [], ""
        for name, text in ((release.VERSION_FILE, SOURCE), (release.CHANGELOG, LOG)):
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_text(text)
        self.status = ""

    def run(self, command: list[str]) -> None:
        self.commands.append(" ".join(command))
        if self.fails and self.fails in self.commands[-1]:
            raise subprocess.CalledProcessError(2, command)
        if "wheel" in command:
            (self.at / "dist/fikit.whl").write_bytes(b"abc")

    def release(self, *words: str) -> int:
        return release.main(list(words), self.run, TODAY)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree = Tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, tree.status)
    )  # git status
    monkeypatch.setattr(release, "headers", lambda: iter([("22.05", release.SYSTEM), ("24.11", Path("/other"))]))
    return tree


def test_packages_of_other_slurms_come_after_those_that_are_tried(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tree.release("0.2.0") == 0
    tried = next(i for i, command in enumerate(tree.commands) if command.endswith("deb-test"))
    others = next(i for i, command in enumerate(tree.commands) if "SLURM_INCDIR=/other" in command)
    assert tried < others
    assert '__version__ = "0.2.0"' in (tree.at / release.VERSION_FILE).read_text()
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (tree.at / "dist/SHA256SUMS").read_text() == f"{digest}  fikit.whl\n"
    said = capsys.readouterr().out
    assert "for Slurm 22.05, 24.11" in said
    assert "git tag -a v0.2.0" in said


@pytest.mark.parametrize("words", [(), ("0.2.0", "0.3.0"), ("0.2",), ("0.0.1",), ("0.1.0",)])
def test_a_refusal_changes_nothing(words: tuple[str, ...], tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert tree.release(*words) == 1
    assert tree.commands == []
    assert (tree.at / release.VERSION_FILE).read_text() == SOURCE
    assert (tree.at / release.CHANGELOG).read_text() == LOG
    assert capsys.readouterr().err.startswith("release: ")


def test_changes_that_are_not_committed_are_no_release(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.status = " M README.md\n"
    assert tree.release("0.2.0") == 1
    assert "not committed" in capsys.readouterr().err
    assert tree.commands == []


def test_packages_that_fail_in_a_clean_system_are_no_release(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.fails = "deb-test"
    assert tree.release("0.2.0") == 1
    assert "deb-test failed" in capsys.readouterr().err
    assert not (tree.at / "dist/SHA256SUMS").exists()
