"""What fikitd tells Prometheus: the table, the values behind it, and the text of a page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_samples import MOVED, REPORT
from daemon_fakes import NOTHING
from fikitd.api.elapsed import NO_PROMISE
from fikitd.base.protocol import Device
from fikitd.base.shares import GPUS
from fikitd.jobs.gpu_use import Look
from fikitd.metrics import meter, page, table
from fikitd.metrics.meter import Meter
from nvml_looks import OTHER, look, record, seen
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[3]
GPU = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
DEVICE = Device("Emulated GPU", GPU, 2**34)
S = 10**9


class Node:
    """A node as the meter sees it, with what a test says."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.stats: dict[int, dict[str, Any]] = {}
        self.around: list[tuple[str, int]] = []
        self.now_s = 1000.0
        self.look_at_use = Look()
        self.meter = Meter(
            "budget", lambda: self.jobs, lambda: self.around, lambda: self.now_s, use=lambda: self.look_at_use
        )

    def job(
        self, number: int, priority: int = 1, uid: int = 4711, plan: dict[str, int] | None = None, **report: Any
    ) -> Any:
        said = {
            "wait_reasons": [], "delays": [], "gpu_time_s": 0.0, "gpu_time_at_most_s": None, "slowdown": None, "max_slowdown": None, "kept": None,
            "kept_unknown": NO_PROMISE, "memory": REPORT["memory"], **report,
        }  # fmt: skip
        record = SimpleNamespace(job=str(number), uid=uid, priority=priority)
        self.jobs.append(
            SimpleNamespace(
                number=number,
                record=record,
                quiet=False,
                said=said,
                report=lambda: said,
                device=DEVICE,
                bytes_on_gpu=lambda _: 5,
                memory_plan=plan,
            )
        )
        return self.jobs[-1]

    def client(self, number: int, job: Any, gpu: str = GPU, gpu_s: float = 0.0, switch_ns: int | None = None) -> None:
        self.ran(number, gpu_s)
        self.meter.came(
            number,
            gpu,
            DEVICE,
            job,
            stats_now=lambda: self.stats[number],
            held_bytes=lambda: 2**20,
            switch_ns=lambda: switch_ns,
        )

    def ran(self, number: int, gpu_s: float) -> None:
        self.stats[number] = {**NOTHING, "kernels": 1, "gpu_time_ns": int(gpu_s * S), "under_way_ns": int(gpu_s * S)}

    def look(self) -> meter.Values:
        self.now_s += 3600
        return self.meter.values()


@pytest.fixture
def node() -> Node:
    return Node()


PLAN = {"budget_bytes": 5, "peak_bytes": 8}


def full(node: Node) -> meter.Values:
    """Values in which every metric has one."""
    high = node.job(
        12,
        wait_reasons=[{"reason": "turn", "total_s": 1.5}],
        delays=[{"total_s": 0.5}],
        slowdown=1.02,
        max_slowdown=0.05,
    )
    low = node.job(18, 8, plan=PLAN, memory={**MOVED, "plan": {**PLAN, "passes": 7}})
    node.client(1, high, switch_ns=50_000)
    node.client(2, low)
    node.ran(1, 3)
    node.ran(2, 2)
    node.around.append((GPU, 99))
    node.look_at_use = Look([seen(OTHER, 1)], {})
    return node.look()


def test_the_administrators_guide_has_the_table() -> None:
    assert table.markdown() in (ROOT / "docs" / "admin.md").read_text()


def test_names_and_types_go_by_prometheus_own_rules() -> None:
    names = [metric.name for metric in table.METRICS]
    assert len(names) == len(set(names))
    for metric in table.METRICS:
        assert re.fullmatch(r"fikit(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == table.COUNTER)
        assert not {"job", "instance", "le", "quantile"} & set(metric.labels)
        assert not metric.help.endswith(".")


def test_a_page_has_every_metric_as_the_table_says_it(node: Node) -> None:
    text = page.text(full(node), name_of={"4711": "ana"}.get).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    said = {
        name + ("_total" if family.type == "counter" else ""): (
            family.type, family.documentation, {frozenset(sample.labels) for sample in family.samples}
        )
        for name, family in families.items()
    }  # fmt: skip
    assert said == {m.name: (m.kind, f"{m.help}.", {frozenset(m.labels)}) for m in table.METRICS}
    assert 'fikit_job_slowdown_ratio{jobid="12",priority="1",user="ana"} 1.02' in text


@pytest.mark.starts_processes
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus)")
def test_promtool_has_nothing_to_say(node: Node) -> None:
    text = page.text(full(node), name_of={"4711": "ana"}.get)
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


