"""Prolog and epilog of the SPANK plugin: repeated, out of order, and with nobody there. The job is always 12 of user 33."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikitd.base import priorities
from fikitd.store.records import JobRecord
from plugin_fake import HAVE_HEADERS, Node, answering, load, set_job_option

pytestmark = pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev")


@pytest.fixture
def node(cc: Callable[..., Path], tmp_path: Path) -> Iterator[Node]:
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run")) as node:
        yield node


def test_prolog_writes_the_record_and_epilog_removes_it(node: Node) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    record = JobRecord.read(node.record)
    assert (record.uid, record.gid, record.priority, record.gpus) == (33, 44, 1, "1")
    node.epilog()
    assert node.heard == ["ping", "end 12"]
    assert not node.record.exists()
    assert node.log() == ""


@pytest.mark.parametrize("gpus", [None, ""])
def test_job_without_gpu_has_no_record_and_starts_no_daemon(node: Node, gpus: str | None) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog(gpus)
    assert (node.heard, node.record.exists(), node.log()) == ([], False, "")


def test_prolog_of_a_requeued_job_overwrites_the_record(node: Node) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    set_job_option(node.plugin, "fikit-priority", "low")
    node.prolog()
    assert JobRecord.read(node.record).priority == 8


@pytest.mark.parametrize(
    ("said", "kept"), [("s0ABCDEFGHJKMN", "s0ABCDEFGHJKMN"), (None, ""), ("s0\nuid=0\njob=1", ""), ("s1", "")]
)
def test_record_has_the_name_of_the_runs_cgroup(node: Node, said: str | None, kept: str) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog(sluid=said)
    assert JobRecord.read(node.record).sluid == kept


def test_epilog_that_comes_after_the_next_runs_prolog_leaves_that_run_alone(node: Node) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog(restart=0)
    node.prolog(restart=1)
    node.epilog(restart=0)
    assert node.record.exists()
    assert "end 12" not in node.heard
    assert "is of an earlier run" in node.log()
    node.epilog(restart=1)
    assert (node.record.exists(), node.heard[-1]) == (False, "end 12")


@pytest.mark.parametrize(("prolog", "epilog"), [(None, None), (1, None), (None, 0), (1, 2), (1, 1)])
def test_epilog_of_which_nobody_says_that_it_is_an_earlier_runs_ends_the_job(
    node: Node, prolog: int | None, epilog: int | None
) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog(restart=prolog)
    node.epilog(restart=epilog)
    assert (node.record.exists(), node.heard) == (False, ["ping", "end 12"])


@pytest.mark.parametrize(
    ("in_toml", "words", "priority"),
    [
        ("", (), 5),
        ('default_priority = "low"', (), 8),
        ("default_priority = 3 # ours", (), 3),
        ('default_priority = "high"', ("default_priority=1",), 1),
        ('default_priority = "low"', ("default_priority=high",), 8),
        ('default_priority = "high"', ("default_priority=low",), 8),
        ("", ("default_priority=high",), 5),
        ("", ("default_priority=low",), 8),
    ],
)
def test_priority_that_nobody_names_is_the_sites_and_never_above_what_slurmctld_approved(
    cc: Callable[..., Path], tmp_path: Path, in_toml: str, words: tuple[str, ...], priority: int
) -> None:
    toml = tmp_path / "fikit.toml"
    toml.write_text(f"[daemon]\ndefault_priority = 0\n[slurm]\n{in_toml}\n[access]\n")
    node = Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"config={toml}", *words)
    set_job_option(node.plugin, "fikit-mem", "2G")
    node.prolog()
    assert JobRecord.read(node.record).priority == priority
    differ = bool(words) and priorities.parse(words[0].partition("=")[2]) != (
        priorities.site_default(toml.read_text()) or 5
    )
    assert ("take it out of plugstack.conf" in node.log()) == differ


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("auto", "", (5, (5, 8))),
        ("auto", 'default_priority = "low"', (8, (8, 8))),
        ("auto", "default_priority = 9", (9, (9, 9))),
        ("auto:low-high", "default_priority = 9", (1, (1, 8))),
        ("auto:3-6", "", (3, (3, 6))),
        ("low", "", (8, None)),
    ],
)
def test_a_range_is_in_the_record_and_the_job_begins_at_its_upper_end(
    cc: Callable[..., Path], tmp_path: Path, text: str, default: str, expected: tuple[int, tuple[int, int] | None]
) -> None:
    toml = tmp_path / "fikit.toml"
    toml.write_text(f"[slurm]\n{default}\n")
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"config={toml}")) as node:
        set_job_option(node.plugin, "fikit-priority", text)
        node.prolog()
    record = JobRecord.read(node.record)
    assert (record.priority, record.auto) == expected


def test_what_is_only_measured_has_the_lowest_priority(node: Node) -> None:
    set_job_option(node.plugin, "fikit-measure", "(null)")
    node.prolog()
    record = JobRecord.read(node.record)
    assert (record.measure, record.priority) == (True, 9)


def test_record_left_by_an_earlier_job_of_that_number_goes(node: Node) -> None:
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    set_job_option(node.plugin, "", "")
    node.prolog()
    assert not node.record.exists()


def test_epilog_without_prolog_asks_nobody(node: Node) -> None:
    node.epilog()
    assert node.heard == []
    assert node.log() == ""


def test_job_without_options_needs_no_daemon(node: Node) -> None:
    set_job_option(node.plugin, "", "")
    node.prolog()
    assert node.heard == []
    assert list(node.run_dir.glob("jobs/*")) == []


@pytest.mark.parametrize("words", [(), ("daemon=/nonexistent/fikitd",)])
def test_no_daemon_is_one_sentence_and_the_job_goes_on(
    cc: Callable[..., Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    node = Node(load(cc, tmp_path / "slurm"), tmp_path / "run", *words)
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    assert node.record.exists()
    assert node.log().count("\n") == 1
    assert "plugstack.conf" in node.log()
    node.epilog()
    assert not node.record.exists()


def test_a_node_without_processes_is_one_sentence_and_the_job_goes_on(cc: Callable[..., Path], tmp_path: Path) -> None:
    plugin = load(cc, tmp_path / "slurm", "-Dfork=fake_fork_that_fails")
    node = Node(plugin, tmp_path / "run", "daemon=/bin/true")
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    assert node.record.exists()
    assert node.log().count("\n") == 1
    assert "couldn't start /bin/true: Resource temporarily unavailable: jobs run unmanaged" in node.log()


def test_run_dir_that_cannot_be_made_is_one_sentence(cc: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node = Node(load(cc, tmp_path / "slurm"), tmp_path / "file" / "run")
    set_job_option(node.plugin, "fikit-priority", "high")
    node.prolog()
    assert node.log().count("\n") == 1
    assert "runs unmanaged" in node.log()
