"""Fields that had another name once: a document of before is read, and a reader of before finds what it looks for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_samples import REPORT
from fikit.api import job_report
from fikitd.api import former_names, report_format
from fikitd.api.former_names import FORMER_NAMES, Document
from fikitd.base.protocol import Device
from fikitd.jobs.ledger import Entry, Ledger
from fikitd.jobs.totals import Totals


@pytest.mark.parametrize("document", FORMER_NAMES)
def test_every_former_name_is_written_with_todays_value_and_read_alone(document: Document) -> None:
    today = {now: number for number, now in enumerate(FORMER_NAMES[document].values())}
    written = former_names.with_former(document, {**today, "other": -1})
    assert {now: written[former] for former, now in FORMER_NAMES[document].items()} == today
    former = {name: value for name, value in written.items() if name not in today}
    assert former_names.renamed(document, former) == {**today, "other": -1}


def test_of_a_field_under_both_names_todays_counts() -> None:
    for fields in ({"solo_s": 1.0, "span_alone_s": 2.0}, {"span_alone_s": 2.0, "solo_s": 1.0}):
        assert former_names.renamed("report", fields) == {"span_alone_s": 2.0}


def test_a_report_of_before_is_read_and_shown_under_both_names() -> None:
    today = set(FORMER_NAMES["report"].values())
    before = {key: value for key, value in REPORT.items() if key not in today}
    report = report_format.parse(json.dumps(before).encode())
    for former, now in FORMER_NAMES["report"].items():
        assert report[now] == report[former] == REPORT[now] != []


def test_why_a_job_of_before_waited_is_known() -> None:
    before = {key: value for key, value in REPORT.items() if key not in ("wait_reasons", "delays")}
    run = job_report.of(report_format.parse(json.dumps(before).encode()))
    assert [each.reason for each in run.wait_reasons] == [each["reason"] for each in REPORT["held"]]
    assert [each.job for each in run.delays] == ["18"]


def test_a_running_jobs_counters_have_both_names() -> None:
    fields = replace(Totals(), span_alone_ns=1_500_000_000).fields()
    assert fields["span_alone_s"] == fields["solo_s"] == 1.5


@pytest.mark.parametrize("missing", ["solo_ns", "span_alone_ns"])
def test_a_ledger_is_taken_over_by_the_fikitd_before_and_after(missing: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    device = Device("Emulated GPU", "GPU-1", 2**30)
    ledger._store("12", Entry(1, 2, device, Totals(kernels=3, span_alone_ns=5)))
    note = tmp_path / "ledger" / "12"
    noted = json.loads(note.read_text())
    assert noted["totals"].pop(missing) == 5
    note.write_text(json.dumps(noted))
    ((_, entry),) = ledger.entries()
    assert entry.totals.span_alone_ns == 5