def test_a_user_whom_nobody_knows_is_a_number() -> None:
    assert page.user_name("4294967290") == "4294967290"


def test_no_name_of_a_job_is_told(node: Node) -> None:
    node.job(12, name="secret", profile={"key": "secret"})
    assert b"secret" not in page.text(node.look())


def test_a_jobs_moved_memory_is_as_its_report_says(node: Node) -> None:
    node.client(1, node.job(18, 8, memory=MOVED))
    values, labels, moved = node.look(), ("18", "4711", "8"), MOVED["moved"]
    assert values[table.MOVED] == {(*labels, "in"): moved["in_bytes"], (*labels, "out"): moved["out_bytes"]}
    said = {metric: values[metric] for metric in (table.RESIDENT, table.MISSED, table.MOVING, table.TURNS)}
    assert said == {
        table.RESIDENT: {labels: 5}, table.MISSED: {labels: moved["missed_bytes"]}, table.MOVING: {labels: moved["moving_s"]},
        table.TURNS: {labels: moved["turns"]},
    }  # fmt: skip


def test_a_job_with_a_plan_has_a_budget_and_its_passes_stay_when_the_plan_is_gone(node: Node) -> None:
    node.client(1, node.job(12))
    job, labels = node.job(18, 8, plan=PLAN, memory={**MOVED, "plan": {**PLAN, "passes": 7}}), ("18", "4711", "8")
    node.client(2, job)
    values = node.look()
    assert (values[table.BUDGET], values[table.PASSES]) == ({labels: 5}, {labels: 7})
    job.memory_plan = None
    values = node.look()
    assert (values.get(table.BUDGET), values[table.PASSES]) == ({}, {labels: 7})


def test_gpu_time_stays_when_its_client_and_its_job_are_gone(node: Node) -> None:
    job = node.job(12)
    node.client(1, job)
    node.ran(1, 3)
    assert node.look()[table.GPU_TIME] == {(GPU,): 3.0}
    node.ran(1, 4)
    node.meter.went(1, node.stats[1])
    node.jobs.clear()
    node.meter.job_ended(job)
    values = node.look()
    assert (values[table.GPU_TIME], values[table.JOB_TIME], values[table.ENDED]) == ({(GPU,): 4.0}, {}, {(): 1})


def test_what_a_client_had_before_this_fikitd_does_not_count_again(node: Node) -> None:
    node.client(1, node.job(12), gpu_s=100)
    node.ran(1, 101)
    assert node.look()[table.GPU_TIME] == {(GPU,): 1.0}


def test_waits_of_before_this_fikitd_do_not_count_again(node: Node) -> None:
    job = node.job(12, wait_reasons=[{"reason": "turn", "total_s": 5.0}], delays=[{"total_s": 2.0}])
    node.meter.begin()
    assert node.look()[table.DELAYS] == {(): 0.0}
    job.said["wait_reasons"] = [{"reason": "turn", "total_s": 6.5}, {"reason": "behind", "total_s": 1.0}]
    job.said["delays"] = [{"total_s": 2.25}]
    values = node.look()
    assert values[table.WAITS] == {("turn",): 1.5, ("behind",): 1.0}
    assert values[table.DELAYS] == {(): 0.25}
    node.jobs.clear()
    node.meter.job_ended(job)
    assert node.look()[table.WAITS] == {("turn",): 1.5, ("behind",): 1.0}


def test_harvest_is_what_ran_while_a_higher_job_was_there(node: Node) -> None:
    low = node.job(18, 8)
    node.client(1, low)
    node.ran(1, 10)
    node.client(2, node.job(12, 1))  # from here on
    node.client(3, node.job(13, 1), gpu="another GPU")
    node.ran(1, 14)
    node.ran(2, 7)
    values = node.look()
    assert values[table.HARVEST][GPU,] == 4.0
    assert values[table.GPU_TIME][GPU,] == 21.0
    node.meter.went(2, node.stats[2])
    node.ran(1, 20)
    assert node.look()[table.HARVEST][GPU,] == 4.0


def test_harvest_goes_by_the_priorities_in_force(node: Node) -> None:
    low, high = node.job(18, 8), node.job(12, 5)
    node.client(1, low)
    node.client(2, high)
    node.ran(1, 1)
    low.record.priority = 1
    node.meter.priority_changed()
    node.ran(1, 3)
    node.ran(2, 5)
    assert node.look()[table.HARVEST] == {(GPU,): 6.0}  # one second of the first, five of the other


