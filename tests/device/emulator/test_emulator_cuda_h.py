"""The emulator's own declarations against an installed cuda.h, where there is one: numbers, layouts, parameters.

Any toolkit will do, also the `nvidia-cuda-runtime` wheel: CUDA_HEADERS names the folder with cuda.h.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import ROOT

LIBCUDA = ROOT / "emulator/libcuda"
PLACES = (os.environ.get("CUDA_HEADERS"), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include", "/usr/include")
HEADERS = next((Path(place) for place in PLACES if place and Path(place, "cuda.h").is_file()), None)
OWN_HEADERS = sorted(LIBCUDA.rglob("*_api.hpp"))
OWN_DECLARATIONS = "\n".join(header.read_text() for header in OWN_HEADERS)
# Where the emulator's form is its own: only the parts that it uses have names.
ONLY_PLACES = {"CUgraphNodeParams"}  # its members are structures of which the last members may be missing
ONLY_SIZES = {"CUDA_RESOURCE_DESC", "CUstreamBatchMemOpParams", "CUuuid"}

# Prints what both headers say about the same names; a name that the header does not know is left out.
TOOLS = """
#include <cstddef>
#include <cstdio>
#include <type_traits>
template <typename T> char kind() {
  if (std::is_pointer_v<T>) return 'p';
  return static_cast<char>('0' + sizeof(T) % 10);  // of numbers and structures only the size matters
}
template <typename... A> void show(const char* name, CUresult (*)(A...)) {
  std::printf("%s (", name);
  const char kinds[] = {kind<A>()..., '\\0'};
  std::printf("%s)\\n", kinds);
}
#define SIZE(T) std::printf("%s %zu\\n", #T, sizeof(T));
#define FIELD(T, m) \\
  [](auto t) { using S = decltype(t); \\
    if constexpr (requires { S::m; }) std::printf("%s.%s %zu %zu\\n", #T, #m, offsetof(S, m), sizeof(S::m)); }(T{});
#define PLACE(T, m) \\
  [](auto t) { using S = decltype(t); \\
    if constexpr (requires { S::m; }) std::printf("%s.%s %zu\\n", #T, #m, offsetof(S, m)); }(T{});
#define VALUE(e) std::printf("%s %lld\\n", #e, static_cast<long long>(e));
"""


def own_functions() -> dict[str, list[str]]:
    """Name -> parameter types of every entry point that the emulator defines."""
    generator = runpy.run_path(str(LIBCUDA / "generate.py"))
    found = {}
    for source in sorted(LIBCUDA.rglob("*.cpp")):
        for match in generator["DEFINITION"].finditer(source.read_text()):
            found[match[1]] = generator["parameters"](match[2])
    return found


def structures() -> dict[str, list[str]]:
    """Name -> fields."""
    found = {}
    for name, body in re.findall(
        r"^struct (CU\w+)(?: : \w+)? \{\n(.*?)^\};", OWN_DECLARATIONS, re.DOTALL | re.MULTILINE
    ):
        code = re.sub(r"//[^\n]*", "", body)
        members = [part.strip() for line in code.split(";") for part in line.split(",")]
        found[name] = [m[0] for m in (re.findall(r"(\w+)(?:\[\w+\])?$", member) for member in members) if m]
    return found


def values() -> list[str]:
    return re.findall(r"^  (CU\w+) = \d+", OWN_DECLARATIONS, re.MULTILINE)


def body(declared: dict[str, list[str]]) -> str:
    lines = [f"VALUE({name})" for name in values()]
    for name, fields in structures().items():
        lines.append(f"SIZE({name})")
        kind = "PLACE" if name in ONLY_PLACES else "FIELD"
        lines += [f"{kind}({name}, {field})" for field in fields if name not in ONLY_SIZES and field != "reserved"]
    lines += [f'show("{name}", &{name});' for name in declared]
    return "int main() {\n" + "\n".join(lines) + "\n}\n"


def said(cc: Callable[..., Path], source: Path, *flags: str) -> dict[str, str]:
    # The functions' addresses are taken, nothing is called: they need not exist.
    program = cc(source, "-std=c++20", "-w", "-Wl,--unresolved-symbols=ignore-all", "-no-pie", *flags)
    out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines())


def test_declarations_are_found() -> None:
    assert len(own_functions()) > 200
    assert len(values()) > 30
    assert {"hStream", "numAttrs"} <= set(structures()["CUlaunchConfig"])


@pytest.mark.skipif(HEADERS is None, reason="no cuda.h is installed here")
def test_own_declarations_are_those_of_cuda_h(cc: Callable[..., Path], tmp_path: Path) -> None:
    assert HEADERS is not None
    declared_there = (HEADERS / "cuda.h").read_text()
    functions = {
        name: types for name, types in own_functions().items() if re.search(rf"CUDAAPI {name}\(", declared_there)
    }
    assert len(functions) > 180
    prototypes = [f"CU_EXPORT CUresult {name}({', '.join(types)});" for name, types in functions.items()]
    own, theirs = tmp_path / "own.cpp", tmp_path / "theirs.cpp"
    includes = [f'#include "{header.relative_to(LIBCUDA.parent)}"' for header in OWN_HEADERS] + [
        '#include "libcuda/context/context.hpp"',
        "using namespace emu;",
    ]
    own.write_text("\n".join([*includes, *prototypes, TOOLS, body(functions)]))
    theirs.write_text("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n" + TOOLS + body(functions))
    ours = said(cc, own, f"-I{LIBCUDA.parent}")
    cuda_h = said(cc, theirs, f"-I{HEADERS}")
    assert {name: ours[name] for name in cuda_h} == cuda_h
    assert len(cuda_h) > 300


@pytest.mark.skipif(HEADERS is None, reason="no cuda.h is installed here")
def test_every_function_of_cuda_h_has_a_name_in_the_emulator() -> None:
    assert HEADERS is not None
    text = (HEADERS / "cuda.h").read_text()
    version = re.search(r"#define CUDA_VERSION (\d+)", text)
    assert version is not None
    if int(version[1]) > 13050:
        pytest.skip("it is newer than driver_api/symbols.txt: run driver_api/extract.py with it")
    declared = set(re.findall(r"CUDAAPI (cu\w+)\(", text))
    assert declared - set((ROOT / "driver_api/symbols.txt").read_text().split()) == set()
