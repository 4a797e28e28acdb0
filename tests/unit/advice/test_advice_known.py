"""What `fikit advise` takes from the caller's own profiles: longest kernels, bursts, batches; and from slurmdbd."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_samples import DEVICE, REPORT
from daemon_fakes import kernel, statistics
from fikit.advice import known
from fikit.advice.facts import Run
from fikitd._core import Rhythm
from fikitd.profiles import profile_store
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import own_directory

from fikitd import _core

US, MS = 1000, 1_000_000


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    toml = tmp_path / "fikit.toml"
    toml.write_text(
        "[daemon]\n" + "".join(f'{each}_dir = "{tmp_path}/{each}"\n' for each in ("run", "report", "profile"))
    )
    monkeypatch.setenv("FIKIT_CONFIG", str(toml))
    return tmp_path


def reported(site: Path, job: str, name: str, key: str, **facts: Any) -> None:
    own = own_directory.make(site / "report", os.getuid())
    report = {**REPORT, "job": job, "name": name, "profile": {**REPORT["profile"], "key": key}, **facts}
    (own / f"{job}.json").write_text(json.dumps(report))


def profiled(site: Path, key: str, run: str, **facts: Any) -> None:
    usual = {"command": ["python3", "train.py"], "peak_bytes": 2**30, "kernels": [kernel()], "rhythm": None}
    made = profile_store.document(
        key=key, created="2026-11-21T12:00:00Z", device=DEVICE, span_ns=10, launches=1, **{**usual, **facts},
    )  # fmt: skip
    ProfileStore(site / "profile").save(os.getuid(), made, run)


def requests(wait_ns: list[int]) -> Any:
    """A program that launches twice and waits until so long after the first launch, each time."""
    rhythm, begin_ns = Rhythm(), 0
    for ns in wait_ns:
        rhythm.launched(begin_ns, 1, 10 * US)
        rhythm.launched(begin_ns + 20 * US, 2, 10 * US)
        rhythm.waited(begin_ns + ns, True)
        begin_ns += ns + MS
    return rhythm.learnt()


def test_profiles_are_found_by_the_names_of_their_jobs(site: Path) -> None:
    reported(site, "12", "serve", "serve-1")
    reported(site, "13", "train", "train-1")
    long = {**statistics(9), "histogram": {"160": 9}}
    profiled(site, "train-1", "run1", kernels=[kernel(), kernel(name="long", duration=long)])
    found = known.OwnProfiles(os.getuid())
    longest_s = found.longest_kernel_s("train")
    assert longest_s == pytest.approx(_core.quantile({"160": 9}, 0.999) / 1e9)
    assert longest_s > 50 * _core.quantile({"80": 9}, 0.999) / 1e9
    assert found.longest_kernel_s("serve") is None, "whose profile is gone"
    assert found.longest_kernel_s("never") is None
    assert found.burst("train") is None, "no wait was seen"


def test_a_burst_is_what_the_program_launches_between_two_waits(site: Path) -> None:
    reported(site, "12", "serve", "serve-1")
    profiled(site, "serve-1", "run1", rhythm=requests([500 * US] * 50))
    burst = known.OwnProfiles(os.getuid()).burst("serve")
    assert burst is not None
    assert burst.p99_s == pytest.approx(500e-6, rel=0.15)
    assert 0 <= burst.slack_s <= 500e-6


def test_the_99th_percentile_is_of_all_bursts_by_how_often_they_were() -> None:
    segments = {
        "a" * 16: {"span": [97, 1000]},
        "b" * 16: {"span": [2, 5000, 6000]},
        "c" * 16: {"span": [1, 9000]},
        "d" * 16: {},
    }
    burst = known.burst({"rhythm": {"segments": segments, "slacks": {"a" * 16: [5, 300, 400], "b" * 16: [1, 200]}}})
    assert burst is not None
    assert (burst.p99_s, burst.slack_s) == (6e-6, 2e-7)
    assert known.burst({"rhythm": {"segments": {}, "slacks": {}}}) is None


def test_runs_with_several_batches(site: Path) -> None:
    reported(site, "12", "train", "train-1")
    for number, words in enumerate((["--batch-size", "16"], ["--batch-size=64"], ["--lr", "1"])):
        profiled(
            site, "train-1", f"run{number}", command=["python3", "train.py", *words], peak_bytes=(number + 1) * 2**30
        )
    found = known.OwnProfiles(os.getuid())
    assert sorted(found.batches("train"), key=lambda run: run.batch) == [Run(16, 2**30), Run(64, 2**31)]
    assert found.batches("never") == ()


@pytest.mark.starts_processes
def test_slurmdbd_is_asked_where_the_site_has_it(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sacct").write_text(
        "#!/bin/sh\n"
        "for word; do case $word in --delimiter=*) s=${word#--delimiter=};; esac; done\n"
        'printf "7%s1000%s1790000000%sfikit:gpu_s=1.0,elapsed_s=50.0,busy=0.5%strain%s\\n" "$s" "$s" "$s" "$s" "$s"\n'
    )
    (programs / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert known.runs({}).sources == ()
    found = known.runs({"accountingstoragetype": "accounting_storage/slurmdbd"})
    assert found.sources == ("slurmdbd",)
    assert found.expectation(1000, "train", 0.0, 1e9).rest_s == 50
    assert (found.busy(1000, "train").share, found.busy(1000, "train").source) == (0.5, "name")
    assert found.busy(7, "other").source == "cluster"
    (programs / "sacct").write_text("#!/bin/sh\nexit 1\n")
    assert known.runs({"accountingstoragetype": "accounting_storage/slurmdbd"}).sources == ()


def test_a_spool_that_is_slurmusers_is_no_fault(
    site: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    toml = site / "fikit.toml"
    toml.write_text(toml.read_text() + f'outcomes_dir = "{site}/spool"\n')

    def closed(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fikitd.api.outcomes.read", closed)
    assert known.runs({}).sources == ()
    assert caplog.messages == []
    monkeypatch.undo()