def test_a_gpu_is_as_busy_as_its_time_says(node: Node) -> None:
    node.client(1, node.job(12))
    node.look()
    node.ran(1, 1800)
    assert node.look()[table.BUSY] == {(GPU,): 0.5}
    node.ran(1, 1800 + 2 * 3600)  # kernels overlap
    assert node.look()[table.BUSY] == {(GPU,): 1.0}


def test_how_long_jobs_were_on_a_gpu_and_how_long_it_was_shared(node: Node) -> None:
    high, low = node.job(12), node.job(18, 8)
    node.client(1, high)
    node.now_s += 10
    node.client(2, high)  # a second program of the same job
    node.now_s += 10
    node.client(3, low)
    node.now_s += 30
    node.meter.went(3, node.stats[3])
    node.now_s += 5
    node.meter.went(1, node.stats[1])
    node.meter.went(2, node.stats[2])
    node.now_s += 1000
    values = node.look()
    assert (values[table.OCCUPIED], values[table.SHARED]) == ({(GPU,): 55.0}, {(GPU,): 30.0})
    node.client(4, low)
    values = node.look()  # an hour later
    assert (values[table.OCCUPIED], values[table.SHARED]) == ({(GPU,): 3655.0}, {(GPU,): 30.0})


def test_what_nvml_says_is_of_the_gpu_by_fikits_name(node: Node) -> None:
    node.client(1, node.job(12), gpu=GPU)
    node.look_at_use = look(seen(GPU.replace("GPU-", "MIG-"), 0, 0.7), seen(OTHER, 1, 0.1), alone=(record(31, "1"),))
    values = node.look()
    assert values[table.USE] == {(GPU,): 0.7, (OTHER,): 0.1}
    assert values[table.ALONE] == {(GPU,): 0.0, (OTHER,): 1.0}
    node.look_at_use = look(seen(OTHER, 1, None))
    assert node.look()[table.USE] == {}


def test_whose_gpu_one_is_is_missing_where_a_job_may_have_it(node: Node) -> None:
    instances = [{**seen(each, 0, None), "mig": True} for each in (GPU, OTHER)]
    node.look_at_use = Look(instances, {}, frozenset({"31"}))
    assert node.look()[table.ALONE] == {}
    node.look_at_use = Look(instances, {})
    assert node.look()[table.ALONE] == {(GPU,): 0.0, (OTHER,): 0.0}


def test_memory_of_jobs_and_gpus(node: Node) -> None:
    node.client(1, node.job(12, memory={"peak_bytes": 9, "limit_bytes": 10, "refused": 2}))
    node.client(2, node.job(18, 8, memory={"peak_bytes": 7, "limit_bytes": None, "refused": 0}))
    values = node.look()
    high, low = ("12", "4711", "1"), ("18", "4711", "8")
    assert values[table.PEAK] == {high: 9, low: 7}
    assert values[table.LIMIT] == {high: 10}
    assert values[table.REFUSED] == {high: 2, low: 0}
    assert values[table.SIZE] == {(GPU,): 2**34}


def test_a_promise_is_counted_when_its_job_is_over(node: Node) -> None:
    for number, kept in enumerate((True, True, False, None)):
        node.meter.job_ended(
            node.job(number, max_slowdown=0.05, kept=kept, kept_unknown="" if kept is not None else "too_close")
        )
    node.meter.job_ended(node.job(5))  # without any
    node.jobs.clear()
    values = node.look()
    assert [values[metric][()] for metric in (table.KEPT, table.EXCEEDED, table.UNKNOWN, table.ENDED)] == [2, 1, 1, 5]


def test_a_counter_never_goes_back(node: Node) -> None:
    job = node.job(12, gpu_time_s=None, gpu_time_at_most_s=3.0)
    node.client(1, job)
    node.ran(1, 3)
    node.look()
    node.ran(1, 2)
    job.said["gpu_time_s"] = 2.0
    values = node.look()
    assert (values[table.GPU_TIME], values[table.JOB_TIME]) == ({(GPU,): 3.0}, {("12", "4711", "1"): 3.0})


def test_one_look_serves_all_who_ask_meanwhile(node: Node) -> None:
    node.job(12)
    first = node.look()
    node.jobs.clear()
    assert node.meter.values() is first
    node.now_s += meter.FRESH_S
    assert node.meter.values() is not first


def test_programs_cannot_make_up_gpus_without_end(node: Node) -> None:
    job = node.job(12)
    for number in range(GPUS.all + 5):
        node.client(number, job, gpu=f"made up {number}")
        node.meter.went(number, node.stats[number])
    values = node.look()
    assert len(values[table.GPU_TIME]) == GPUS.all + 1
    assert (meter.OTHER,) in values[table.GPU_TIME]
