"""A bench's file is read and written alike, plain and compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bench import record
from bench.record import BenchError

TEXT = '{"bench": "a", "values": [1, 2]}'


@pytest.mark.parametrize("name", ["a-b.json", "a-b.json.gz"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    record.write_whole(tmp_path / name, TEXT)
    assert record.read(tmp_path / name) == {"bench": "a", "values": [1, 2]}
    assert record.stem(tmp_path / name) == "a-b"
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_compressed_file_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        record.write_whole(tmp_path / name, TEXT)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(packed).decode() == TEXT
    assert packed == (tmp_path / "b.json.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # no moment in the header: git sees no change where there is none


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("a.json", b"{", "Expecting"),
        ("a.json", b"\xff", "codec"),
        ("a.json", b"[1]", "no JSON object"),
        ("a.json.gz", b"{}", "gzip"),
        ("a.json.gz", gzip.compress(b"{}", mtime=0)[:-4], "ended"),
        ("a.json.gz", gzip.compress(b"[]", mtime=0), "no JSON object"),
        ("a.json.gz", b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 9, "invalid"),
    ],
)
def test_a_broken_file_is_refused_in_a_sentence(tmp_path: Path, name: str, content: bytes, cause: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BenchError, match=f"couldn't read .*{name}: .*{cause}"):
        record.read(file)


def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"couldn't read .*none\.json\.gz: .*No such file"):
        record.read(tmp_path / "none.json.gz")
