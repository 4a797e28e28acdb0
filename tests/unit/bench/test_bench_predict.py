"""`python -m bench predict`: what it calls an error, a gap and a boundary, and what the predictor must reach on recordings."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import recordings
from bench.record import ROOT, BenchError
from bench.scheduling import predict, timeline

# Those that the figures are about; others may behave otherwise.
NAMES = [
    "2080ti_mlp_train", "2080ti_resnet18_train", "a100_resnet50_ddp_train", "h100_bertsmall_infer",
    "h100_qwen0.5b_infer", "h100_timesformer_infer", "h100_vit_nsfw_infer", "v100_dlrm_step",
    "v100_resnet50_ddp_train", "v100_resnet50_train_w0", "v100_resnet50_train_w4",
]  # fmt: skip


def recording(*kernels: tuple[str, float, float, int]) -> bytes:
    """Text of kernels (name, start, duration, stream), in us, in the order of their launches."""
    names = sorted({kernel[0] for kernel in kernels})
    lines = [f"#N {i} {name}" for i, name in enumerate(names)]
    for name, start, duration, stream in kernels:
        lines.append(f"K,0,1,{start},{duration},{stream},8,1,1,64,1,1,32,0,,{names.index(name)},0")
    return "\n".join([*lines, ""]).encode()


def traced(name: str) -> dict[str, Any]:
    path = recordings.RECORDED / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip("the recorded traces are not beside the repository")
    row, _ = predict._recording(name, gzip.decompress(path.read_bytes()))
    return row


def test_a_gap_ends_with_the_next_kernel_of_any_stream_and_begins_when_all_are_done() -> None:
    text = recording(("a", 0, 10, 1), ("b", 5, 20, 2), ("a", 40, 10, 1), ("c", 50, 1, 1))
    assert [k.gap_ns for k in timeline.launches("t", text)] == [0, 15_000, 0, None]


def test_context_is_that_of_the_stream() -> None:
    text = recording(
        *[(name, 10 * i, 1, stream) for i, (name, stream) in enumerate(zip("abcdef", [1, 2] * 3, strict=True))]
    )
    a, b, c, d, e, _ = timeline.launches("t", text)
    assert e.context == (a.identity, c.identity)
    assert d.context == (b.identity,)


def test_errors_are_relative_but_not_finer_than_what_profilers_record() -> None:
    text = recording(*[("a", 100 * i, duration, 1) for i, duration in enumerate((1.0, 1.0, 0.0, 1.0))])
    row, _ = predict._recording("t", text)
    assert (row["mean_0"]["error_p50"], row["mean_0"]["known"]) == (0.5, 1.0)


def test_unknown_kernels_are_counted_and_have_no_error() -> None:
    row, _ = predict._recording("t", recording(*[(name, 10 * i, 5, 1) for i, name in enumerate("aaab")]))
    assert row["model"]["known"] == 0.5
    assert row["model"]["context"]["-1"] == 0.5


@pytest.mark.parametrize("text", [b"", b"#N 0 a\nK,1,2\n", b"K,0,1,0,1,7,1,1,1,1,1,1,0,0,,5,0\n"])
def test_what_is_no_recording_is_named(text: bytes) -> None:
    with pytest.raises(BenchError, match=r"^t: "):
        timeline.launches("t", text)


@pytest.mark.starts_processes
def test_the_bench_keeps_its_table_and_samples_and_predictions_allocate_nothing(tmp_path: Path) -> None:
    (tmp_path / "made.csv").write_bytes(recordings.training(1).text())
    file = tmp_path / "predict.json"
    command = [sys.executable, "-m", "bench", "predict", "--traces", str(tmp_path), "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "made " in done.stdout
    record = json.loads(file.read_text())
    assert record["values"]["predict_allocations"] == 0
    assert {name: len(rounds) for name, rounds in record["samples"].items()} == dict.fromkeys(
        ("predict_ns", "learn_ns", "crowded_predict_ns", "crowded_learn_ns"), 300
    )
    (row,) = record["traces"]
    assert row["kernels"] == len(timeline.launches("made", recordings.training(1).text()))
    assert row["model"]["boundaries"]["real"] >= 1


@pytest.mark.starts_processes
def test_the_bench_program_says_when_there_is_nothing_to_measure(native: Path) -> None:
    done = subprocess.run([native / "bin/fikit-predict-bench"], input="x", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "couldn't read a launch" in done.stderr


def test_resnet50_is_predicted_within_6_percent_and_its_long_gaps_are_found() -> None:
    row = traced("v100_resnet50_train_w0")
    assert row["model"]["error_p90"] <= 0.04  # a running mean of the same context: 0.056
    assert row["model"]["long_gaps"]["precision"] >= 0.9
    assert row["model"]["long_gaps"]["recall"] >= 0.89


@pytest.mark.parametrize("name", NAMES)
def test_no_recording_is_predicted_worse_than_by_running_means(name: str) -> None:
    row = traced(name)
    for plain in ("mean_0", "mean_3"):
        assert row["model"]["error_p90"] <= row[plain]["error_p90"] + 0.005
        assert (row["model"]["long_gaps"]["precision"] or 1) >= (row[plain]["long_gaps"]["precision"] or 0)
    assert row["learning"]["error_p90"] <= row["model"]["error_p90"] + 0.005
