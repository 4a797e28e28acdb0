"""Recordings that are odd, huge or broken: the right answer, or one sentence."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fikitd import paths

sys.path.insert(0, str(ROOT))
from bench import recordings
from bench.record import BenchError

HEADER = "type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid"
NAMES = "#N 0 gemm<float, 4>(int, char const*)\n#N 1 Memcpy HtoD (Pinned -> Device)\n#N 2 cudaDeviceSynchronize\n"


def replay(text: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [paths.native_dir() / "bin/fikit-replay", "model"]
    return subprocess.run(command, input=text, capture_output=True, check=False, timeout=100)


def played(text: bytes) -> dict[str, Any]:
    done = replay(text)
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


def ratio(text: bytes) -> float:
    answer = played(text)
    return float(answer["replayed_ms"] / answer["recorded_ms"])


def kernel(host: float, start: float, duration: float = 10.0, *, stream: object = 7, call: float = 5.0) -> str:
    return f"K,{host},{call},{start},{duration},{stream},8,1,1,64,1,1,32,0,,0,0\n"


def lines(*rows: str) -> bytes:
    return (NAMES + "".join(rows)).encode()


@pytest.mark.parametrize("shape", sorted(recordings.SHAPES))
def test_made_up_recording_takes_as_long_again(shape: str) -> None:
    for seed in (1, 2):
        assert 0.97 < ratio(recordings.SHAPES[shape](seed).text()) < 1.03


@pytest.mark.parametrize("origin", [-5e6, 1.7e15])
def test_times_may_have_any_origin(origin: float) -> None:
    def recording(zero: int) -> bytes:
        return lines(*(kernel(zero + 20 * i, zero + 20 * i + 8) for i in range(50)))

    assert played(recording(int(origin))) == played(recording(0))


def test_device_clock_that_is_behind_is_put_right() -> None:
    rows = [(20 * i, 20 * i + 8) for i in range(50)]
    skewed = played(lines(*(kernel(host, start - 3000) for host, start in rows)))
    straight = played(lines(*(kernel(host, start - 8) for host, start in rows)))
    assert skewed == straight


def test_lines_may_come_in_any_order() -> None:
    rows = recordings.training(1).text().decode().splitlines()
    names = [row for row in rows if row.startswith("#N")]
    events = [row for row in rows if not row.startswith("#N")]
    random.Random(1).shuffle(events)
    assert played("\n".join([*names, *events]).encode())["replayed_ms"] == pytest.approx(
        played("\n".join(rows).encode())["replayed_ms"], rel=1e-3
    )


def test_windows_line_ends_header_and_comments_are_read_over() -> None:
    text = lines(kernel(0, 8), kernel(20, 28)).decode()
    odd = "# made by hand\n" + HEADER + "\n" + text + "\n# the end"
    assert played(odd.replace("\n", "\r\n").encode()) == played(text.encode())


def test_more_streams_than_the_model_has() -> None:
    assert ratio(lines(*(kernel(20 * i, 20 * i + 8, stream=i) for i in range(2000)))) == pytest.approx(1, abs=0.001)


def test_a_hundred_streams_run_side_by_side() -> None:
    rows = [kernel(10 * i, 10 * i + 8, 50_000, stream=1000 * i) for i in range(100)]
    assert ratio(lines(*rows)) == pytest.approx(1, abs=0.001)


def test_copies_that_ran_beside_each_other_do_so_again() -> None:
    rows = [f"M,{i},1,{i + 5},1000,{i},,,,,,,32,0,999,1,0\n" for i in range(6)]
    assert ratio(lines(*rows)) == pytest.approx(1, abs=0.001)


def test_kernels_that_take_no_time_and_one_that_does() -> None:
    rows = [kernel(10 * i, 10 * i + 8, 0) for i in range(10)]
    assert ratio(lines(*rows, kernel(100, 108, 5))) == pytest.approx(1, abs=0.01)


def test_hundreds_of_thousands_of_events() -> None:
    rows = [kernel(6 * i, 10 * i + 8, 9) for i in range(300_000)]
    answer = played(lines(*rows))
    assert answer["events"] == 300_000
    assert answer["replayed_ms"] == pytest.approx(answer["recorded_ms"], rel=0.01)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "nothing in it ran on the device"),
        (lines("S,0,5,,0.0,,,,,,,,,,,2,0\n"), "nothing in it ran on the device"),
        (lines(kernel(0, 8, 0)), "nothing in it takes time"),
        (lines("K,0,5,8\n"), "line 4: it has 4 fields instead of 17"),
        (lines(kernel(0, 8).strip() + ",9\n"), "line 4: it has 18 fields instead of 17"),
        (HEADER.replace("host_ts,host_dur", "host_dur,host_ts").encode(), "line 1: the columns are not type,host_ts"),
        (lines(kernel(0, 8, -1)), "'-1' in column 5 is no number of us of at least 0"),
        (lines("K,0,5,,10,7,1,1,1,64,1,1,32,0,,0,0\n"), "'' in column 4 is no time in us"),
        (lines("K,nan,5,8,10,7,1,1,1,64,1,1,32,0,,0,0\n"), "'nan' in column 2 is no time in us"),
        (lines("K,1e3,5,8,10,7,1,1,1,64,1,1,32,0,,0,0\n"), "'1e3' in column 2 is no time in us"),
        (lines(kernel(0, 8, stream=7.5)), "'7.5' in column 6 is no whole number"),
        (lines(kernel(0, 8, stream="9" * 30)), "in column 6 is no whole number"),
        (lines("K,0,5,8,10,7,9999999999,1,1,64,1,1,32,0,,0,0\n"), "column 7 is no whole number from 0 to 4294967295"),
        (lines("K,0,5,8,10,7,1,1,1,64,1,1,32,0,,77,0\n"), "line 4: no #N line before it gives the name 77"),
        (lines("X,0,5,8,10,7,1,1,1,64,1,1,32,0,,0,0\n"), "line 4: its type is 'X' and not K, M or S"),
        (b"#N zero gemm\n", "line 1: a name is written #N ID NAME"),
        (lines(kernel(0, 8, 10**15), kernel(0, 8, 10**15)), "it takes more than 30 years"),
        (lines(kernel(0, 4 * 10**15)), "it takes more than 30 years"),
        (gzip.compress(lines(kernel(0, 8)), mtime=0), "line 1: it is compressed"),
    ],
)
def test_unusable_recording_is_one_sentence(text: bytes, complaint: str) -> None:
    done = replay(text)
    assert (done.returncode, done.stdout) == (1, b"")
    message = done.stderr.decode()
    assert message.startswith("fikit-replay: couldn't use ")
    assert complaint in message
    assert len(message.splitlines()) == 1


number = st.one_of(
    st.integers(-10, 10**6).map(str),
    st.floats(0, 1e6, allow_nan=False).map(lambda value: f"{value:.3f}"),
    st.sampled_from(["", "0", "-1", "nan", "inf", "1e9", "9" * 19, "4" * 16, "0.0004", ".5", "5.", "--1", "7 "]),
)
row = st.one_of(
    st.tuples(st.sampled_from("KMS"), st.lists(number, min_size=16, max_size=16)).map(
        lambda r: ",".join([r[0], *r[1]])
    ),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(-3, 800), st.integers(0, 5)).map(
        lambda r: kernel(r[0], r[0] + r[1], r[1], stream=r[2], call=r[3]).strip()
    ),
    st.text(max_size=40),
    st.just("S,10,5,,0.0,,,,,,,,,,,2,0"),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(row, max_size=30))
def test_whatever_it_is_given_it_answers_or_says_why(rows: list[str]) -> None:
    done = replay((NAMES + "\n".join(rows)).encode())
    if done.returncode == 0:
        answer = json.loads(done.stdout)
        assert answer["recorded_ms"] > 0
        assert answer["replayed_ms"] >= 0
    else:
        message = done.stderr.decode(errors="replace")
        assert done.returncode == 1
        assert message.startswith("fikit-replay: couldn't ")
        assert message.count("\n") == 1


def test_folder_with_files_of_any_name(tmp_path: Path) -> None:
    text = recordings.inference(1).text()
    (tmp_path / "a.csv").write_bytes(gzip.compress(text))  # its name does not say that it is compressed
    (tmp_path / "a.csv.gz").write_bytes(text)
    (tmp_path / "b b.csv").write_bytes(text)
    (tmp_path / "c.csv").mkdir()
    (tmp_path / "notes.txt").write_text("no recording")
    assert recordings.recordings(tmp_path) == dict.fromkeys(("a.csv", "a.csv.gz", "b b"), text)
    assert recordings.recordings(tmp_path / "b b.csv") == {"b b": text}


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage", gzip.compress(b"x" * 1000, mtime=0)[:-20]]
)
def test_damaged_compressed_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv.gz").write_bytes(content)
    with pytest.raises(BenchError, match=r"couldn't read .*a\.csv\.gz: "):
        recordings.recordings(tmp_path)


def test_bench_names_the_recording_that_it_could_not_play(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_bytes(recordings.inference(1).text())
    (tmp_path / "odd.csv").write_bytes(b"1,2,3\n")
    command = [sys.executable, "-m", "bench", "replay", "--traces", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "bench replay: odd: fikit-replay: couldn't use line 1: it has 3 fields instead of 17\n"
