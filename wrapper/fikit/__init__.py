"""fikit from Python: `fikit.report(12)`, `fikit.jobs()`, `fikit.node()` (docs/python.md), and the command line, which is built on them.

What there is stands in fikit.library; it is loaded when a name is first used: fikit's programs begin here, and are quick, and quiet on Ctrl-C.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it: what is loaded here is loaded before Ctrl-C is quiet
if TYPE_CHECKING:
    from fikit.library import *  # noqa: F403
    from fikit.library import __all__ as __all__
else:  # to a type checker a module with such a function has every name

    def __getattr__(name: str) -> object:
        import importlib.util  # noqa: PLC0415

        internal = name.startswith("__") and name != "__all__"  # Python asks for such names: nothing is loaded for that
        if not internal and importlib.util.find_spec(f"{__name__}.{name}"):  # `from fikit import cli` asks here first
            return importlib.import_module(f"{__name__}.{name}")
        library = None if internal else importlib.import_module("fikit.library")
        if library is None or name not in {*library.__all__, "__all__"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(library, name)

    def __dir__() -> list[str]:
        import importlib  # noqa: PLC0415

        return sorted({*globals(), *importlib.import_module("fikit.library").__all__})
