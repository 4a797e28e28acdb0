"""Reads facts out of a shared library without loading it (a plugin's undefined symbols make that impossible).

Layouts: elf(5), and "Symbol Versioning" of the Linux Standard Base for the version references.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

SHT_DYNSYM, SHT_GNU_VERNEED = 11, 0x6FFFFFFE
SECTION = struct.Struct(
    "<IIQQQQIIQQ"
)  # Elf64_Shdr: name, type, flags, addr, offset, size, link, info, addralign, entsize
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, shndx, value, size

DAMAGE = (struct.error, IndexError, OverflowError)  # what reading at a wrong place raises
VERNEED = struct.Struct("<HHIII")  # Elf64_Verneed: version, count, file, aux, next
VERNAUX = struct.Struct("<IHHII")  # Elf64_Vernaux: hash, flags, other, name, next


MAGIC_64 = b"\x7fELF\x02"


def is_64_bit(path: Path) -> bool:
    """Whether `path` begins as a 64-bit ELF file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC_64)) == MAGIC_64


def constant(path: Path, name: str) -> int:
    """The value of the exported `uint32_t name`. Raises ValueError when `path` is no 64-bit ELF file or has none."""
    data, sections = _open(path)
    try:
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind != SHT_DYNSYM:
                continue
            for label, _, _, where, address, _ in SYMBOL.iter_unpack(data[offset : offset + size]):
                if _text(data, sections[link][4] + label) == name:
                    section = sections[where]
                    value: int = struct.unpack_from("<I", data, section[4] + address - section[3])[0]
                    return value
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged") from error
    raise ValueError(f"{path} does not export {name}")


def exported(path: Path) -> set[str]:
    """Names that `path` offers to other libraries. Raises ValueError as above."""
    data, sections = _open(path)
    names = set()
    try:
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind == SHT_DYNSYM:
                symbols = SYMBOL.iter_unpack(data[offset : offset + size])
                names |= {_text(data, sections[link][4] + label) for label, _, _, where, *_ in symbols if where}
    except (*DAMAGE, ValueError) as error:
        raise ValueError(f"{path} is damaged") from error
    return names


def needed_versions(path: Path) -> set[str]:
    """Names of the symbol versions that other libraries must provide, such as GLIBC_2.17. Raises ValueError as above."""
    data, sections = _open(path)
    names = set()
    try:
        for _, kind, _, _, start, _, link, *_ in sections:
            library, step = start, 1 if kind == SHT_GNU_VERNEED else 0
            while step:
                _, count, _, aux, step = VERNEED.unpack_from(data, library)
                entry = library + aux
                for _ in range(count):
                    _, _, _, name, following = VERNAUX.unpack_from(data, entry)
                    names.add(_text(data, sections[link][4] + name))
                    entry += following
                library += step
    except (*DAMAGE, ValueError) as error:
        raise ValueError(f"{path} is damaged") from error
    return names


def _open(path: Path) -> tuple[bytes, list[tuple[int, ...]]]:
    """The file and its section headers."""
    data = path.read_bytes()
    if not data.startswith(MAGIC_64):
        raise ValueError(f"{path} is no 64-bit ELF file")
    try:
        return data, list(_sections(data))
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged") from error


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode(errors="replace")


def _sections(data: bytes) -> Iterator[tuple[int, ...]]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for index in range(count):
        yield SECTION.unpack_from(data, offset + index * size)
