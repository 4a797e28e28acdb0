"""Reads a 32-bit constant out of a shared library without loading it (a plugin's undefined symbols make that impossible)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

SHT_DYNSYM = 11
SECTION = struct.Struct(
    "<IIQQQQIIQQ"
)  # Elf64_Shdr: name, type, flags, addr, offset, size, link, info, addralign, entsize
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, shndx, value, size


def constant(path: Path, name: str) -> int:
    """The value of the exported `uint32_t name`. Raises ValueError when `path` is no 64-bit ELF file or has none."""
    data = path.read_bytes()
    try:
        if data[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path} is no 64-bit ELF file")
        sections = list(_sections(data))
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind != SHT_DYNSYM:
                continue
            for label, _, _, where, address, _ in SYMBOL.iter_unpack(data[offset : offset + size]):
                start = sections[link][4] + label
                if data[start : data.index(b"\0", start)] == name.encode():
                    section = sections[where]
                    value: int = struct.unpack_from("<I", data, section[4] + address - section[3])[0]
                    return value
    except (struct.error, IndexError) as error:
        raise ValueError(f"{path} is damaged") from error
    raise ValueError(f"{path} does not export {name}")


def _sections(data: bytes) -> Iterator[tuple[int, ...]]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for index in range(count):
        yield SECTION.unpack_from(data, offset + index * size)
