"""What `fikit top` shows: the difference of two looks at counters, and what it looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fikit.api import node_use, node_view
from fikit.reporters import top
from fikit.site_paths import Place
from fikitd.api.client import DaemonUnreachable
from node_looks import GPU, client, look, spent, strangers
from pictures import drawn, matches


def only_gpu(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    [gpu] = node_use.between(before, after)["gpus"]
    return dict(gpu)


def test_a_name_without_room_ends_in_an_ellipsis_on_the_line_of_its_job() -> None:
    one = look(10, client(1, job_time=spent(9)) | {"name": "resnet50-lr0.01-batch256-seed17-fold3-" * 3})
    for width, said in ((60, "12 "), (100, "12 res"), (200, "12 resnet50-lr0.01")):
        rows = [row for row in drawn(top.view(node_use.between(one, one)), width).splitlines() if "high" in row]
        assert len(rows) == 1
        assert rows[0].strip().startswith(said)
        assert "…" in rows[0]


def test_shares_are_of_the_time_between_the_looks() -> None:
    before = look(
        10,
        client(1, gpu_time_s=5.0, kernels=100, job_time=spent(9, waited_s=1.0)),
        client(2, "13", 8, gpu_time_s=1.0, job_time=spent(4, delayed_s=1.0, waited_s=1.0)),
    )
    after = look(
        12,
        client(1, gpu_time_s=5.8, kernels=700, job_time=spent(11, 1.04, waited_s=1.2, host_s=0.1), others_kernels=50),
        client(2, "13", 8, gpu_time_s=1.6, job_time=spent(6, delayed_s=0.9, waited_s=2.5)),
    )
    gpu = only_gpu(before, after)
    high, low = gpu["jobs"]
    assert (high["job"], low["job"]) == ("12", "13")
    assert (high["device_share"], low["device_share"]) == pytest.approx((0.4, 0.3))
    shares = {"alone": 0.85, "waited": 0.1, "delayed": 0.0, "host": 0.05, "unexplained": 0.0}
    assert high["shares"] == pytest.approx(shares)
    assert (low["shares"]["waited"], low["shares"]["delayed"]) == pytest.approx((0.75, 0)), "a part became less: none"
    assert (high["job_time"]["slowdown"], low["job_time"]["slowdown"]) == (1.04, None), "so far"
    assert (high["launches_per_s"], high["others_kernels_per_s"]) == pytest.approx((300, 25))
    assert (gpu["device_share"], gpu["harvest"]) == pytest.approx((0.7, 0.5))


def test_processes_of_a_job_are_one_row() -> None:
    before = look(0, client(1), client(2))
    job_time = spent(1, waited_s=0.5)
    after = look(
        1,
        client(1, gpu_time_s=0.2, job_time=job_time),
        client(2, gpu_time_s=0.3, memory_bytes=2**31, job_time=job_time),
    )
    [job] = only_gpu(before, after)["jobs"]
    assert (job["device_share"], job["memory_bytes"]) == pytest.approx((0.5, 3 * 2**30))
    assert job["shares"] is None, "the look before was a fikitd's that does not say it"
    assert job["pids"] == [101, 102]


def test_a_client_that_came_meanwhile_counts_from_its_beginning() -> None:
    [job] = only_gpu(look(0), look(1, client(7, gpu_time_s=0.25, kernels=10)))["jobs"]
    assert (job["device_share"], job["launches_per_s"]) == (0.25, 10)


@pytest.mark.parametrize(
    ("then", "now", "share"), [(None, 1.0, None), (1.0, None, None), (2.0, 1.5, 0.0), (0.0, 9.0, 1.0)]
)
def test_what_is_not_known_is_null_and_an_estimate_stays_in_its_bounds(
    then: float | None, now: float | None, share: float | None
) -> None:
    gpu = only_gpu(look(0, client(1, gpu_time_s=then)), look(1, client(1, gpu_time_s=now)))
    assert (gpu["jobs"][0]["device_share"], gpu["device_share"]) == (share, share)


def test_harvest_needs_two_priorities_and_what_both_did() -> None:
    alone = look(1, client(1, gpu_time_s=0.5), client(2, "13", gpu_time_s=0.1))
    assert only_gpu(look(0), alone)["harvest"] is None
    unknown = look(1, client(1, gpu_time_s=0.5), client(2, "13", 8, gpu_time_s=None))
    assert only_gpu(look(0), unknown)["harvest"] is None
    full = look(1, client(1, gpu_time_s=1.5), client(2, "13", 8, gpu_time_s=0.1))
    assert only_gpu(look(0), full)["harvest"] is None


def test_two_looks_at_the_same_moment_know_no_shares() -> None:
    [job] = only_gpu(look(3, client(1)), look(3, client(1)))["jobs"]
    assert (job["device_share"], job["shares"], job["launches_per_s"]) == (None, None, None)


def test_no_gpu_is_used_for_more_than_all_the_time() -> None:
    gpu = only_gpu(look(0), look(1, client(1, gpu_time_s=0.9), client(2, "13", 8, gpu_time_s=0.2)))
    assert gpu["device_share"] == 1.0


def test_another_users_job_has_a_share_and_nothing_else() -> None:
    gpu = only_gpu(look(0), look(1, client(1, gpu_time_s=0.5), strangers(2, "13", 8, 0.25)))
    assert gpu["jobs"][1] == {
        "job": "13", "uid": 0, "priority": 8, "priority_name": "low", "device_share": 0.25,
    }  # fmt: skip
    assert gpu["harvest"] == pytest.approx(0.5)


def test_a_gpu_that_only_programs_around_fikit_use_is_there() -> None:
    gpu = only_gpu(look(0), look(1, unmanaged=({"gpu": "GPU-b", "pid": 4711},)))
    assert (gpu["uuid"], gpu["unmanaged"], gpu["jobs"]) == ("GPU-b", [4711], [])


def test_the_table_looks_as_stored() -> None:
    after = look(
        1,
        client(
            1, gpu_time_s=0.42, kernels=18_234, others_kernels=900, name="[red]serve",
            job_time=spent(1, 1.0417, delayed_s=0.03, host_s=0.01),
        ),
        client(
            2, "13", 8, gpu_time_s=0.31, kernels=700, memory_limit_bytes=20 * 2**30, name="train",
            job_time=spent(1, waited_s=0.6, unexplained_s=0.07),
        ),
        strangers(3, "14", 8, None),
        unmanaged=({"gpu": "GPU-a", "pid": 4711},),
    )  # fmt: skip
    matches("top.txt", drawn(top.view(node_use.between(look(0), after)), 130))


def shared_by(*modes: str | None) -> tuple[dict[str, Any], str]:
    """What is known of a GPU whose jobs, each with one program, share it so, and its table."""
    told = [{} if mode is None else {"device_mode": mode} for mode in modes]
    clients = [client(number, str(number), **facts) for number, facts in enumerate(told, start=1)]
    use = node_use.between(look(0), look(1, *clients))
    return use["gpus"][0], drawn(top.view(use), 160)


def test_a_gpu_says_how_its_jobs_share_it() -> None:
    gpu, shown = shared_by("mps", "mps")
    assert (gpu["device_mode"], [job["device_mode"] for job in gpu["jobs"]]) == ("mps", ["mps", "mps"])
    assert "used 0 %, sharing: MPS" in shown
    assert "time slices" not in shown


def test_a_job_beside_mps_is_told_from_those_in_it() -> None:
    gpu, shown = shared_by("mps", "slices")
    assert gpu["device_mode"] == "mixed"
    assert [line.split()[-1] for line in shown.splitlines() if "serve" in line] == ["MPS", "slices"]


def test_programs_of_one_job_may_share_in_several_ways() -> None:
    both = (client(1, device_mode="mps"), client(2, device_mode="slices"))
    assert only_gpu(look(0), look(1, *both))["jobs"][0]["device_mode"] == "mixed"


def test_of_an_older_fikitd_nothing_is_said_about_how_a_gpu_is_shared() -> None:
    gpu, shown = shared_by(None, None)
    assert gpu["device_mode"] is None
    assert "sharing" not in shown


def test_a_gpu_says_what_was_measured_of_its_switch() -> None:
    def shown(known: dict[str, Any] | None) -> str:
        after = look(1, client(1))
        after["gpus"] = [{**GPU, "switch": known}]
        return drawn(top.view(node_use.between(look(0), after)), 160)

    known = {"switch_us": 50.4, "spread_us": 3.6, "samples": 40}
    assert "switch 50 us ± 4 (measured on this GPU in 40 changes)" in shown(known)
    assert "switch 50 us ± 4 (measured on this GPU before)" in shown({**known, "samples": 0})
    assert "switch" not in shown(None)


def test_a_node_without_sharing_jobs_says_so() -> None:
    assert "no job shares a GPU of this node now" in drawn(top.view(node_use.between(look(0), look(1))))


@pytest.mark.parametrize(
    ("clients", "shown"),
    [({"machine": [], "own": [1]}, "own"), ({"machine": [1], "own": [1]}, "machine"), ({"machine": [], "own": []}, "machine"),
     ({"own": []}, "own")],
)  # fmt: skip
def test_the_fikitd_that_has_jobs_is_the_one_that_is_watched(
    clients: dict[str, list[int]], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fikitd:
        def __init__(self, run_dir: Path) -> None:
            self.name = run_dir.name

        def node(self) -> dict[str, Any]:
            if self.name not in clients:
                raise DaemonUnreachable("fikitd does not answer")
            return {"clients": clients[self.name]}

    found = [Place(Path(name), Path(), Path()) for name in ("machine", "own")]
    monkeypatch.setattr(node_view, "places", lambda: found)
    monkeypatch.setattr(node_view, "Control", Fikitd)
    control, _ = node_view.first_look()
    assert control.name == shown
