"""fikit from Python: `fikit.report(12)`, `fikit.jobs()`, `fikit.node()` (docs/python.md), and the command line, which is built on them.

What there is stands in fikit.api; it is loaded when a name is first used: fikit's programs begin here, and are quick, and quiet on Ctrl-C.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fikit.api import *  # noqa: F403
    from fikit.api import __all__ as __all__
else:  # to a type checker a module with such a function has every name

    def __getattr__(name: str) -> Any:
        internal = name.startswith("__") and name != "__all__"  # Python asks for such names: nothing is loaded for that
        api = None if internal else importlib.import_module("fikit.api")
        if api is None or name not in {*api.__all__, "__all__"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(api, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *importlib.import_module("fikit.api").__all__})
